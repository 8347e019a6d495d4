"""A flow's state on the target: its topics and transactional ids by name, its records by type."""
