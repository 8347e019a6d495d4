"""Fences drkit's own writers on the target, partition by partition, and proves it.

A transaction marker with a newer epoch, sent to the partition's leader, makes the leader refuse older epochs.
A copy task that was suspended and resumes is refused at its first append. The marker also ends a transaction
that is open there, as it was decided (:mod:`drkit.offset_map.left_open`). Proof: the leader shows the epoch
and refuses a batch of the old epoch, whose sequence could never be appended.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from drkit.clock import monotonic
from drkit.errors import NotAuthorized
from drkit.failover.fencing.proof import canary_batch
from drkit.kafka.codes import CLUSTER_AUTHORIZATION_FAILED, FENCED, error_name
from drkit.kafka.raw import RawCluster, RawError
from drkit.kafka.requests import (
    Append,
    ProducerState,
    TopicMetadata,
    ask_leaders,
    describe_producers,
    metadata,
    produced,
)
from drkit.kafka.transactions import Marker, OpenProducer, ProducerIdentity, write_markers
from drkit.model import TopicPartition
from drkit.wire import stamp

_PAUSE_SECONDS: Final = 0.1
_TIMEOUT_MS: Final = 10_000
_GAP: Final = 1_000_003
"""A sequence that follows no other: a leader that accepts the epoch still refuses the batch."""
_UNKNOWN: Final = ProducerState(-1, -1, -1)
"""A producer that the leader does not know."""
Topics = Mapping[str, TopicMetadata]
Writers = Mapping[TopicPartition, tuple[ProducerIdentity, ...]]
"""The writers of each target partition, each with the epoch of its marker: every smaller one is fenced."""
Unproven = dict[TopicPartition, str]
"""Partitions that do not prove the fence, and why."""
Decide = Callable[[OpenProducer], Awaitable[bool]]
"""Returns whether an open transaction is committed. Raises RawError: it is not known yet."""


async def fence(
    cluster: RawCluster,
    writers: Writers,
    deadline: float,
    *,
    decide: Decide | None = None,
    clock: Callable[[], float] = monotonic,
    on_round: Callable[[Unproven], None] = lambda _: None,
) -> Unproven:
    """Fence until every partition proves it, or the deadline passes; return those that do not.

    :param decide: decides the transactions that markers end; without it the fence is only proven
    :raises NotAuthorized: drkit may not write markers
    """
    while True:
        waiting = await _round(cluster, writers, decide)
        writers = {tp: writers[tp] for tp in waiting}
        on_round(waiting)
        if not waiting or clock() >= deadline:
            return waiting
        await cluster.loop.sleep(_PAUSE_SECONDS)


async def _round(cluster: RawCluster, writers: Writers, decide: Decide | None) -> Unproven:
    try:
        topics = await metadata(cluster, sorted({tp.topic for tp in writers}))
    except RawError as error:
        return dict.fromkeys(writers, f"no answer ({error})")

    async def ask(node: int, led: list[TopicPartition]) -> Unproven:
        return await _node(cluster, topics, node, {tp: writers[tp] for tp in led}, decide)

    answers = dict.fromkeys(writers, "it has no leader") | await ask_leaders(cluster, topics, writers, ask)
    return {tp: reason for tp, reason in answers.items() if reason}


async def _node(
    cluster: RawCluster, topics: Topics, node: int, writers: Writers, decide: Decide | None
) -> Unproven:
    """Fence and prove the partitions of one leader; return why each is not proven, empty if it is."""
    try:
        reasons, markers = await _behind(cluster, node, writers, decide)
        if markers:
            codes = await write_markers(cluster, node, markers)
            if CLUSTER_AUTHORIZATION_FAILED in codes.values():
                evidence = "WriteTxnMarkers: CLUSTER_AUTHORIZATION_FAILED (31)"
                raise NotAuthorized("not_authorized_to_fence", where=cluster.alias, evidence=evidence)
            remaining, _ = await _behind(cluster, node, writers, None)
            reasons = {tp: reasons.get(tp, reason) for tp, reason in remaining.items()}
        fenced = {tp: w for tp, w in writers.items() if tp not in reasons}
        reasons |= await _send_canaries(cluster, node, topics, fenced)
    except RawError as error:
        return dict.fromkeys(writers, f"broker {node} does not answer ({error})")
    return reasons


async def _behind(
    cluster: RawCluster, node: int, writers: Writers, decide: Decide | None
) -> tuple[Unproven, list[Marker]]:
    """Return why partitions are not fenced, and, if they are to be, the markers that fence them."""
    reasons: Unproven = {}
    markers: dict[Marker, list[TopicPartition]] = {}
    for tp, (error, producers) in (await describe_producers(cluster, node, writers)).items():
        for writer in writers[tp]:
            state = producers.get(writer.id, _UNKNOWN)
            if not error and state.epoch >= writer.epoch:
                continue
            reasons[tp] = error_name(error) if error else f"producer {writer.id} is not fenced"
            if error or decide is None:
                continue
            try:
                commits = state.open_since >= 0 and await decide(OpenProducer(tp, node, writer.id, state))
                marker = Marker(*writer, max(0, state.coordinator_epoch), (), commits)
                markers.setdefault(marker, []).append(tp)
            except RawError as unknown:
                reasons[tp] = str(unknown)
    return reasons, [m._replace(partitions=tuple(some)) for m, some in markers.items()]


async def _send_canaries(cluster: RawCluster, node: int, topics: Topics, writers: Writers) -> Unproven:
    """Send a batch of each old epoch; return why the fence is not proven, empty when all are refused.

    One request holds the batches of all partitions, so there are as many as a partition has writers.
    """
    reasons = dict.fromkeys(writers, "")
    for number in range(max(map(len, writers.values()), default=0)):
        # Of epoch 0 there is no older one.
        canaries = {
            tp: own[number]
            for tp, own in writers.items()
            if len(own) > number and own[number].epoch >= 1 and not reasons[tp]
        }
        appends = list[Append]()
        for tp, w in canaries.items():
            batch = stamp(canary_batch(), w.id, w.epoch - 1, _GAP, transactional=False)
            appends.append(Append(tp.topic, topics[tp.topic].topic_id, tp.partition, batch))
        codes = await produced(cluster, node, appends, timeout_ms=_TIMEOUT_MS) if appends else {}
        for tp, w in canaries.items():
            if (code := codes.get(tp)) not in FENCED:
                answer = "no answer" if code is None else error_name(code)
                reasons[tp] = f"the canary of producer {w.id} got {answer}"
    return reasons
