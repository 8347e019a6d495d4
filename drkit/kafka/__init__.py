"""Talking to a cluster: admin and ordinary clients, and raw requests for the data plane."""
