"""Tests of the offset map."""
