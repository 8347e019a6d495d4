"""drkit's own topics on any cluster: created where they are missing, as durable as the cluster allows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from drkit.errors import Failed
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import BROKER_DEFAULT, Topic, TopicPlan, create_topics, describe_topics

_REPLICAS: Final = 3
_SECONDS: Final = 20.0
_LOOK_SECONDS: Final = 0.05


def create_own_topic(cluster: Cluster, name: str, configs: Mapping[str, str], partitions: int = 1) -> None:
    """Create a topic where it is missing: three replicas, or one for each of fewer brokers.

    With three of them a record counts when two have it.

    :raises DrkitError: it cannot be created
    """
    replicas = min(_REPLICAS, len(cluster.brokers))
    in_sync = {"min.insync.replicas": "2" if replicas == _REPLICAS else "1"}
    plan = TopicPlan(name, partitions, replicas or BROKER_DEFAULT, {**in_sync, **configs})
    for error in create_topics(cluster, [plan]).values():
        raise error


def appeared(cluster: Cluster, name: str) -> Topic:
    """A topic that was just created, as soon as the cluster lists it.

    :raises Failed: it does not within 20 s
    """
    patient = Retrying(
        retry=retry_if_result(lambda t: t is None),
        stop=stop_after_delay(_SECONDS),
        wait=wait_fixed(_LOOK_SECONDS),
    )
    try:
        found = patient(lambda: describe_topics(cluster, [name]).get(name))
    except RetryError as error:
        raise Failed("new_topic_missing", where=f"{name} on {cluster.alias}") from error
    assert found is not None  # noqa: S101  retried until it is not
    return found
