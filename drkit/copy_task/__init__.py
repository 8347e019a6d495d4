"""One epoch of copying: a Spark task from its assignment to its report.

`copier` joins the reading and the writing side, `control` ends it early, `report` says what was done. Spark
itself is not imported, and plans are not made here.
"""
