"""How answers look: live pictures on a terminal, and reports as text.

Screens get models and return text or pictures. They ask no cluster and decide nothing.
"""
