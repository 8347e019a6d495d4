"""A small record on every broker, written and read back: the proof that a broker works.

Each broker leads one partition of the topic, with one replica, so that a canary tests that broker only.
A full disk still accepts such a small record; a broker that refuses or loses it is faulty.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple
from uuid import UUID

from drkit.clock import wall_ms
from drkit.counted import counted
from drkit.detect.seen import ProbeOutcome
from drkit.flow_state.names import CANARY_TOPIC
from drkit.kafka import codes
from drkit.kafka.admin import Cluster
from drkit.kafka.clients import NewPartitions, NewTopic
from drkit.kafka.raw import RawCluster
from drkit.kafka.requests import Append, fetch_one, produce_request
from drkit.kafka.topics import describe_topics
from drkit.wire import Record, decode, encode, split

TOPIC: Final = CANARY_TOPIC
_CONFIG: Final = {
    "cleanup.policy": "delete",
    "retention.ms": "600000",
    "segment.ms": "600000",
    "min.insync.replicas": "1",
}
_NO_CODEC: Final = 0
_MOVES: Final = codes.LEADER_MOVES | {codes.FENCED_LEADER_EPOCH, codes.UNKNOWN_LEADER_EPOCH}
"""Leaders that change and topics that are new: such an answer says nothing about the broker."""
_FETCH_BYTES: Final = 64 * 1024


class CanaryTarget(NamedTuple):
    """The canary's partition on one broker."""

    topic_id: UUID
    partition: int


class ProbeResult(NamedTuple):
    """Outcome of a probe, with its evidence."""

    outcome: ProbeOutcome
    evidence: str = ""


def ensure_canary(cluster: Cluster) -> str:
    """Make every broker lead a partition of the canary topic; returns what was done, empty for nothing.

    :raises DrkitError: the topic cannot be created or widened
    """
    wanted = {b.id for b in cluster.brokers}
    found = describe_topics(cluster, [TOPIC]).get(TOPIC)
    if found is None:
        # Only here drkit assigns replicas: for its other topics the brokers do.
        places = [[b] for b in sorted(wanted)]
        new = NewTopic(TOPIC, len(places), replica_assignment=places, config=dict(_CONFIG))
        made = cluster.call("create a topic", cluster.admin.create_topics, [new])
        cluster.wait(made[TOPIC], "create a topic", TOPIC)
        return f"created with {counted(len(wanted), 'partition')}"
    missing = sorted(wanted - {r for p in found.leaders.values() for r in p.replicas})
    if not missing:
        return ""
    more = NewPartitions(TOPIC, len(found.leaders) + len(missing), [[b] for b in missing])
    made = cluster.call("add partitions", cluster.admin.create_partitions, [more])
    cluster.wait(made[TOPIC], "add partitions to a topic", TOPIC)
    return f"{counted(len(missing), 'partition')} more, for new brokers"


def placed(topic_id: UUID, leaders: Mapping[int, int], broker: int) -> CanaryTarget | None:
    """The canary partition that a broker leads; None: it leads none.

    :param leaders: partition → broker
    """
    led = sorted(p for p, leader in leaders.items() if leader == broker)
    return CanaryTarget(topic_id, led[0]) if led else None


async def probe_write(
    cluster: RawCluster, broker: int, place: CanaryTarget, token: bytes, timeout_ms: int
) -> ProbeResult:
    """Produce a record with a token and fetch it back. Raises RawError if no answer arrives in time."""
    batch = encode([Record(0, wall_ms(), b"canary", token)], _NO_CODEC)
    request = produce_request(
        [Append(TOPIC, place.topic_id, place.partition, batch)], timeout_ms=max(1, timeout_ms)
    )
    answer = await cluster.send(request, broker, timeout_ms=timeout_ms)
    told = answer.responses[0].partition_responses[0]
    if told.error_code:
        return refused("produce", told.error_code)
    where = (TOPIC, place.topic_id)
    fetched = await fetch_one(
        cluster, broker, where, place.partition, told.base_offset,
        committed=False, max_bytes=_FETCH_BYTES, timeout_ms=timeout_ms,
    )  # fmt: skip
    if fetched.error_code:
        return refused("fetch", fetched.error_code)
    if token not in _values(fetched.records or b"", told.base_offset):
        return ProbeResult(
            ProbeOutcome.WRITE_REFUSED, f"the record at offset {told.base_offset} is not what was written"
        )
    return ProbeResult(ProbeOutcome.WORKS)


def _values(records: bytes, offset: int) -> list[bytes | None]:
    """The values of the batch at this offset; batches of other writers, which may hold anything, stay closed.

    :raises CorruptBatch: the broker did not keep what it accepted
    """
    for header, data in split(records):
        if header.base_offset == offset:
            return [record.value for record in decode(header, data)]
        if header.base_offset > offset:
            break
    return []


def refused(what: str, code: int) -> ProbeResult:
    """An error of Kafka's as an outcome."""
    if code in _MOVES:
        return ProbeResult(ProbeOutcome.ANSWERS, f"canary: {codes.bare_name(code)}")
    return ProbeResult(ProbeOutcome.WRITE_REFUSED, f"{what}: {codes.error_name(code)}")


def is_forbidden(sung: ProbeResult) -> bool:
    """Whether drkit's principal may not use the canary: then the broker is no worse for it."""
    return f"({codes.TOPIC_AUTHORIZATION_FAILED})" in sung.evidence
