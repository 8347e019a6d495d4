"""Looks at a flow, and at its pair: the flow in the other direction between the same clusters."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, NamedTuple

from drkit.clock import monotonic, wall_ms
from drkit.config import FlowSettings, Settings
from drkit.errors import DrkitError
from drkit.flow_state.creation import refuse_renamed
from drkit.flow_state.names import fence_topic, state_topic
from drkit.flow_state.records import GenerationRecord, ReturnRecord, RoleRecord
from drkit.flow_state.source_fence.entries import FenceLog
from drkit.flow_state.source_fence.topic import FenceTopic
from drkit.flow_state.state import FlowState
from drkit.flow_state.topic import StateTopic
from drkit.journal.entries import JournalHistory
from drkit.journal.machine import StepName
from drkit.journal.topic import JournalReader
from drkit.kafka.requests import exists
from drkit.model import TopicPartition
from drkit.pair.promotions import are_opposite, not_noted_since, promotions_of
from drkit.pair.view import lost_promotions, observation_of, promotions_in
from drkit.status.facts import is_note_preferred, seen_record
from drkit.status.faults import NOT_AUTHORIZED, OTHER_KEY, with_pair, with_source_record, without_passive
from drkit.status.lag.source import Ends
from drkit.status.look import StatusCollector
from drkit.status.model import FlowStatus
from drkit.status.pair.delta import RETENTION_BYTES, PartitionDelta, bound_of
from drkit.status.pair.facts import DirectionFacts, TopicLag, fenced_topics
from drkit.status.pair.journal import JournalRuns
from drkit.status.pair.judge import Delta, deltas_of, judge
from drkit.status.pair.model import DeltaBound, PairStatus, PairTopic
from drkit.status.pair.reading import DeltaLook, fences_gone, refusing_topics, retention_of
from drkit.status.sums import lags_of

_NO_STATE: Final = FlowState()
_BEGINS_SECONDS: Final = 120.0


class _Noted(NamedTuple):
    """What this collector noted last."""

    ends: Mapping[TopicPartition, Ends]
    knew_age: bool
    """Whether the age of the oldest missing record was known."""


class PairedCollector(StatusCollector):
    """Looks repeatedly, over persistent connections. Use it from one thread.

    The parameters are those of :class:`StatusCollector`.
    """

    def __init__(self, settings: Settings, flow: FlowSettings, **more: Any) -> None:
        super().__init__(settings, flow, **more)
        self._reverse = next((f for f in settings.flows if f.has_opposite_in([flow])), None)
        self._reverse_aliases = tuple(flow.opposite_flows or ())
        self._journals: dict[str, JournalReader] = {}
        self._fences: dict[str, FenceTopic] = {}
        self._reverse_state: StateTopic | None = None
        self._reverse_look: StatusCollector | None = None
        self._deltas = {cluster.alias: DeltaLook() for cluster in settings.sides(flow)}
        self._last: FlowStatus | None = None
        self._opened_runs = frozenset[str]()
        self._noted = _Noted({}, knew_age=False)
        self._is_refused = False
        self._new_at = monotonic()

    def look(self, *, measure: bool = False) -> FlowStatus:
        """See :class:`StatusCollector`; with the state of the pair."""
        findings = self._find(measure=measure)
        self._last = status = self._judged(findings)
        log = self._fence_log(self._flow) if status.source_answers else None
        first = self._first(status, log)
        self._opened_runs = first.opened_runs
        second = self._reverse_facts(status, first)
        pair = judge(first, second, self._settings.failover.rpo_seconds)
        counted = without_passive(findings, pair, self._flow.target)
        own = status if counted is findings else self._judged(counted)
        paired = with_pair(own, self._with_deltas(pair, (first, second), status.at_ms))
        log = log and log.with_opened(first.opened_runs.union(p.run_id for p in second.opposite.values()))
        return with_source_record(replace(paired, run=first.run), log, first)

    def mark_opened(self) -> None:
        """Mark on the source the runs that have opened the target, by the last look at its journal."""
        fences = self._fences.get(fence_topic(self._flow.source, self._flow.target))
        if fences is not None and self._opened_runs:
            with suppress(DrkitError):
                fences.mark_opened(self._opened_runs)

    def read_pair(self) -> PairStatus:
        """Return the state of the pair now."""
        return self.look().pair or PairStatus((self._flow.source, self._flow.target))

    @property
    def is_note_due(self) -> bool:
        """Return whether a failover needs the ends of the last look recorded to trust the copy.

        That is so after a turn, for a partition missing in the last record, and if that record did not have
        the age of the oldest missing record.
        """
        if self._state is None or self._last is None or self.source_ends is None:
            return False
        if self._is_refused:
            return False  # a refused record, such as a too large one, is not retried at each look
        is_more = self._last.copied_ms is not None and not self._noted.knew_age
        return is_more or self._has_more or bool(not_noted_since(self._state.records))

    @property
    def is_note_whole(self) -> bool:
        """Return whether the last record suffices for a failover, or no better one is expected soon.

        The copy of a new partition begins within a look or two; then its age is known.
        """
        return self._noted.knew_age or monotonic() - self._new_at > _BEGINS_SECONDS

    @property
    def _has_more(self) -> bool:
        return self.source_ends is not None and bool(self.source_ends.keys() - self._noted.ends.keys())

    def remember_source(self) -> None:
        """Record the source's ends of the last look on the target, after a change or a turn.

        An incomplete look does not replace a recent note of all partitions. The next complete look does.

        :raises DrkitError: the target did not accept the record
        """
        ends, last = self.source_ends, self._last
        if self._state is None or last is None or ends is None:
            return
        if ends == self._noted.ends and not self.is_note_due:
            return
        if last.copied_ms is None and is_note_preferred(self._state.records, ends, last.at_ms):
            self._noted = self._noted._replace(knew_age=False)
            return
        if self._has_more:
            self._new_at = monotonic()
        returns = self._state.records.readable(ReturnRecord)
        self._is_refused = True
        self._state.put(seen_record(ends, last.at_ms, last.copied_ms, returns))
        self._is_refused = False
        self._noted = _Noted(ends, knew_age=last.copied_ms is not None)

    def close(self) -> None:
        """See :class:`StatusCollector`."""
        self._forget_reverse()
        if self._reverse_look is not None:
            self._reverse_look.close()
        for fences in self._fences.values():
            fences.close()
        super().close()

    def _first(self, status: FlowStatus, log: FenceLog | None) -> DirectionFacts:
        aliases = (self._flow.source, self._flow.target)
        if not status.target_answers:
            refused = (f.text for f in status.faults if f.code in {OTHER_KEY, NOT_AUTHORIZED})
            unread, recorded = next(refused, _no_answer(self._flow.target)), promotions_in(log)
            return DirectionFacts(
                *aliases, unread=unread, silent=not status.source_answers, recorded=recorded
            )
        state = self._state.records if self._state is not None else _NO_STATE
        return self._facts(
            aliases, state, status.at_ms, tail=self._flow.source, silent=not status.source_answers,
            lags=lags_of(status),
        )  # fmt: skip

    def _reverse_facts(self, status: FlowStatus, first: DirectionFacts) -> DirectionFacts:
        source, target = self._flow.target, self._flow.source
        silent = first.unread == _no_answer(source)  # a cluster that refuses drkit answers
        if not self._reverse_aliases:
            return DirectionFacts(source, target, configured=False, silent=silent)
        if not status.source_answers:
            is_asked = first.promoted or not first.copies
            opposite = FlowSettings(source=source, target=target)
            recorded = promotions_in(self._fence_log(opposite) if is_asked else None)
            return DirectionFacts(source, target, unread=_no_answer(target), silent=silent, recorded=recorded)
        try:
            alias, state = self._reverse_records()
        except DrkitError as error:
            self._forget_reverse()
            reason = error.in_short if status.target_answers else _no_answer(target)
            return DirectionFacts(source, target, unread=reason, silent=silent)
        facts = self._facts((source, target), state, status.at_ms, tail=alias, silent=silent, lags=None)
        if facts.running and first.promoted and self._reverse is not None and not silent:
            return replace(facts, lags=self._reverse_lags())
        return facts

    def _facts(
        self,
        aliases: tuple[str, str],
        state: FlowState,
        now_ms: int,
        *,
        tail: str,
        silent: bool,
        lags: Mapping[str, TopicLag] | None,
    ) -> DirectionFacts:
        """Return the facts of a direction whose state was read; other unreadable facts are unknown.

        :param tail: source alias in the name of its journal
        """
        source, target = aliases
        runs: JournalRuns | str
        gone: frozenset[str] = frozenset()
        history, state_id = JournalHistory(), None
        try:
            history, state_id = self._loop.run(self._read_journal, target, tail)
            runs = JournalRuns.of(history, wall_ms())
        except DrkitError as error:
            runs = error.in_short
        # If the source does not answer, recorded fences count.
        with suppress(DrkitError):
            gone = frozenset() if silent else fences_gone(self._sides[source], state, fenced_topics(state))
        flow = self._reverse if source == self._flow.target else self._flow
        try:
            if flow is self._flow:
                refuse_renamed(state, flow)
            copies = state.readable(GenerationRecord)
            promoted = [copies[t].target for t in promotions_of(state) if t in copies]
            refusing = refusing_topics(self._sides[target], promoted)
            younger = history.lost_state(state, state_id)
            lost: Mapping[str, RoleRecord] = {}
            if isinstance(runs, JournalRuns) and not (younger or silent):
                log = self._fence_log(FlowSettings(source=source, target=target))
                lost = lost_promotions(log, state, runs.ids)
            observation = observation_of(
                aliases, state, history.opened, younger=younger, lost=lost, refusing=refusing
            )
            return DirectionFacts.of(
                replace(observation, silent=silent), state, now_ms, runs=runs, lags=lags, gone=gone,
                passed_over=(flow or self._flow).is_heartbeats,
                selects=flow.copies if flow is not None else lambda _: True,  # unknown: not configured
            )  # fmt: skip
        except DrkitError as error:
            return DirectionFacts(*aliases, unread=error.in_short, silent=silent)

    async def _read_journal(self, alias: str, source: str) -> tuple[JournalHistory, object]:
        """Return the journal, and the id of the state topic beside it. Raises DrkitError."""
        cluster = await self._connected(alias)
        journal = self._journals.get(alias)
        if journal is None or journal.cluster is not cluster:
            journal = self._journals[alias] = JournalReader(cluster, source, tolerant=True)
        name = state_topic(source)
        topics = await self._topics(alias, [journal.name, name])
        if not exists(journal.name, topics[journal.name], alias):
            return JournalHistory(), None
        await journal.read()
        journal.history.forget_ended({StepName.FENCE})
        return journal.history, topics[name].topic_id

    def _reverse_records(self) -> tuple[str, FlowState]:
        source = self._flow.source
        if self._reverse_state is None:
            for alias in self._reverse_aliases:
                name = state_topic(alias)
                if exists(name, self._loop.run(self._topics, source, [name])[name], source):
                    self._reverse_state = StateTopic(self._sides[source], alias)
                    self._reverse_state.load()
                    own = self._state.records if self._state is not None else _NO_STATE
                    if are_opposite(own, self._reverse_state.records):
                        return alias, self._reverse_state.records
                    self._forget_reverse()
            return self._reverse_aliases[0], _NO_STATE
        self._reverse_state.load()
        alias = next(a for a in self._reverse_aliases if state_topic(a) == self._reverse_state.name)
        return alias, self._reverse_state.records

    def _reverse_lags(self) -> Mapping[str, TopicLag] | None:
        if self._reverse_look is None:
            assert self._reverse is not None  # noqa: S101  the caller looked
            self._reverse_look = StatusCollector(
                self._settings, self._reverse, scan_up_to=self._scan_up_to, groups=False
            )
        return lags_of(self._reverse_look.look())

    def _forget_reverse(self) -> None:
        state, self._reverse_state = self._reverse_state, None
        if state is not None:
            state.close()

    def _fence_log(self, flow: FlowSettings) -> FenceLog | None:
        name = fence_topic(flow.source, flow.target)
        with suppress(DrkitError):
            topic = self._loop.run(self._topics, flow.source, [name])[name]
            if exists(name, topic, flow.source) and topic.leaders[0].node >= 0:
                return self._fences.setdefault(name, FenceTopic(self._sides[flow.source], flow)).read()
        return None

    def _with_deltas(
        self, pair: PairStatus, flows: tuple[DirectionFacts, DirectionFacts], now_ms: int
    ) -> PairStatus:
        bounds: dict[PairTopic, DeltaBound] = {}
        for number, flow in enumerate(flows):
            if found := deltas_of(pair, flow, is_first=number == 0):
                known = self._bounds(flow.target, found, now_ms)
                bounds |= {found[name].topic: bound for name, bound in known.items()}
        return replace(pair, topics=tuple(replace(t, delta=bounds.get(t)) for t in pair.topics))

    def _bounds(self, active: str, found: Mapping[str, Delta], now_ms: int) -> dict[str, DeltaBound]:
        roles = {name: delta.role for name, delta in found.items()}
        try:
            settings = retention_of(self._sides[active], roles)
            held = self._loop.run(self._held, active, roles, settings)
        except DrkitError as error:
            return dict.fromkeys(roles, DeltaBound(unknown=error.in_short))
        return {
            name: bound_of(settings[name], held[name], role.at_ms, now_ms, found[name].held)
            if name in settings and name in held
            else DeltaBound(unknown=f"{active} does not tell about the topic")
            for name, role in roles.items()
        }

    async def _held(
        self, active: str, roles: Mapping[str, RoleRecord], settings: Mapping[str, Mapping[str, str | None]]
    ) -> dict[str, list[PartitionDelta]]:
        sizes = any(int(s.get(RETENTION_BYTES) or -1) > 0 for s in settings.values())
        return await self._deltas[active].partitions(await self._connected(active), roles, sizes=sizes)


def _no_answer(alias: str) -> str:
    return f"{alias} does not answer"
