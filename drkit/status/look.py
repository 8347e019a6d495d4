"""Reads the status of a flow from both clusters; from any machine, source alive or dead."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import Final

from drkit.clock import Millis, Seconds, monotonic, wall_ms
from drkit.config import FlowSettings, Settings
from drkit.control_key import SignedTopic
from drkit.errors import DrkitError
from drkit.flow_state.copied_topics import CopiedTopics, known_of
from drkit.flow_state.left_out import LeftOut
from drkit.flow_state.names import name_of, offset_map_topic, state_topic
from drkit.flow_state.records import EventRecord, PendingFence, PendingLift
from drkit.flow_state.state import FlowState
from drkit.flow_state.topic import StateTopic
from drkit.kafka.raw import EventLoop, RawCluster, RawError
from drkit.kafka.requests import TopicMetadata, exists, metadata
from drkit.model import TopicPartition
from drkit.pair.promotions import is_over, not_noted_since, promoted_of, returned_topics, term_of
from drkit.status.facts import delayed_in, noted, status_of, unread_state, why_not_copied, written_in
from drkit.status.faults import faults_of
from drkit.status.groups_look import GroupLook
from drkit.status.heartbeat_tail import HeartbeatTail
from drkit.status.lag.held_back import HeldInPartition, hanging, held_by_others
from drkit.status.lag.source import EarlierEnds, Ends, UncopiedRange, UncopiedRecords, waiting
from drkit.status.lag.target import CopyLocator, CopyPosition
from drkit.status.model import SHOWN_EVENTS, Findings, FlowStatus, PartitionStatus, role_of
from drkit.status.pair.facts import compacted_alone
from drkit.status.runners import runner_of, standbys_of
from drkit.status.source_look import (
    SourceLook,
    gaps_of,
    look_at_source,
    noted_look,
    partitions_of,
    transactions_of,
)
from drkit.status.sums import copied_ms, loss_of, topics_of, unanswered_in

SCAN_UP_TO: Final = 1_000_000
_CONNECT_MS: Final = 5000
_BEAT_SECONDS: Final = 2.0
"""How much longer than the interval between two heartbeats a single look waits for one."""
_LONG_SECONDS: Final = 3.0
"""The longest interval for which it does."""


class StatusCollector:
    """Looks repeatedly, over persistent connections. Use it from one thread.

    :param patience_seconds: a source topic that is not copied is a fault after this time; 0: at once
    :param scan_up_to: target offsets that may be read where numbers do not settle the map
    :param groups: look at the groups, too
    """

    def __init__(
        self,
        settings: Settings,
        flow: FlowSettings,
        *,
        patience_seconds: float = 0.0,
        scan_up_to: int = SCAN_UP_TO,
        groups: bool = True,
        clock: Millis = wall_ms,
        steady: Seconds = monotonic,
    ) -> None:
        self._settings = settings
        self._flow = flow
        self._patience, self._with_groups = patience_seconds, groups
        self._clock, self._steady = clock, steady
        self._loop = EventLoop()
        self._clusters: dict[str, RawCluster] = {}
        self._scan_up_to = scan_up_to
        self._side: CopyLocator | None = None
        self._state: StateTopic | None = None
        self._missing_since: dict[str, float] = {}
        self._sides = {c.alias: c for c in settings.sides(flow)}
        on_target = [kind for kind in SignedTopic if kind is not SignedTopic.FENCES]
        self._own_topics = [name_of(kind, flow.source, flow.target) for kind in on_target]
        self.beats = HeartbeatTail(self._sides[flow.target], flow)
        self.groups = GroupLook(settings.sides(flow), flow, clock, steady)
        self.source_ends: dict[TopicPartition, Ends] | None = None
        """The source's ends at the last look; None when it did not answer."""
        self._earlier = EarlierEnds()

    def look(self, *, measure: bool = False) -> FlowStatus:
        """Look now. A cluster that does not answer is part of the answer, never an error.

        :param measure: wait about one interval for a heartbeat, to measure its delay
        """
        return self._judged(self._find(measure=measure))

    def _find(self, *, measure: bool) -> Findings:
        now_ms, flow = self._clock(), self._flow
        findings = Findings(now_ms, now_ms, flow.name, beats_expected=flow.emit_heartbeats)
        self.source_ends = None
        try:
            state = self._load()
            if measure:
                self.beats.follow()
            findings.heartbeat = self.beats.read()
            findings.heartbeat_ahead_seconds = self.beats.ahead_seconds
            known = self._from_state(findings, state)
            self._lag(findings, state, known)
            if self._with_groups:
                findings.groups = self.groups.newest(state, source_answers=not findings.source_error)
            if measure and findings.heartbeat is not None and role_of(findings) == "replicating":
                interval = self._flow.heartbeats_interval_seconds
                findings.heartbeat = self.beats.measured(min(interval, _LONG_SECONDS) + _BEAT_SECONDS)
        except DrkitError as error:
            findings.target_error = error.in_short
            findings.unread = unread_state(self._sides[self._flow.target], error)
            self._drop(self._flow.target)
            if self.source_ends is None and not findings.source_error:  # not asked: it may be down, too
                findings.source_error = self._ask_source(findings, FlowState()).error
        return findings

    def close(self) -> None:
        """Close all connections."""
        self.beats.close()
        self.groups.close()
        for alias in list(self._clusters):
            self._drop(alias)
        self._loop.close()

    def _load(self) -> FlowState:
        if self._state is None:
            name, target = state_topic(self._flow.source), self._flow.target
            if not exists(name, self._loop.run(self._topics, target, [name])[name], target):
                return FlowState()
            self._state = StateTopic(self._sides[self._flow.target], self._flow.source)
        self._state.load()
        return self._state.records

    def _from_state(self, findings: Findings, state: FlowState) -> CopiedTopics:
        findings.runner = runner_of(state, findings.at_ms)
        findings.standbys = standbys_of(state, findings.at_ms)
        findings.promoted = tuple(sorted(promoted_of(state)))
        findings.term, findings.pending_fence = term_of(state), state.get(PendingFence)
        findings.lift = state.get(PendingLift)
        findings.delayed = delayed_in(state, self._flow, findings.at_ms)
        findings.compacted_alone = compacted_alone(state)
        findings.taken_over = is_over(state, self._flow)
        findings.written, findings.returned = written_in(state), returned_topics(state)
        late = not_noted_since(state)
        findings.not_noted = tuple(t for t in findings.returned if t in late)
        known = known_of(state)
        findings.left_out_producers = tuple(sorted(known.producers.left_out))
        newest = sorted(state.all(EventRecord).values(), key=lambda e: -e.at_ms)[:SHOWN_EVENTS]
        findings.events = tuple(event.to_json() for event in newest)
        return known

    def _lag(self, findings: Findings, state: FlowState, known: CopiedTopics) -> None:
        positions: dict[TopicPartition, CopyPosition] = {}
        if known.topics:
            own = known.producers.own
            positions = self._loop.run(self._places, known)
            passive = [target for t, (target, _, _) in known.topics.items() if t not in findings.promoted]
            held = self._loop.run(self._held_on_target, [] if findings.taken_over else passive, own)
            settings, limit = self._sides[self._flow.target], self._flow.open_transaction_seconds
            found = transactions_of(settings, held, findings.at_ms, source=False)
            # Those of drkit's own topics are drkit's, unless they are old: brokers compact nothing there.
            old, names = hanging(found, limit), self._own_topics
            findings.open_transactions += tuple(t for t in found if t.topic not in names or t in old)
        source = self._ask_source(findings, state)
        findings.source_error, findings.source_seen_ms = source.error, source.seen_ms
        findings.noted_copied_ms = source.copied_ms
        ends = {tp: e for tp, e in source.ends.items() if not self._flow.is_heartbeats(tp.topic)}
        with suppress(DrkitError):  # a cluster went away just now: the next look reports it
            positions = self._loop.run(self._compared, positions, known.still_on(source.topics), source, ends)
        due = self._side.removed.due if self._side is not None else {}
        # What retention removes from the source as well is no loss once it is silent.
        later = {tp: e._replace(start=max(e.start, due[tp][1])) for tp, e in source.ends.items() if tp in due}
        findings.partitions = self._partitions(findings, known, positions, source, state)
        if source.error:
            return
        copied = {tp: place.frontier or 0 for tp, place in positions.items() if place.exact}
        unanswered = unanswered_in(findings)
        complete = (p for p in findings.partitions if p.topic not in unanswered)
        statuses, now_ms = {TopicPartition(p.topic, p.partition): p for p in complete}, findings.read_ms
        spans = (source.ends | later).items()
        self.source_ends = {tp: noted(e, copied.get(tp, 0), statuses.get(tp), now_ms) for tp, e in spans}

    async def _compared(
        self,
        places: dict[TopicPartition, CopyPosition],
        known: CopiedTopics,
        source: SourceLook,
        ends: dict[TopicPartition, Ends],
    ) -> dict[TopicPartition, CopyPosition]:
        if self._side is None:
            return places
        cluster = None if source.error else await self._connected(self._flow.source)
        return await self._side.compared(places, known, cluster, ends)

    async def _places(self, known: CopiedTopics) -> dict[TopicPartition, CopyPosition]:
        target = await self._connected(self._flow.target)
        if self._side is None or self._side.cluster is not target:
            name = offset_map_topic(self._flow.source)
            self._side = CopyLocator(target, name, self._scan_up_to)
        return await self._side.places(known, known.topics)

    async def _held_on_target(
        self, names: list[str], own: frozenset[int]
    ) -> dict[TopicPartition, HeldInPartition]:
        try:
            cluster = await self._connected(self._flow.target)
            return await held_by_others(cluster, [*names, *self._own_topics], own)
        except RawError:
            return {}  # a leader is down; positions and heartbeats report that

    def _ask_source(self, findings: Findings, state: FlowState) -> SourceLook:
        try:
            look: SourceLook = self._loop.run(self._look_at_source, known_of(state), findings.at_ms)
        except DrkitError as error:
            self._drop(self._flow.source)
            return noted_look(state, error.in_short)
        settings = self._sides[self._flow.source]
        findings.open_transactions += transactions_of(settings, look.held, findings.at_ms, source=True)
        return look

    async def _look_at_source(self, known: CopiedTopics, now_ms: int) -> SourceLook:
        return await look_at_source(await self._connected(self._flow.source), self._flow, known, now_ms)

    def _partitions(
        self,
        findings: Findings,
        copied: CopiedTopics,
        positions: dict[TopicPartition, CopyPosition],
        source: SourceLook,
        state: FlowState,
    ) -> list[PartitionStatus]:
        copied_topics = copied.still_on(source.topics).topics.keys()
        downstream = self._flow.naming_policy.downstream
        frontiers: dict[TopicPartition, CopyPosition] = {}
        for tp in partitions_of(positions, self._flow, source):
            not_copied = CopyPosition(0, None, reason=why_not_copied(state, tp.topic))
            place = positions.get(TopicPartition(tp.topic, -1)) or positions.get(tp) or CopyPosition(0, None)
            place = place if tp.topic in copied_topics else not_copied
            frontiers[tp] = place._replace(reason=source.no_end_of(tp) or place.reason)
        missing = {tp.topic for tp in frontiers} - copied_topics - set(findings.promoted)
        # Of a silent source nothing more will be copied: there is nothing to wait for.
        self._left_out(findings, missing, 0.0 if source.error else self._patience)
        gaps = gaps_of(frontiers, source.ends)
        records = {g.at: UncopiedRecords(g.end - g.start, None, None, exact=False) for g in gaps}
        if not source.error:
            waits = self._loop.run(self._waiting, source.topics, gaps, copied.left_out) if gaps else {}
            findings.read_ms = self._clock()
            records = self._earlier.dated(findings.at_ms, findings.read_ms, source.ends, gaps, waits)
        return [
            status_of(findings.read_ms, tp, downstream(tp.topic), place, source.ends.get(tp), records.get(tp))
            for tp, place in frontiers.items()
        ]

    async def _waiting(
        self, topics: dict[str, TopicMetadata], gaps: list[UncopiedRange], skip: LeftOut
    ) -> dict[TopicPartition, UncopiedRecords]:
        return await waiting(await self._connected(self._flow.source), topics, gaps, skip)

    def _left_out(self, findings: Findings, missing: set[str], patience: float) -> None:
        now, is_beat = self._steady(), self._flow.is_heartbeats
        self._missing_since = {t: self._missing_since.get(t, now) for t in missing if not is_beat(t)}
        findings.left_out = tuple(sorted(t for t, s in self._missing_since.items() if now - s >= patience))

    def _judged(self, findings: Findings) -> FlowStatus:
        flow = self._flow
        counted = [p for p in findings.partitions if not flow.is_heartbeats(p.topic)]
        # Promoted topics are active on the target: the primary can lose nothing of them.
        at_risk = [p for p in counted if p.topic not in findings.promoted]
        loss = loss_of(findings, at_risk)
        faults = faults_of(
            findings, at_risk, rpo_seconds=self._settings.failover.rpo_seconds,
            interval_seconds=flow.heartbeats_interval_seconds, open_seconds=flow.open_transaction_seconds,
        )  # fmt: skip
        return FlowStatus(
            flow=flow.name, source=flow.source, target=flow.target, at_ms=findings.at_ms,
            role=role_of(findings), faults=tuple(faults), loss=loss, heartbeat=findings.heartbeat,
            runner=findings.runner, topics=topics_of(counted), partitions=tuple(findings.partitions),
            promoted_topics=findings.promoted, groups=findings.groups, events=findings.events,
            source_answers=not findings.source_error, target_answers=not findings.target_error,
            term=findings.term, pending_fence=findings.pending_fence, pending_lift=findings.lift,
            open_transactions=findings.open_transactions, left_out_producers=findings.left_out_producers,
            standbys=findings.standbys, copied_ms=copied_ms(findings, loss),
            returned_topics=findings.returned, not_noted_topics=findings.not_noted,
            unanswered=unanswered_in(findings),
        )  # fmt: skip

    async def _connected(self, alias: str) -> RawCluster:
        cluster = self._clusters.get(alias)
        if cluster is None:
            cluster = self._clusters[alias] = RawCluster(self._loop, self._sides[alias], "status")
            await cluster.connect(_CONNECT_MS)
        return cluster

    async def _topics(self, alias: str, names: Collection[str]) -> dict[str, TopicMetadata]:
        return await metadata(await self._connected(alias), names)

    def _drop(self, alias: str) -> None:
        if (cluster := self._clusters.pop(alias, None)) is not None:
            cluster.close()
        if alias == self._flow.target:
            self._side, state, self._state = None, self._state, None
            if state is not None:
                state.close()
