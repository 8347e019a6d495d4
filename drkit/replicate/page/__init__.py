"""The live page of a replicating process: one file, read-only, nothing loaded from elsewhere."""
