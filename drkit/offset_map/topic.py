"""The map topic: its name, its buckets, its id."""

from __future__ import annotations

import secrets
from uuid import UUID
import zlib

from drkit.errors import Failed
from drkit.kafka import codes
from drkit.kafka.raw import RawCluster
from drkit.kafka.requests import TopicMetadata, metadata


def new_nonce() -> int:
    """Return a random number that identifies one run of a writer."""
    return secrets.randbits(63)


def bucket_of(topic: str, partition: int, buckets: int) -> int:
    """Return the bucket of a source partition, the same on every machine and in every run."""
    return zlib.crc32(f"{topic}/{partition}".encode()) % buckets


async def find_map(cluster: RawCluster, name: str) -> TopicMetadata:
    """The map topic's id and leaders. Raises Failed if it does not exist."""
    topic = (await metadata(cluster, [name]))[name]
    if topic.error in codes.NO_SUCH_TOPIC:
        where, evidence = f"{name} on {cluster.alias}", f"Kafka error code {topic.error}"
        raise Failed("map_missing", where=where, evidence=evidence)
    return topic


def made_anew(name: str, expected: str, actual: UUID) -> Failed:
    """Return the error for a map topic that was recreated."""
    return Failed("map_recreated", where=name, evidence=f"it had the id {expected}, now {actual}")
