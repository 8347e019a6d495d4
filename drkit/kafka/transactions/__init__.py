"""Transactions by hand: a producer whose steps are single requests, markers, and open transactions.

The caller times and orders each step. No retry hides a fenced or unknown result.
"""
