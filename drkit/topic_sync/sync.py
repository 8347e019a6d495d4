"""Finds what is to be copied and prepares the target for it, round after round.

A topic that fails is left out and named; the others continue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
import time
from typing import Final
from uuid import UUID

from drkit.clock import Seconds, monotonic
from drkit.config import FlowSettings
from drkit.errors import DrkitError, Failed
from drkit.flow_state.events import TopicEvents
from drkit.flow_state.records import GenerationRecord, RoleRecord
from drkit.flow_state.state import Damaged
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.requests import TopicMetadata
from drkit.kafka.topics import describe_topics, one_by_one, topic_configs, topic_names
from drkit.topic_sync.change import TopicChanges
from drkit.topic_sync.earlier_records import EarlierRecords, Unexplained
from drkit.topic_sync.gone import GONE_ROUNDS, SourceGone
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

_SETTLE_PAUSE_SECONDS: Final = 0.05
_HINTS: Final = {
    "source_recreated": 'on_source_recreated = "new_generation" appends the new topic after the old records',
    "target_deleted": 'on_target_deleted = "new_generation" creates it again and copies from the start',
}


class TopicSync:
    """Keeps the target's topics ready for one flow.

    :param effects: False only reports what would be done
    :param claims: topics of the source, by name and id, that are not to be copied, and why
    :param unexplained: topics of the target whose records no flow in the other direction accounts for
    :param held: by topic of the source, values of settings that are not its own: they are not followed
    """

    def __init__(
        self,
        source: Cluster,
        target: Cluster,
        flow: FlowSettings,
        state: StateTopic,
        *,
        effects: bool = True,
        claims: Callable[[Mapping[str, UUID]], Mapping[str, DrkitError]] = lambda _topics: {},
        unexplained: Unexplained = lambda topics: dict.fromkeys(topics, ""),
        held: Callable[[], Mapping[str, Mapping[str, str]]] = dict,
        clock: Seconds = monotonic,
    ) -> None:
        self._source = source
        self._target = target
        self._flow = flow
        self._state = state
        self._effects = effects
        self._claims, self._held = claims, held
        self._clock = clock
        self._compared_at: float | None = None
        self._configs: dict[UUID, Configs] = {}
        self._events = TopicEvents(flow, state, effects=effects)
        self._changes = TopicChanges(target, flow, state, self._events, effects=effects)
        self._rivals = Rivals(target, flow, state, self._events, clock)
        self._gone = SourceGone(source, target, flow, state, self._events)
        self._earlier = EarlierRecords(target, flow, state, unexplained)

    def look(self) -> TopicSyncResult:
        """Compare, plan, apply; returns what can be copied now.

        :raises DrkitError: a cluster does not answer
        """
        done = TopicSyncResult()
        self._forget_when_due()
        pairs, listed = self._pairs(done)
        gone = self._gone.look(done, listed, rounds=GONE_ROUNDS if self._effects else 1)
        ready = self._decided(done, pairs)
        for name, error in self._earlier.refused(pairs[n] for n in ready).items():
            done.left_out[name] = self._events.left_out(name, error)
            del ready[name]
        self._changes.make(done, [pairs[n] for n in ready], gone)
        if self._effects:
            self._gone.forget(listed)
        created = [n for n in ready if pairs[n].target is None and n not in done.left_out]
        if created and self._effects:
            found = self._settled({pairs[n].target_name for n in created})
            for name in created:
                pairs[name] = pairs[name]._replace(target=found.get(pairs[name].target_name))
            # Values known only from the target are compared now: brokers' defaults, the number of replicas.
            self._changes.make(done, [pairs[n] for n in created if pairs[n].target is not None])
        entries = {
            name: entry
            for name, decision in ready.items()
            if name not in done.left_out and (entry := self._take(done, decision, pairs[name])) is not None
        }
        self._state.put_all((n, e) for n, e in entries.items() if self._state.get(GenerationRecord, n) != e)
        return done

    def _forget_when_due(self) -> None:
        """Settings are compared again when their interval is over."""
        now = self._clock()
        interval = self._flow.sync_topic_configs_interval_seconds
        if self._compared_at is None or now - self._compared_at >= interval:
            self._compared_at = now
            self._configs.clear()
            self._changes.limits.clear()

    def _pairs(self, done: TopicSyncResult) -> tuple[dict[str, Pair], set[str]]:
        """The topics of the source with their copies, and all that the source shows."""
        names = [n for n in topic_names(self._source) if self._flow.copies(n)]
        sources, refused = one_by_one(describe_topics, self._source, names)
        unknown = [n for n, t in sources.items() if t.topic_id not in self._configs]
        configs, unread = one_by_one(topic_configs, self._source, unknown)
        # A hold is on record before it shows, so it is asked for after the settings.
        held = self._held() if configs else {}
        self._configs |= {sources[n].topic_id: without_held(c, held.get(n, {})) for n, c in configs.items()}
        naming = self._flow.naming_policy
        refused |= self._rivals.refused(sources)
        claimed = self._claims({n: t.topic_id for n, t in sources.items()})
        # Each flow has a copy of heartbeats, which no other one needs: their names would grow forever.
        beats = {n for n in claimed if self._flow.is_heartbeats(n)}
        refused |= {n: error for n, error in claimed.items() if n not in beats}
        target_names = {n: naming.downstream(n) for n in sources if n not in refused}
        targets, unseen = one_by_one(describe_topics, self._target, target_names.values())
        refused |= unread | {n: unseen[t] for n, t in target_names.items() if t in unseen}
        for name, error in refused.items():
            done.left_out[name] = self._events.left_out(name, error)
        return {
            n: Pair(t, self._configs[t.topic_id], target_names[n], targets.get(target_names[n]))
            for n, t in sources.items()
            # A topic without settings was deleted meanwhile; the next round finds that.
            if n not in refused and n not in beats and t.topic_id in self._configs
        }, {*sources, *refused}

    def _decided(self, done: TopicSyncResult, pairs: dict[str, Pair]) -> dict[str, Decision]:
        ready = {}
        for name, pair in pairs.items():
            try:
                role, known = self._state.get(RoleRecord, name), self._state.get(GenerationRecord, name)
            except Damaged as error:  # one that was never known to this run
                done.left_out[name] = self._events.left_out(name, error)
                continue
            if role is not None and role.is_promoted:
                done.left_out[name] = PROMOTED
                continue
            if role is not None and role.is_frozen:
                done.left_out[name] = FROZEN
                continue
            decision = decide(self._flow, pair.source, pair.target, known)
            if decision.kind:
                self._events.once(
                    decision.kind, name, decision.identity, level="warning", old_id=decision.old_id,
                    new_id=decision.new_id, stopped=decision.action is Action.LEAVE,
                    hint=_HINTS[decision.kind],
                )  # fmt: skip
            if decision.action is Action.LEAVE:
                done.left_out[name] = f"{decision.kind}: set {_HINTS[decision.kind]}"
            else:
                ready[name] = decision
        return ready

    def _settled(self, wanted: set[str]) -> dict[str, TopicMetadata]:
        """Wait a moment until metadata of new topics have reached every broker."""
        found: dict[str, TopicMetadata] = {}
        for _ in range(50):
            found |= describe_topics(self._target, wanted - set(found))
            if set(found) == wanted:
                break
            time.sleep(_SETTLE_PAUSE_SECONDS)
        return found

    def _take(self, done: TopicSyncResult, decision: Decision, pair: Pair) -> GenerationRecord | None:
        """Enter a topic into the round; returns what is to be remembered of it."""
        name, target = pair.source.name, pair.target
        if not self._effects:
            done.actions.setdefault(name, "copy")
            return None
        if target is None or target.topic_id not in self._changes.limits:
            where = f"{self._target.alias}: {pair.target_name}"
            missing = Failed("target_topic_missing", where=where)
            done.left_out[name] = self._events.left_out(name, missing)
            return None
        done.copied[name] = CopiedTopic(
            pair.source, pair.target_name, str(target.topic_id), is_compacted(pair.configs),
            self._changes.limits[target.topic_id],
        )  # fmt: skip
        return GenerationRecord(
            pair.target_name, pair.source.topic_id, target.topic_id, decision.generation,
            self._source.cluster_id,
        )  # fmt: skip
