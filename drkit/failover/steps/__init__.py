"""The steps of a failover, one file each, and the table that finds them.

A step acts, proves and undoes; the order, repetition and journal are the interpreter's. Besides the table,
none imports another.
"""
