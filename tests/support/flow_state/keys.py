"""Control keys, the topic that they sign, and what writes and reads its records."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from drkit.clock import Millis, wall_ms
from drkit.control_key import HEADER, ControlKey, ControlKeys, LogPlace, Signatures
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import describe_topics
from drkit.model import TopicPartition

KEYS: Final = ControlKeys(ControlKey.of(b"0123456789abcdef0123456789abcdef"))
TOPIC: Final = "drkit-state.a.internal"
PLACE: Final = LogPlace(TopicPartition(TOPIC, 0), "cluster-b", UUID(int=7))


def signatures(keys: ControlKeys | None = KEYS, place: LogPlace = PLACE, now_ms: int = 1_000) -> Signatures:
    """The signatures of a topic on one cluster, at a time that stands still."""
    found = Signatures(keys, place.at, lambda: now_ms)
    found.place = place
    return found


def signatures_in(cluster: Cluster, topic: str, wall: Millis = wall_ms) -> Signatures:
    """Return the signatures of an existing topic, as of a process that has read it when it was empty."""
    found = Signatures(cluster.settings.control, TopicPartition(topic, 0), wall)
    topic_id = describe_topics(cluster, [topic])[topic].topic_id
    found.place = LogPlace(found.place.at, cluster.cluster_id, topic_id)
    return found


def previous_version(
    signed: Signatures, key: bytes, value: bytes | None, control: ControlKey = KEYS.current
) -> tuple[tuple[bytes, bytes], ...]:
    """The headers of the next record as drkit wrote them before MACs covered the topic's id."""
    ((name, mac),) = signed.headers(key, value)
    order, place = mac[5:13], signed.place
    parts = b"".join(
        b"\x00" if part is None else b"\x01" + len(part).to_bytes(4, "big") + part
        for part in (place.cluster_id.encode(), place.log, key, value, order)
    )
    return ((name, b"\x02" + mac[1:13] + control.mac(b"drkit record 2\x00" + parts)),)


def earlier_form(key: bytes | None, value: bytes | None) -> list[tuple[str, bytes]]:
    """A MAC as drkit wrote it before MACs had an order."""
    parts = b"".join(
        b"\x00" if part is None else b"\x01" + len(part).to_bytes(4, "big") + part
        for part in (TOPIC.encode(), key, value)
    )
    mac = KEYS.current.mac(b"drkit record 1\x00" + parts)
    return [(HEADER, b"\x01" + bytes.fromhex(KEYS.current.fingerprint) + mac)]
