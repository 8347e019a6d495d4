"""The steps of a failover.

A step acts, proves and undoes; the order, repetition and journal are the interpreter's. None depends on
the result of another but by the journal.
"""
