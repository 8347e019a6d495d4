"""Finds the topics to copy and prepares the target for them, in rounds.

A topic that fails is left out and reported; the others continue.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime
import time
from typing import Final
from uuid import UUID

from drkit.clock import Seconds, monotonic, wall_ms
from drkit.config import FlowSettings
from drkit.errors import DrkitError, Failed, Refused
from drkit.flow_state.codec.fields import partition_of
from drkit.flow_state.creation import to_copy_again
from drkit.flow_state.events import TopicEvents
from drkit.flow_state.records import (
    ConfigsRecord,
    EventRecord,
    GenerationRecord,
    OppositePromotionRecord,
    RoleRecord,
    VerifiedRecord,
)
from drkit.flow_state.state import Damaged
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import CALL_SECONDS, Cluster, identity
from drkit.kafka.raw import RawCluster, ask_once
from drkit.kafka.reading.record_cursor import RecordCursor, leader_fetch
from drkit.kafka.requests import TopicMetadata, metadata
from drkit.kafka.topics import describe_topics, list_offsets, one_by_one, topic_configs, topic_names
from drkit.model import TopicPartition
from drkit.topic_sync.change import TopicChanges
from drkit.topic_sync.rivals import Rivals
from drkit.topic_sync.rules import (
    FROZEN,
    PROMOTED,
    Action,
    Configs,
    CopiedTopic,
    Decision,
    Pair,
    TopicSyncResult,
    decide,
    without_held,
)
from drkit.topology.topic_configs import is_compacted
from drkit.topology.topic_plan import DeleteTopic

_TAKEOVER: Final = "takeover_from_mm2 = true continues where MirrorMaker 2 stopped"
_APPEND: Final = 'on_target_not_empty = "append" copies everything after these records'

Unexplained = Callable[[Collection[str]], Mapping[str, str]]
"""Returns, of target topics new to a flow, those with records of unknown origin, and the remedy."""
Ranges = dict[TopicPartition, tuple[int, int]]
"""Partition of the target → first offset and end offset."""


@dataclass
class EarlierRecords:
    """Finds records in topics of the target into which drkit has copied nothing yet (decision 0029).

    Most often another tool copied them, such as MirrorMaker 2. A copy from the start would add every record a
    second time, so the topic is left out until an operator decides.
    """

    target: Cluster
    flow: FlowSettings
    state: StateTopic
    """Of the flow; a topic in it was checked when it was new."""
    unexplained: Unexplained
    """Returns topics whose records no flow in the other direction explains, and the remedy."""
    _refused: dict[str, tuple[Ranges, Refused]] = field(default_factory=dict, init=False)

    def refused(self, pairs: Iterable[Pair]) -> dict[str, DrkitError]:
        """Return source topics whose copies hold unexplained records, each with the reason and the remedies.

        :raises DrkitError: the target does not answer
        """
        flow = self.flow
        if flow.on_target_not_empty == "append" or flow.takeover_from_mm2:
            return {}
        new_pairs = [p for p in pairs if self._is_new(p)]
        hints = self.unexplained([p.target_name for p in new_pairs])
        new_pairs = [p for p in new_pairs if p.target_name in hints]
        held = self._held([tp for pair in new_pairs for tp in _partitions(pair)])
        refusals: dict[str, tuple[Ranges, Refused]] = {}
        for pair in new_pairs:
            ranges = {tp: held[tp] for tp in _partitions(pair) if tp in held}
            previous = self._refused.get(pair.source.name)
            if previous is not None and previous[0] == ranges:
                refusals[pair.source.name] = previous
            elif ranges and (times := self._first_times(ranges)):
                hint = hints[pair.target_name]
                refusals[pair.source.name] = ranges, self._refusal(pair, ranges, times, hint)
        self._refused = refusals
        return {name: error for name, (_, error) in refusals.items()}

    def _is_new(self, pair: Pair) -> bool:
        """Return whether the copy existed before drkit; heartbeats are no data, and MM2 writes them too."""
        known, name = self.state.get(GenerationRecord, pair.source.name), pair.source.name
        if pair.target is None or self.flow.is_heartbeats(name):
            return False
        return known is None or known.target_id != pair.target.topic_id

    def _held(self, partitions: list[TopicPartition]) -> Ranges:
        starts = list_offsets(self.target, partitions, "earliest")
        ends = list_offsets(self.target, partitions, "latest", committed=True)
        return {tp: (starts[tp], ends[tp]) for tp in partitions if ends[tp] > starts[tp]}

    def _first_times(self, ranges: Ranges) -> dict[TopicPartition, int]:
        """Return times in ms of the first visible records; partitions with only markers are left out."""

        async def read(raw: RawCluster) -> dict[TopicPartition, int]:
            topics = await metadata(raw, sorted({tp.topic for tp in ranges}))
            times: dict[TopicPartition, int] = {}
            for tp, span in ranges.items():
                fetch = leader_fetch(raw, topics.get(tp.topic), tp)
                cursor = RecordCursor(f"{tp} on {raw.alias}", fetch, span, fetch_bytes=_FIRST_BYTES)
                while tp not in times and (step := await cursor.next()) is not None:
                    if (first := next(step.records, None)) is not None:
                        times[tp] = first.timestamp
            return times

        return ask_once(self.target.settings, self.flow.name, read, what="read the copies")

    def _refusal(self, pair: Pair, ranges: Ranges, times: dict[TopicPartition, int], hint: str) -> Refused:
        records = sum(end - start for tp, (start, end) in ranges.items() if tp in times)
        first = datetime.fromtimestamp(max(0, min(times.values())) / 1000, UTC)
        return Refused(
            "foreign_records_in_copy",
            where=f"topic {pair.source.name}, flow {self.flow.name}: {pair.target_name} on"
            f" {self.target.alias}",
            evidence=f"up to {records} {'record' if records == 1 else 'records'} in {len(times)} of"
            f" {len(pair.source.leaders)} partitions, the earliest of"
            f" {first.isoformat(timespec='seconds').replace('+00:00', 'Z')}",
            hint=f"{hint}; or {_APPEND}"
            if hint
            else f"{_TAKEOVER}; {_APPEND}; or {to_copy_again(self.target, self.flow)}",
        )


def _partitions(pair: Pair) -> list[TopicPartition]:
    assert pair.target is not None  # noqa: S101  only copies that are there are looked into
    return [TopicPartition(pair.target_name, number) for number in sorted(pair.target.leaders)]


GRACE_MS: Final = 7 * 24 * 3600 * 1000
"""Records of a deleted topic are kept for this time, because `drkit status` shows its last event."""
_PAUSE_MS: Final = 3600 * 1000
_FIRST_BYTES: Final = 64 << 10
_AT_ONCE: Final = 100
"""Maximum number of topics whose records one round deletes."""
_LAST_EVENTS: Final = frozenset({"source_deleted", "topic_deleted", "topic_left_out"})
GONE_ROUNDS: Final = 2
"""Number of rounds in a row that must find a topic deleted before its copy is deleted."""


@dataclass
class SourceGone:
    """Reports copied topics that disappear from the source; with ``mirror`` their copies are deleted too.

    A source that does not answer, or hides a topic from drkit, must never look like a deletion.
    """

    source: Cluster
    target: Cluster
    flow: FlowSettings
    state: StateTopic
    events: TopicEvents

    def __post_init__(self) -> None:
        self._rounds: dict[str, int] = {}
        self._forget_ms = 0

    def look(self, done: TopicSyncResult, listed: Collection[str], *, rounds: int) -> dict[str, DeleteTopic]:
        """Report missing topics; return the deletions for the target, by source topic.

        :param listed: the topics that the source shows
        :param rounds: number of rounds in a row that must agree
        """
        missing = self._missing(done, listed)
        for name, entry in missing.items():
            done.left_out[name] = "source_deleted: no longer listed on the source"
            old_id = str(entry.source_id)
            self.events.once("source_deleted", name, old_id, level="warning", old_id=old_id,
                              policy=self.flow.on_source_deleted,
                              reason="deleted, or no permission to see it")  # fmt: skip
        if self.flow.on_source_deleted != "mirror":
            return {}
        deleted = self._proven_deleted(missing)
        self._rounds = {n: self._rounds.get(n, 0) + 1 for n in deleted}
        return self._own_copies({n: missing[n] for n in deleted if self._rounds[n] >= rounds})

    def forget(self, listed: Collection[str]) -> None:
        """Delete the records of topics that have been gone from both clusters for the grace time.

        A copy that outlives its topic keeps its records.

        :param listed: the topics that the source shows
        """
        now = wall_ms()
        if now < self._forget_ms:
            return
        gone = self._gone(listed, now)
        for name in gone[:_AT_ONCE]:
            self._delete(name)
        if len(gone) <= _AT_ONCE:
            self._forget_ms = now + _PAUSE_MS

    def _gone(self, listed: Collection[str], now: int) -> list[str]:
        records = self.state.records
        roles, generations = records.readable(RoleRecord), records.readable(GenerationRecord)
        expired = {
            event.topic
            for event in records.readable(EventRecord).values()
            if event.kind in _LAST_EVENTS and now - event.at_ms > GRACE_MS and event.topic not in listed
        }
        expired = {n for n in expired if n not in roles and not records.is_damaged(GenerationRecord, n)}
        copied = {n: generations[n] for n in expired if n in generations and self.flow.copies(n)}
        deleted = {n: copied[n] for n in self._proven_deleted(copied)}
        existing, unseen = one_by_one(describe_topics, self.target, {e.target for e in deleted.values()})
        return sorted(
            {n for n in expired if n not in generations}
            | {
                n
                for n, e in deleted.items()
                if e.target not in unseen
                and (e.target not in existing or existing[e.target].topic_id != e.target_id)
            }
        )

    def _delete(self, name: str) -> None:
        records = self.state.records
        events = records.readable(EventRecord).items()
        self.state.delete_all(EventRecord, [n for n, event in events if event.topic == name])
        partitions = records.readable(VerifiedRecord)
        self.state.delete_all(VerifiedRecord, [p for p in partitions if partition_of(p).topic == name])
        for kind in (ConfigsRecord, OppositePromotionRecord, GenerationRecord):
            self.state.delete_all(kind, [name] if name in records.readable(kind) else [])

    def _missing(self, result: TopicSyncResult, listed: Collection[str]) -> dict[str, GenerationRecord]:
        return {
            name: entry
            for name, entry in self.state.records.readable(GenerationRecord).items()
            if name not in listed and name not in result.left_out and self.flow.copies(name)
        }

    def _proven_deleted(self, missing: Mapping[str, GenerationRecord]) -> list[str]:
        """Return the topics that the source itself reports as unknown.

        For a named topic, brokers answer UNKNOWN_TOPIC_OR_PARTITION only to clients that may see it; others
        get TOPIC_AUTHORIZATION_FAILED. And it must be the cluster from which the topic was copied.
        """
        if not missing:
            return []
        admin = self.source.admin
        cluster_id = self.source.call("describe the cluster", identity, admin, CALL_SECONDS).cluster_id
        existing, refused = one_by_one(describe_topics, self.source, missing)
        return [
            name
            for name, entry in missing.items()
            if name not in existing and name not in refused and entry.source_cluster == cluster_id
        ]

    def _own_copies(self, deleted: Mapping[str, GenerationRecord]) -> dict[str, DeleteTopic]:
        roles, is_damaged = self.state.records.readable(RoleRecord), self.state.records.is_damaged
        passive = {n: e for n, e in deleted.items() if n not in roles and not is_damaged(RoleRecord, n)}
        existing, _ = one_by_one(describe_topics, self.target, (e.target for e in passive.values()))
        return {
            name: DeleteTopic(entry.target, "deleted on the source", str(entry.target_id))
            for name, entry in passive.items()
            if entry.target in existing and existing[entry.target].topic_id == entry.target_id
        }


_SETTLE_PAUSE_SECONDS: Final = 0.05
_HINTS: Final = {
    "source_recreated": 'on_source_recreated = "new_generation" appends the new topic after the old records',
    "target_deleted": 'on_target_deleted = "new_generation" creates it again and copies from the start',
}


@dataclass
class TopicSync:
    """Keeps the target's topics ready for one flow.

    :param effects: False for a dry run
    :param claims: returns the source topics, by name and id, that must not be copied, and why
    :param unexplained: returns target topics whose records no flow in the other direction explains
    :param held: returns, by source topic, values of settings set by a hold: they are not followed
    """

    source: Cluster
    target: Cluster
    flow: FlowSettings
    state: StateTopic
    _: KW_ONLY
    effects: bool = True
    claims: Callable[[Mapping[str, UUID]], Mapping[str, DrkitError]] = lambda _topics: {}
    unexplained: Unexplained = lambda topics: dict.fromkeys(topics, "")
    held: Callable[[], Mapping[str, Mapping[str, str]]] = dict
    clock: Seconds = monotonic

    def __post_init__(self) -> None:
        target, flow, state = self.target, self.flow, self.state
        self._compared_at: float | None = None
        self._configs: dict[UUID, Configs] = {}
        self._events = TopicEvents(flow, state, effects=self.effects)
        self._changes = TopicChanges(target, flow, state, self._events, effects=self.effects)
        self._rivals = Rivals(target, flow, state, self._events, self.clock)
        self._gone = SourceGone(self.source, target, flow, state, self._events)
        self._earlier = EarlierRecords(target, flow, state, self.unexplained)

    def look(self) -> TopicSyncResult:
        """Compare, plan, apply; returns what can be copied now.

        :raises DrkitError: a cluster does not answer
        """
        result = TopicSyncResult()
        self._forget_when_due()
        pairs, listed = self._pairs(result)
        gone = self._gone.look(result, listed, rounds=GONE_ROUNDS if self.effects else 1)
        ready = self._decide_all(result, pairs)
        for name, error in self._earlier.refused(pairs[n] for n in ready).items():
            result.left_out[name] = self._events.left_out(name, error)
            del ready[name]
        self._changes.make(result, [pairs[n] for n in ready], gone)
        if self.effects:
            self._gone.forget(listed)
        created = [n for n in ready if pairs[n].target is None and n not in result.left_out]
        if created and self.effects:
            settled = self._wait_for_metadata({pairs[n].target_name for n in created})
            for name in created:
                pairs[name] = pairs[name]._replace(target=settled.get(pairs[name].target_name))
            # Values that only the target has are compared now: broker defaults, the number of replicas.
            self._changes.make(result, [pairs[n] for n in created if pairs[n].target is not None])
        entries = {
            name: entry
            for name, decision in ready.items()
            if name not in result.left_out and (entry := self._enter(result, decision, pairs[name]))
        }
        self.state.put_all((n, e) for n, e in entries.items() if self.state.get(GenerationRecord, n) != e)
        return result

    def _forget_when_due(self) -> None:
        now = self.clock()
        interval = self.flow.sync_topic_configs_interval_seconds
        if self._compared_at is None or now - self._compared_at >= interval:
            self._compared_at = now
            self._configs.clear()
            self._changes.limits.clear()

    def _pairs(self, result: TopicSyncResult) -> tuple[dict[str, Pair], set[str]]:
        """Return the source topics with their copies, and the names of all visible source topics."""
        names = [n for n in topic_names(self.source) if self.flow.copies(n)]
        sources, refused = one_by_one(describe_topics, self.source, names)
        unknown = [n for n, t in sources.items() if t.topic_id not in self._configs]
        configs, unread = one_by_one(topic_configs, self.source, unknown)
        # A hold is recorded before it takes effect, so it is read after the settings.
        held = self.held() if configs else {}
        self._configs |= {sources[n].topic_id: without_held(c, held.get(n, {})) for n, c in configs.items()}
        naming = self.flow.naming_policy
        refused |= self._rivals.refused(sources)
        claimed = self.claims({n: t.topic_id for n, t in sources.items()})
        # Each flow copies its own heartbeats: with those of other flows their names would grow forever.
        heartbeats = {n for n in claimed if self.flow.is_heartbeats(n)}
        refused |= {n: error for n, error in claimed.items() if n not in heartbeats}
        target_names = {n: naming.downstream(n) for n in sources if n not in refused}
        targets, unseen = one_by_one(describe_topics, self.target, target_names.values())
        refused |= unread | {n: unseen[t] for n, t in target_names.items() if t in unseen}
        for name, error in refused.items():
            result.left_out[name] = self._events.left_out(name, error)
        return {
            n: Pair(t, self._configs[t.topic_id], target_names[n], targets.get(target_names[n]))
            for n, t in sources.items()
            # A topic without settings was deleted meanwhile; the next round finds that.
            if n not in refused and n not in heartbeats and t.topic_id in self._configs
        }, {*sources, *refused}

    def _decide_all(self, result: TopicSyncResult, pairs: dict[str, Pair]) -> dict[str, Decision]:
        ready = {}
        for name, pair in pairs.items():
            try:
                role, generation = self.state.get(RoleRecord, name), self.state.get(GenerationRecord, name)
            except Damaged as error:  # never readable in this run
                result.left_out[name] = self._events.left_out(name, error)
                continue
            if role is not None and role.is_promoted:
                result.left_out[name] = PROMOTED
                continue
            if role is not None and role.is_frozen:
                result.left_out[name] = FROZEN
                continue
            decision = decide(self.flow, pair.source, pair.target, generation)
            if decision.kind:
                self._events.once(
                    decision.kind, name, decision.identity, level="warning", old_id=decision.old_id,
                    new_id=decision.new_id, stopped=decision.action is Action.LEAVE,
                    hint=_HINTS[decision.kind],
                )  # fmt: skip
            if decision.action is Action.LEAVE:
                result.left_out[name] = f"{decision.kind}: set {_HINTS[decision.kind]}"
            else:
                ready[name] = decision
        return ready

    def _wait_for_metadata(self, names: set[str]) -> dict[str, TopicMetadata]:
        """Wait a moment until metadata of new topics have reached every broker."""
        topics: dict[str, TopicMetadata] = {}
        for _ in range(50):
            topics |= describe_topics(self.target, names - set(topics))
            if set(topics) == names:
                break
            time.sleep(_SETTLE_PAUSE_SECONDS)
        return topics

    def _enter(self, result: TopicSyncResult, decision: Decision, pair: Pair) -> GenerationRecord | None:
        """Add a copied topic to the result; return its record to store."""
        name, target = pair.source.name, pair.target
        if not self.effects:
            result.actions.setdefault(name, "copy")
            return None
        if target is None or target.topic_id not in self._changes.limits:
            where = f"{self.target.alias}: {pair.target_name}"
            missing = Failed("target_topic_missing", where=where)
            result.left_out[name] = self._events.left_out(name, missing)
            return None
        result.copied[name] = CopiedTopic(
            pair.source, pair.target_name, str(target.topic_id), is_compacted(pair.configs),
            self._changes.limits[target.topic_id],
        )  # fmt: skip
        return GenerationRecord(
            pair.target_name, pair.source.topic_id, target.topic_id, decision.generation,
            self.source.cluster_id,
        )  # fmt: skip
