"""drkit: disaster-recovery failover for Apache Kafka, on Spark."""

__version__ = "0.1.0"
