"""FREEZE: the flow stops copying these topics, and drkit's writers are fenced on every target partition.

In a switchover the reverse flow is kept off the topics, too: it may run already, and would copy back at once.
After the switchover it may copy only what a failback has begun: see :mod:`drkit.failover.returning`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from drkit.counted import counted, first_of
from drkit.errors import Failed
from drkit.failover.core.context import Context, StepProgress
from drkit.failover.core.reverse import opposite_state, refuse_moved_elsewhere
from drkit.failover.core.step import FreezeEvidence, Step, StepEffect, StepResult
from drkit.failover.fencing.methods import lift_fence, raise_acls, raise_sizes
from drkit.failover.fencing.own_writers import Decide, Unproven, Writers, fence
from drkit.failover.fencing.source_record import OPPOSITE, opposite_fence
from drkit.failover.loss.positions import pairs_of
from drkit.failover.loss.silent import STOP, copied_until, newest_beat
from drkit.flow_state.lease.watch import replicator_of
from drkit.flow_state.names import bulk_transactional_id, offset_map_topic
from drkit.flow_state.producer_ids import renew_live_id, take_bulk_ids
from drkit.flow_state.records import (
    BulkProducerRecord,
    ControlRecord,
    GenerationRecord,
    ProducerIdsRecord,
    Role,
    RoleRecord,
)
from drkit.flow_state.state import FlowState
from drkit.journal.machine import StepName
from drkit.kafka.requests import metadata
from drkit.kafka.transactions import OpenProducer, ProducerIdentity, new_producer_id, open_on
from drkit.model import TopicPartition
from drkit.offset_map.left_open import BulkOutcomes, left_open
from drkit.offset_map.topic import bucket_of
from drkit.offsets.takeup import FROZEN_EPOCH
from drkit.topology.acls import from_json


class ReverseHold:
    """Freezes the topics of a switchover for the reverse flow; its state stays open until the run ends.

    Does nothing in a failover that is not planned, where no reverse flow is configured or ran, or while the
    source does not answer. Raises DrkitError: its state cannot be read.
    """

    def __init__(self, context: Context) -> None:
        state = opposite_state(context) if context.request.planned else None
        self._context, self._state, self._topics = context, state, 0
        self._before = state.get(ControlRecord) if state is not None else None

    def freeze(self) -> int:
        """Freeze them, and return how many; repeatable. Raises DrkitError if the state cannot be written."""
        state, context = self._state, self._context
        if state is None:
            return 0
        role = RoleRecord(Role.FROZEN, context.term, context.run_id, context.wall())
        roles, known = state.all(RoleRecord), state.all(GenerationRecord)
        topics = [t for t in context.scope.topics.values() if t in known and t not in roles]
        state.put_all((topic, role) for topic in topics)
        self._topics = len(topics)
        return len(topics)

    def is_noticed(self) -> bool:
        """Return whether no replicator copies the topics any more: it has another plan, or does not run."""
        if self._state is None or not self._topics:
            return True
        self._state.load()
        return has_left(self._state.records, self._before, self._context.wall())


def has_left(state: FlowState, before: ControlRecord | None, now_ms: int) -> bool:
    """Return whether a flow's replicator has left the plan `before` or does not run, by the loaded state."""
    runner = replicator_of(state, now_ms)
    plans = {c.plan if c is not None else None for c in (before, state.get(ControlRecord))}
    return runner is None or not runner.alive or len(plans) > 1


def release_reverse(context: Context) -> None:
    """Undo :meth:`ReverseHold.freeze`; a source that does not answer keeps its topics frozen, as is noted.

    :raises DrkitError: the state cannot be written
    """
    if (state := opposite_state(context)) is not None:
        roles = state.all(RoleRecord).items()
        state.delete_all(RoleRecord, [t for t, r in roles if r.is_frozen and r.run_id == context.run_id])


_NOTICE_SECONDS: Final = 1.0
"""Time for a running replicator to stop copying the topics by itself."""
_PROOF_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.1
_WRITERS: Final = "writers"


