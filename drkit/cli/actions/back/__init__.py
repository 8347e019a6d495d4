"""The way back to the old primary: reprotect, failback.

What a person decides is read or asked here; nothing is decided without a person.
"""
