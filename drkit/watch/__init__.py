"""`drkit watch` and `drkit fence-agent`: detection at work, and what it may set off.

Observers, their claims and announcements, mode auto, and the agent beside a primary. No rule and no step is
here: the rules are in :mod:`drkit.detect`, the failover itself in :mod:`drkit.failover`.
"""