class FreezeStep(Step):
    """FREEZE: stops the copy of these topics, and fences drkit's own writers."""

    name = StepName.FREEZE

    def plan(self, context: Context) -> list[StepEffect]:
        partitions, target = pairs_of(context), context.flow.target
        text = f"fence drkit's writers on {counted(len(partitions), 'partition')}, proven on each"
        return [
            StepEffect(f"stop copying {counted(len(context.scope.topics), 'topic')}", context.flow.name),
            StepEffect(text, target, "a copy task that wakes up later is refused there"),
        ]

    def run(self, context: Context) -> StepResult:
        context.state.load()
        began = {"topics": sorted(context.scope.topics), "copied_ms": _copied_ms(context)}
        before, reverse = context.state.get(ControlRecord), ReverseHold(context)
        with context.effect(self.name, STOP, **began) as outcome:
            role = RoleRecord(Role.FROZEN, context.term, context.run_id, context.wall())
            known = {t: context.state.get(RoleRecord, t) for t in context.scope.topics}
            free = [t for t, r in known.items() if r is None or (r.is_frozen and r.run_id != context.run_id)]
            context.state.put_all((topic, role) for topic in free)
            outcome["reverse"] = reverse.freeze()
            # Of two runs to two clusters that begin at once, each has recorded its role before it looks.
            refuse_moved_elsewhere(context)
            # Fenced while it still copies, a task would take its buckets again, and be fenced again.
            outcome["let_go"] = self._wait_for_replicators(context, reverse, before)
        if closed := opposite_fence(context):
            with context.effect(self.name, OPPOSITE, **closed):
                # drkit has to write there
                lift_fence(context.target_settings, closed["sizes"], from_json(closed["acls"]))
        # Every live id, with an epoch that fences every epoch of a copy task.
        ids, buckets = context.state.get(ProducerIdsRecord), context.flow.buckets
        bulk = _take(context, {bucket_of(*pair.source, buckets) for pair in pairs_of(context)})
        live = [ProducerIdentity(i, FROZEN_EPOCH) for i in ids.ids] if ids is not None else []
        copies, (maps, outcomes) = _writers(context, live, bulk), _on_map(context, bulk)
        details = {"live": [list(i) for i in live], "bulk": {str(b): list(i) for b, i in bulk.items()}}
        with context.effect(self.name, _WRITERS, **details) as outcome:
            _fence(context, {**copies, **maps}, outcomes.is_committed)
            outcome["ended"] = outcomes.ended
        notes = [
            f"drkit's writers are fenced on {counted(len(copies), 'partition')}, each proven by a canary"
        ]
        if ended := [f"{tp} {how}" for tp, how in sorted(outcomes.ended.items())]:
            notes.append(f"transactions of drkit's own missed markers: {first_of(ended)}")
        return StepResult({**FreezeEvidence(proven=True, details=details)}, tuple(notes))

    def prove(self, context: Context) -> StepResult:
        """Compare each leader's epoch, and write a canary with the old epoch."""
        context.state.load()
        details = context.result(self.name).get("details", {})
        live = [ProducerIdentity(*i) for i in details.get("live", ())]
        bulk = {int(b): ProducerIdentity(*i) for b, i in details.get("bulk", {}).items()}
        roles = context.state.all(RoleRecord)
        if free := [t for t in context.scope.topics if t not in roles]:
            raise Failed("flow_not_frozen", where=context.flow.name, evidence=first_of(free))
        writers = _writers(context, live, bulk)
        _fence(context, writers, None)
        return StepResult({"partitions_fenced": len(writers)})

    def undo(self, context: Context) -> StepResult:
        """Let the flow copy again, with a new producer id."""
        effects = context.effects(self.name)
        context.state.load()
        notes = []
        if _WRITERS in effects:
            fenced = {i for i, _ in effects[_WRITERS]["intent"].get("live", ())}
            renewed = renew_live_id(
                context.state, fenced, lambda: context.run(new_producer_id, context.target)
            )
            notes.append(f"the flow writes with the new producer id {renewed.id}")
        if OPPOSITE in effects:
            lifted = effects[OPPOSITE]["intent"]
            raise_sizes(context.target_settings, lifted["sizes"])
            raise_acls(context.target_settings, from_json(lifted["acls"]))
        if context.request.planned:
            release_reverse(context)
        roles = context.state.all(RoleRecord).items()
        context.state.delete_all(
            RoleRecord, [t for t, r in roles if r.is_frozen and t in context.scope.topics]
        )
        return StepResult({}, tuple(notes))

    def _wait_for_replicators(
        self, context: Context, reverse: ReverseHold, before: ControlRecord | None
    ) -> bool:
        """Wait for running replicators to drop these topics from their plans; return whether they did.

        Their writers are fenced in any case. While the source is silent, they make no plan and have nothing
        to copy, so this does not wait.
        """
        state, deadline = context.state, context.clock() + _NOTICE_SECONDS
        state.load()
        while not (left := has_left(state.records, before, context.wall()) and reverse.is_noticed()):
            if context.clock() >= deadline or context.source() is None:
                late = "a replicator did not stop in time: it is fenced now"
                context.tell(StepProgress(self.name, late))
                break
            context.pause(_PAUSE_SECONDS)
            state.load()
        return left


