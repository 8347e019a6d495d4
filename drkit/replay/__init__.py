"""Appends the old primary's tail, from an export, to the new primary: each record once, whatever is killed.

A replay compares first: a record that the new primary has already is not sent again. May use the new primary
and an export's files, never the old primary, and no step of a failover.
"""
