"""Kafka clients for applications that follow a failover: confluent-kafka's, under the same method names.

Producer, consumer and the switch between clusters by the published endpoint. Needs confluent-kafka only:
Spark, kafka-python and the other packages that drkit depends on are never imported.
"""

from drkit.client.consumer import FailoverConsumer
from drkit.client.errors import EndpointMoved, FromAnotherCluster, NotSent, TransactionCut, WrongCluster
from drkit.client.producer import FailoverProducer
from drkit.client.switch import Switch

__all__ = [
    "EndpointMoved",
    "FailoverConsumer",
    "FailoverProducer",
    "FromAnotherCluster",
    "NotSent",
    "Switch",
    "TransactionCut",
    "WrongCluster",
]
