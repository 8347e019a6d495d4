"""Consumer groups during a failover: their positions, members and open commits.

Positions are read on both sides, written and read back; members are removed; a fenced group is awaited.
Nothing here decides when: that is up to the steps.
"""
