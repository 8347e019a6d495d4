"""Consumer groups over raw requests: list, describe, read and change committed offsets, remove members.

Coordinators are found and asked many groups at a time; `tail` follows the log of committed offsets instead.
Whether an offset may be written is not decided here.
"""
