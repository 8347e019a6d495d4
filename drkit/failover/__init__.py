"""Failover: one table of steps, an interpreter with a journal, and a file for each step."""
