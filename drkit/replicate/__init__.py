"""The Spark jobs: replicate, and what they stand on (leases, copier, offset map, topic sync)."""
