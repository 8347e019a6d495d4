"""The drill commands: their words and options. Nothing is done here, and no client of Kafka is loaded."""
