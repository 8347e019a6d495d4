"""`drkit failover`: walks the table of steps with a journal, forwards or back.

The interpreter, the connections it works with, the report, pending fences, and the generated tables of the
documentation. What a single step does belongs to :mod:`drkit.failover.steps`; nothing here prints.
"""