def _copied_ms(context: Context) -> int | None:
    if context.source() is not None:
        return None
    roles = [context.state.get(RoleRecord, topic) for topic in context.scope.topics]
    return copied_until(newest_beat(context), roles, context.effects(StepName.FREEZE))


def _take(context: Context, buckets: Iterable[int]) -> dict[int, ProducerIdentity]:
    """Take over buckets: abort open transactions, fence writers; return the ids, which are on record."""
    ids: dict[int, ProducerIdentity] = context.run(
        take_bulk_ids, context.target, context.flow, sorted(buckets)
    )
    known = context.state.all(BulkProducerRecord)
    records = ((str(identity.id), BulkProducerRecord(bucket)) for bucket, identity in ids.items())
    context.state.put_all((name, record) for name, record in records if known.get(name) != record)
    return ids


def _writers(context: Context, live: list[ProducerIdentity], bulk: dict[int, ProducerIdentity]) -> Writers:
    buckets = {pair.target: bucket_of(*pair.source, context.flow.buckets) for pair in pairs_of(context)}
    return {tp: (*live, *(i for b, i in bulk.items() if b == bucket)) for tp, bucket in buckets.items()}


def _on_map(context: Context, bulk: dict[int, ProducerIdentity]) -> tuple[Writers, BulkOutcomes]:
    """Return the writers of the map, and what decides the transactions that are open there or on copies."""
    target, source, name = context.target, context.flow.source, offset_map_topic(context.flow.source)
    buckets = context.run(metadata, target, [name])[name].leaders
    maps = {identity: TopicPartition(name, bucket) for bucket, identity in bulk.items()}
    copies = {pair.target: pair for pair in pairs_of(context)}
    names = {target_id: copy for copy, _, target_id in context.known.topics.values()}
    read, by_id = context.kept.places_of(target, source).read_map, {i.id: tp for i, tp in maps.items()}
    outcomes = BulkOutcomes(target, by_id, names, lambda tp: read(copies[tp]))
    return {tp: (i,) for i, tp in maps.items() if tp.partition in buckets}, outcomes


def _fence(context: Context, writers: Writers, decide: Decide | None) -> None:
    """Fence writers. Raises Failed if some partitions do not prove it in time."""
    reported: set[str] = set()

    def on_round(waiting: Unproven) -> None:
        reasons = {f"{tp}: {reason}" for tp, reason in waiting.items()} - reported
        if decide is not None and reasons:
            reported.update(reasons)
            partitions = counted(len(waiting), "partition")
            context.tell(StepProgress(StepName.FREEZE, f"waiting for {partitions}", {"first": min(reasons)}))

    seconds = _PROOF_SECONDS if decide is None else context.settings.failover.fence.freeze_seconds
    ask = partial(fence, decide=decide, clock=context.clock, on_round=on_round)
    waiting: Unproven = context.run(ask, context.target, writers, context.clock() + seconds)
    if count := len(waiting):
        evidence = first_of(f"{tp}: {reason}" for tp, reason in sorted(waiting.items()))
        where, total = context.flow.target, len(writers)
        raise Failed("older_writers", where=where, evidence=evidence, count=count, total=total)


def end_on_map(context: Context) -> None:
    """End transactions of bulk mode that are left open on the map: no position after them is known.

    :raises DrkitError: the target does not answer, or they are not ended in time
    """
    flow, look = context.flow, partial(open_on, context.target, [offset_map_topic(context.flow.source)])
    ended: dict[str, OpenProducer] = context.run(left_open, context.target, look)
    own = {bulk_transactional_id(flow.source, flow.target, o.at.partition): o for o in ended.values()}
    if buckets := [o.at.partition for name, o in own.items() if name in ended]:
        writers, outcomes = _on_map(context, _take(context, buckets))
        _fence(context, writers, outcomes.is_committed)
