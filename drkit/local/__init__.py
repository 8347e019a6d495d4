"""Real Kafka clusters as processes of this machine, and TCP links that can be cut."""
