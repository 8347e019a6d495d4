"""The writing side of a copy task: live appends, bulk transactions, and settling where a partition continues.

Each append is idempotent or transactional, with its map records; the resolver asks the target's leaders
before a partition continues. Nothing is read from the source here.
"""
