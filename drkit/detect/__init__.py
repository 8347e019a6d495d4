"""Is the primary lost? Pure rules, thin probes, and what observers tell each other."""
