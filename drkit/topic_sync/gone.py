"""Topics that were copied and are no longer on the source: named, and with ``mirror`` deleted too.

A source that does not answer, or no longer shows a topic to drkit, must never look like a deletion.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from drkit.clock import wall_ms
from drkit.config import FlowSettings
from drkit.flow_state.codec.fields import partition_of
from drkit.flow_state.events import TopicEvents
from drkit.flow_state.records import (
    ConfigsRecord,
    EventRecord,
    GenerationRecord,
    RoleRecord,
    VerifiedRecord,
)
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import CALL_SECONDS, Cluster, identity
from drkit.kafka.topics import describe_topics, one_by_one
from drkit.topic_sync.rules import TopicSyncResult
from drkit.topology.topic_plan import DeleteTopic

GRACE_MS: Final = 7 * 24 * 3600 * 1000
"""Records of a deleted topic are kept for this time, because `drkit status` shows its last event."""
_PAUSE_MS: Final = 3600 * 1000
_AT_ONCE: Final = 100
"""Maximum number of topics whose records one round deletes."""
_LAST_EVENTS: Final = frozenset({"source_deleted", "topic_deleted", "topic_left_out"})
GONE_ROUNDS: Final = 2
"""Number of rounds in a row that must find a topic deleted before its copy is deleted."""


class SourceGone:
    """Watches for topics that disappear from the source."""

    def __init__(
        self, source: Cluster, target: Cluster, flow: FlowSettings, state: StateTopic, events: TopicEvents
    ) -> None:
        self._source = source
        self._target = target
        self._flow = flow
        self._state = state
        self._events = events
        self._rounds: dict[str, int] = {}
        self._forget_ms = 0

    def look(self, done: TopicSyncResult, listed: Collection[str], *, rounds: int) -> dict[str, DeleteTopic]:
        """Report what is missing; returns what is to be deleted on the target, by source topic.

        :param listed: the topics that the source shows
        :param rounds: number of rounds in a row that must agree
        """
        missing = self._missing(done, listed)
        for name, entry in missing.items():
            done.left_out[name] = "source_deleted: no longer listed on the source"
            old_id = str(entry.source_id)
            self._events.once("source_deleted", name, old_id, level="warning", old_id=old_id,
                              policy=self._flow.on_source_deleted,
                              reason="deleted, or no permission to see it")  # fmt: skip
        if self._flow.on_source_deleted != "mirror":
            return {}
        deleted = self._surely_deleted(missing)
        self._rounds = {n: self._rounds.get(n, 0) + 1 for n in deleted}
        return self._own_copies({n: missing[n] for n in deleted if self._rounds[n] >= rounds})

    def forget(self, listed: Collection[str]) -> None:
        """Delete the records of topics that have been gone for the grace: no cluster has them.

        All else that drkit keeps of a topic ends with its record. A copy that outlives its topic keeps both.

        :param listed: the topics that the source shows
        """
        now = wall_ms()
        if now < self._forget_ms:
            return
        found = self._gone(listed, now)
        for name in found[:_AT_ONCE]:
            self._delete(name)
        self._events.forget(frozenset(found[:_AT_ONCE]))
        if len(found) <= _AT_ONCE:
            self._forget_ms = now + _PAUSE_MS

    def _gone(self, listed: Collection[str], now: int) -> list[str]:
        records = self._state.records
        roles, known = records.readable(RoleRecord), records.readable(GenerationRecord)
        old = {
            event.topic
            for event in records.readable(EventRecord).values()
            if event.kind in _LAST_EVENTS and now - event.at_ms > GRACE_MS and event.topic not in listed
        }
        old = {n for n in old if n not in roles and not records.is_damaged(GenerationRecord, n)}
        copied = {n: known[n] for n in old if n in known and self._flow.copies(n)}
        deleted = {n: copied[n] for n in self._surely_deleted(copied)}
        existing, unseen = one_by_one(describe_topics, self._target, {e.target for e in deleted.values()})
        return sorted(
            {n for n in old if n not in known}
            | {
                n
                for n, e in deleted.items()
                if e.target not in unseen
                and (e.target not in existing or existing[e.target].topic_id != e.target_id)
            }
        )

    def _delete(self, name: str) -> None:
        records = self._state.records
        events = records.readable(EventRecord).items()
        self._state.delete_all(EventRecord, [n for n, event in events if event.topic == name])
        places = records.readable(VerifiedRecord)
        self._state.delete_all(VerifiedRecord, [p for p in places if partition_of(p).topic == name])
        for kind in (ConfigsRecord, GenerationRecord):
            self._state.delete_all(kind, [name] if name in records.readable(kind) else [])

    def _missing(self, done: TopicSyncResult, listed: Collection[str]) -> dict[str, GenerationRecord]:
        return {
            name: entry
            for name, entry in self._state.records.readable(GenerationRecord).items()
            if name not in listed and name not in done.left_out and self._flow.copies(name)
        }

    def _surely_deleted(self, missing: Mapping[str, GenerationRecord]) -> list[str]:
        """Those that the source itself reports as unknown.

        For a named topic, brokers answer UNKNOWN_TOPIC_OR_PARTITION only to clients that may see it; others
        get TOPIC_AUTHORIZATION_FAILED. And it must be the cluster from which the topic was copied.
        """
        if not missing:
            return []
        admin = self._source.admin
        cluster_id = self._source.call("describe the cluster", identity, admin, CALL_SECONDS).cluster_id
        found, refused = one_by_one(describe_topics, self._source, missing)
        return [
            name
            for name, entry in missing.items()
            if name not in found and name not in refused and entry.source_cluster == cluster_id
        ]

    def _own_copies(self, deleted: Mapping[str, GenerationRecord]) -> dict[str, DeleteTopic]:
        """Deletions of the copies that this flow wrote and that are not promoted, by source topic."""
        roles, is_damaged = self._state.records.readable(RoleRecord), self._state.records.is_damaged
        passive = {n: e for n, e in deleted.items() if n not in roles and not is_damaged(RoleRecord, n)}
        existing, _ = one_by_one(describe_topics, self._target, (e.target for e in passive.values()))
        return {
            name: DeleteTopic(entry.target, "deleted on the source", str(entry.target_id))
            for name, entry in passive.items()
            if entry.target in existing and existing[entry.target].topic_id == entry.target_id
        }
