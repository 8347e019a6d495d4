"""Topics that a flow must leave alone: for their names, or because another replicator writes their copies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from drkit.clock import Seconds, monotonic
from drkit.config import FlowSettings
from drkit.errors import DrkitError, NotAuthorized, Refused
from drkit.flow_state.events import TopicEvents
from drkit.flow_state.names import offset_map_topic, source_of_state_topic
from drkit.flow_state.records import GenerationRecord
from drkit.flow_state.state import FlowState
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.groups.requests import group_members
from drkit.kafka.reading.compacted import newest_values
from drkit.kafka.topics import describe_topics, one_by_one, topic_names
from drkit.topology import Route, shared
from drkit.topology.flows import refused_names
from drkit.topology.naming import worker_group, worker_topic
from drkit.topology.rivals import Claim, FlowEntry, flow_claim, mm2_claim, mm2_source

_LOOK_AGAIN_SECONDS: Final = 60.0
"""A topic that is copied already may get a second writer; a new one is always looked at first."""


@dataclass
class Rivals:
    """Checks the target before anything is created there.

    :param state: of this flow
    """

    target: Cluster
    flow: FlowSettings
    state: StateTopic
    events: TopicEvents
    clock: Seconds = monotonic

    def __post_init__(self) -> None:
        self._claims: dict[str, Claim] = {}
        self._looked_at: float | None = None
        self._cleared: set[str] = set()

    def refused(self, topics: Iterable[str]) -> dict[str, DrkitError]:
        """Source topics that are not to be copied, each with reason, evidence and the setting to change.

        :raises DrkitError: the target does not answer
        """
        topics = list(topics)
        naming = self.flow.naming_policy
        on_target = topic_names(self.target)
        names = refused_names(self.flow.name, self.flow.source, naming, topics, on_target)
        refused: dict[str, DrkitError] = {**names}
        copies = {t: naming.downstream(t) for t in topics if t not in refused}
        self._refresh_claims(on_target, copies)
        for topic, copy in copies.items():
            if (claim := self._claims.get(copy)) is not None:
                where = f"topic {topic}, flow {self.flow.name}: {copy} on {self.target.alias}"
                refused[topic] = Refused(
                    "topic_claimed", where=where, evidence=claim.evidence, hint=claim.hint, reason=claim.what
                )
        self._cleared = set(copies) - set(refused)
        return refused

    def _refresh_claims(self, on_target: list[str], copies: Mapping[str, str]) -> None:
        now = self.clock()
        recent = self._looked_at is not None and now - self._looked_at < _LOOK_AGAIN_SECONDS
        if recent and set(copies) <= self._cleared:
            return
        self._looked_at = now
        wanted = set(copies.values())
        self._claims = self._of_flows(on_target, copies) | self._of_mm2(on_target, wanted)

    def _of_flows(self, on_target: list[str], copies: Mapping[str, str]) -> dict[str, Claim]:
        copied_to = set(copies.values())
        flows = {n: a for n in on_target if (a := source_of_state_topic(n)) and a != self.flow.source}
        states, hidden = one_by_one(newest_values, self.target, flows)
        for name, error in hidden.items():
            self._report_unknown("rival_unknown", name, "what this flow writes is unknown", error)
        entries = [
            (entry, flow_claim(entry, source, (name, offset_map_topic(source))), source)
            for name, records, source in ((n, r, flows[n]) for n, r in states.items())
            for entry in _entries(records)
            if entry.target in copied_to
        ]
        ids = {
            n: str(t.topic_id)
            for n, t in describe_topics(self.target, {e.target for e, *_ in entries}).items()
        }
        own_copies = {c for t, c in copies.items() if self._is_own(t, ids.get(c))}
        return {
            entry.target: claim
            for entry, claim, other in entries
            # An entry of another id is of a topic that was deleted since. If two flows began at the same
            # moment, each finds the other's: the first by name continues.
            if ids.get(entry.target) == entry.target_id
            and not (entry.target in own_copies and self.flow.source < other)
        }

    def _is_own(self, topic: str, target_id: str | None) -> bool:
        entry = self.state.records.readable(GenerationRecord).get(topic)
        return entry is not None and str(entry.target_id) == target_id

    def _of_mm2(self, on_target: list[str], wanted: set[str]) -> dict[str, Claim]:
        aliases = [w[1] for n in on_target if (w := worker_topic(n)) and w[0] == "mm2-configs"]
        claims: dict[str, Claim] = {}
        for alias in aliases:
            try:
                claims |= self._of_one_mm2(alias)
            except NotAuthorized as error:
                what = "whether this MirrorMaker 2 runs and writes to this flow's topics is unknown"
                self._report_unknown("mm2_unknown", f"mm2-configs.{alias}.internal", what, error)
        return {name: claim for name, claim in claims.items() if name in wanted}

    def _report_unknown(self, kind: str, topic: str, what: str, error: DrkitError) -> None:
        self.events.once(kind, topic, error.where, level="warning", reason=what,
                          evidence=f"{error.where}: {error.evidence}", hint=error.hint)  # fmt: skip

    def _of_one_mm2(self, alias: str) -> dict[str, Claim]:
        group = worker_group(alias)
        workers = group_members(self.target.settings, [group])[group]
        config = f"mm2-configs.{alias}.internal"
        if not workers:
            if alias == self.flow.source and not self.flow.takeover_from_mm2:
                self.events.once(
                    "mm2_stopped", config, alias,
                    reason="a MirrorMaker 2 copied from this source and does not run",
                    hint="takeover_from_mm2 = true continues where it ended",
                )  # fmt: skip
            return {}
        copying = mm2_source(newest_values(self.target, [config]).get(config, {}))
        hosts = {f"{w.client} at {w.host}" for w in workers}
        written = copying.written(alias) if copying is not None else {}
        return {copy: mm2_claim(alias, topic, copy, hosts, group) for copy, topic in written.items()}


def _entries(records: Mapping[bytes, bytes]) -> list[FlowEntry]:
    found = FlowState.of(records).readable(GenerationRecord)
    return [FlowEntry(topic, entry.target, str(entry.target_id)) for topic, entry in found.items()]


def refuse_shared(clusters: Mapping[str, Cluster], flows: Sequence[FlowSettings]) -> None:
    """Two flows of one process that would write one topic, by the topics that their sources have now.

    The settings were tried with made-up names when they were read; two regular expressions may still meet.

    :raises Refused: names the topic and both flows
    """
    names = {alias: topic_names(clusters[alias]) for alias in dict.fromkeys(f.source for f in flows)}
    copied = [
        (
            Route(f.source, clusters[f.target].cluster_id, f.topic_filter, f.naming_policy),
            [n for n in names[f.source] if f.copies(n)],
        )
        for f in flows
    ]
    for topic, one, other in shared(copied):
        raise Refused(
            "topic_claimed_twice",
            where=f"flows from {one.source} and from {other.source} to the same cluster",
            evidence=f"it is the copy of {one.naming.upstream(topic)} of {one.source}"
            f" and of {other.naming.upstream(topic)} of {other.source}",
            topic=topic,
        )
