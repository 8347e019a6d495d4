"""Fences drkit's own writers on the target, partition by partition, and proves it.

A transaction marker with a newer epoch, sent to the partition's leader, makes the leader refuse older epochs.
A copy task that was suspended and resumes is refused at its first append. Proof: the leader shows the epoch
and refuses a batch of the old epoch, whose sequence could never be appended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from drkit.clock import monotonic
from drkit.errors import NotAuthorized
from drkit.failover.fencing.proof import canary_batch
from drkit.kafka.codes import CLUSTER_AUTHORIZATION_FAILED, FENCED, error_name
from drkit.kafka.raw import RawCluster, RawError
from drkit.kafka.requests import Append, TopicMetadata, ask_leaders, describe_producers, metadata, produced
from drkit.kafka.transactions import Marker, write_markers
from drkit.model import TopicPartition
from drkit.wire import stamp

_PAUSE_SECONDS: Final = 0.1
_TIMEOUT_MS: Final = 10_000
_GAP: Final = 1_000_003
"""A sequence that follows no other: a leader that accepts the epoch still refuses the batch."""


@dataclass(frozen=True)
class Writer:
    """A producer of drkit, and the epoch that fences it."""

    producer_id: int
    epoch: int
    """The marker's epoch: every smaller one is fenced."""


Topics = Mapping[str, TopicMetadata]
Writers = Mapping[TopicPartition, tuple[Writer, ...]]
"""By target partition."""


@dataclass(frozen=True)
class UnfencedWriter(Writer):
    """A writer that a leader does not refuse, and the coordinator epoch that the leader has."""

    coordinator_epoch: int = 0


_Behind = dict[UnfencedWriter, list[TopicPartition]]


@dataclass
class FenceProgress:
    """The progress of a fence."""

    proven: set[TopicPartition]
    waiting: dict[TopicPartition, str]
    """Partitions that are not fenced, and why."""


async def fence(
    cluster: RawCluster,
    writers: Writers,
    deadline: float,
    *,
    effects: bool = True,
    clock: Callable[[], float] = monotonic,
    on_round: Callable[[FenceProgress], None] = lambda _: None,
) -> FenceProgress:
    """Fence until every partition proves it, or the deadline passes; return the progress.

    :param effects: False: only prove
    :raises NotAuthorized: drkit may not write markers
    """
    progress = FenceProgress(set(), dict.fromkeys(writers, "not asked yet"))
    while True:
        await _round(cluster, writers, progress, effects=effects)
        on_round(progress)
        if not progress.waiting or clock() >= deadline:
            return progress
        await cluster.loop.sleep(_PAUSE_SECONDS)


async def _round(cluster: RawCluster, writers: Writers, progress: FenceProgress, *, effects: bool) -> None:
    missing = progress.waiting
    try:
        topics = await metadata(cluster, sorted({tp.topic for tp in missing}))
    except RawError as error:
        progress.waiting = dict.fromkeys(missing, f"no answer ({error})")
        return
    answers = await ask_leaders(
        cluster,
        topics,
        missing,
        lambda node, some: _node(cluster, topics, node, {tp: writers[tp] for tp in some}, effects=effects),
    )
    for tp in list(missing):
        if reason := answers.get(tp, "it has no leader"):
            missing[tp] = reason
        else:
            missing.pop(tp)
            progress.proven.add(tp)


async def _node(
    cluster: RawCluster, topics: Topics, node: int, writers: Writers, *, effects: bool
) -> dict[TopicPartition, str]:
    """Fence and prove the partitions of one leader; return why each is not proven, empty if it is."""
    try:
        behind = await _behind(cluster, node, writers)
        if effects and behind:
            await _mark(cluster, node, behind)
            behind = await _behind(cluster, node, writers)
        reasons = {tp: f"producer {w.producer_id} is not fenced" for w, some in behind.items() for tp in some}
        fenced = {tp: w for tp, w in writers.items() if tp not in reasons}
        reasons |= await _send_canaries(cluster, node, topics, fenced)
    except RawError as error:
        return dict.fromkeys(writers, f"broker {node} does not answer ({error})")
    return reasons


async def _behind(cluster: RawCluster, node: int, writers: Writers) -> _Behind:
    behind: _Behind = {}
    for tp, (error, producers) in (await describe_producers(cluster, node, writers)).items():
        for writer in writers[tp]:
            state = producers.get(writer.producer_id)
            if error or state is None or state.epoch < writer.epoch:
                coordinator = max(0, state.coordinator_epoch) if state is not None else 0
                key = UnfencedWriter(writer.producer_id, writer.epoch, coordinator)
                behind.setdefault(key, []).append(tp)
    return behind


async def _mark(cluster: RawCluster, node: int, behind: _Behind) -> None:
    markers = [Marker(k.producer_id, k.epoch, k.coordinator_epoch, tuple(some)) for k, some in behind.items()]
    codes = await write_markers(cluster, node, markers)
    if CLUSTER_AUTHORIZATION_FAILED in codes.values():
        evidence = "WriteTxnMarkers: CLUSTER_AUTHORIZATION_FAILED (31)"
        raise NotAuthorized("not_authorized_to_fence", where=cluster.alias, evidence=evidence)


async def _send_canaries(
    cluster: RawCluster, node: int, topics: Topics, writers: Writers
) -> dict[TopicPartition, str]:
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
        if not canaries:
            continue
        appends = list[Append]()
        for tp, w in canaries.items():
            batch = stamp(canary_batch(), w.producer_id, w.epoch - 1, _GAP, transactional=False)
            appends.append(Append(tp.topic, topics[tp.topic].topic_id, tp.partition, batch))
        codes = await produced(cluster, node, appends, timeout_ms=_TIMEOUT_MS)
        for tp, writer in canaries.items():
            code = codes.get(tp)
            if code is None:
                reasons[tp] = "no answer"
            elif code not in FENCED:
                reasons[tp] = f"the canary of producer {writer.producer_id} was answered {error_name(code)}"
    return reasons
