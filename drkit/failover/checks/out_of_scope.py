"""Topics, groups and clients that relate to a scope but do not move.

Only the source knows all of them. While it is silent, the flow's state on the target names the topics that
the last run left out, and the checkpoints name the groups. A repoint method that is not limited to the scope
sends clients of other topics to copies that are still passive.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from drkit.checkpoints.other_groups import CONSUMERS, OtherGroup, from_state
from drkit.config import FlowSettings, RepointSettings
from drkit.counted import first_of
from drkit.failover.core.context import Context, Scope
from drkit.failover.groups.offsets import Positions, partition_of, unless_away
from drkit.flow_state.records import CheckpointsRecord, ConfigurationRecord, EventRecord, GenerationRecord
from drkit.flow_state.state import FlowState
from drkit.kafka.groups.requests import Groups
from drkit.kafka.raw import RawCluster
from drkit.kafka.requests import TopicMetadata, all_topics
from drkit.model import TopicPartition
from drkit.offsets.group_guard import GuardVerdict
from drkit.pair.promotions import promoted_of
from drkit.repoint import name_of

_LEFT_OUT: Final = "topic_left_out"
"""The event of the topic sync for a topic that it does not copy."""
_SHARE: Final = "share"
_FILTERED: Final = "groups or groups_exclude of the flow leave it out"
_LEFT: Final = "--leave-behind names it"
_UNSELECTED: Final = "topics or topics_exclude of this configuration leave it out, and the flow has copied it"


class SourceReader(NamedTuple):
    """A group of the source, before the flow's filters apply."""

    kind: str
    """Its protocol type, or empty if its offsets were stored without a member."""
    topics: frozenset[str]
    """Topics in which it has committed offsets, of the flow or not."""
    is_known: bool = True
    """Whether the source shows which topics it reads."""


Readers = Mapping[str, SourceReader]


@dataclass(frozen=True)
class OutOfScope:
    """Topics and groups that do not move, with the reasons."""

    not_copied: Mapping[str, str] = field(default_factory=dict)
    """Topic that the flow should copy, or has copied → why it does not move."""
    groups: Mapping[str, str] = field(default_factory=dict)
    """Group that reads a topic of the scope → why it does not move."""
    late: tuple[str, ...] = ()
    """Groups of the flow that first committed in a topic of the scope after the scope was chosen."""
    unknown: tuple[str, ...] = ()
    """Groups that do not move and whose topics are unknown."""
    kinds: Mapping[str, str] = field(default_factory=dict)
    """Group of another type, such as a share group, that does not move → why."""
    no_place: Mapping[str, str] = field(default_factory=dict)
    """Group without an exact position in a topic of the scope, by the last checkpoint round → why."""
    torn: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Group of the scope → other topics that it reads and that remain on the source."""
    staying: tuple[str, ...] = ()
    """Groups that do not move and read remaining topics of the flow."""
    staying_topics: tuple[str, ...] = ()
    """Topics of the flow that remain on the source, with or without a copy."""
    differs: tuple[str, ...] = ()
    """Parts of the configuration that differ from those of the replicator."""
    by_file: tuple[str, ...] = ()
    """Topics and groups that are replicated and that only this configuration leaves out."""

    def notes(self) -> list[str]:
        """Return sentences for the proposal and the report."""
        remains = "reads topics that move, and remains"
        notes = [f"topic {topic} remains: {why}" for topic, why in sorted(self.not_copied.items())]
        notes += [f"the flow's last replicator had another configuration of {part}" for part in self.differs]
        notes += [f"group {group} {remains}: {why}" for group, why in sorted(self.groups.items())]
        notes += [f"group {g} committed after the scope was chosen; TRANSLATE looks again" for g in self.late]
        notes += [
            f"{group} also reads {', '.join(topics)}, which remains: it needs both clusters"
            for group, topics in sorted(self.torn.items())
        ]
        if self.unknown:
            notes.append(f"these groups remain, what they read is not known: {first_of(self.unknown)}")
        notes += [f"group {group} remains: {why}" for group, why in sorted(self.kinds.items())]
        return notes + [f"group {g} has no exact position: {why}" for g, why in sorted(self.no_place.items())]

    def to_json(self) -> dict[str, Any]:
        """Return plain data for the journal, without the groups that the run does not affect."""
        plain = {
            name: dict(value) if isinstance(value, Mapping) else list(value)
            for name, value in vars(self).items()
        }
        del plain["staying"]
        return plain | {"torn": {g: list(topics) for g, topics in self.torn.items()}}


def look_outside(context: Context, source: RawCluster | None, positions: Positions) -> OutOfScope:
    """Return what does not move when the scope of a run moves.

    :param positions: of the flow's groups; the only known readers while the source is silent
    :raises RawError: the source stopped answering
    """
    flow, state = context.flow, context.state.records
    listed: dict[str, TopicMetadata] | None = None if source is None else context.run(all_topics, source)
    shown: Readers | None = None if source is None else unless_away(context, readers_of, source)
    readers: Readers = {g: SourceReader("", frozenset(tp.topic for tp in p)) for g, p in positions.items()}
    if shown is None:
        checkpoints = context.kept.checkpoints_of(context.target_settings, flow)
        readers = {**left_groups(flow, checkpoints.of(None), context.known.upstream), **readers}
    left, known = context.request.leave_behind, state.readable(ConfigurationRecord).get("")
    topics = unselected(flow, listed, state, left)
    differs = known.differences(context.settings.fingerprints(flow)) if known is not None else ()
    missing = not_copied(flow, listed, state) | topics
    result = outside(flow, context.scope, shown or readers, missing, state, left)
    reasons = {_LEFT, _FILTERED} if "groups" in differs else {_LEFT}
    groups = [g for g, reason in result.groups.items() if reason in reasons]
    result = replace(result, differs=differs, by_file=(*topics, *groups))
    return result if shown is not None else by_the_last_round(result, context.scope, state)


def unselected(
    flow: FlowSettings, listed: Container[str] | None, state: FlowState, left: Container[str] = ()
) -> dict[str, str]:
    """Return copied topics that are not promoted and that this configuration or request leaves out. Pure.

    :param listed: the source's topics, or None if it is silent
    :param left: topics that the request leaves on the source
    """
    copied = sorted(state.all(GenerationRecord).keys() - promoted_of(state))
    reasons = {t: _LEFT for t in copied if t in left}
    excluded = (t for t in copied if not (flow.topic_filter.accepts(t) or flow.is_heartbeats(t)))
    reasons |= dict.fromkeys(excluded, _UNSELECTED)
    return {t: why for t, why in reasons.items() if listed is None or t in listed}


def left_groups(
    flow: FlowSettings, checkpoints: Mapping[str, Iterable[TopicPartition]], upstream: Mapping[str, str]
) -> dict[str, SourceReader]:
    """Return groups with checkpoints that this configuration leaves out, and what they read. Pure."""
    return {
        group: SourceReader("", frozenset(upstream[tp.topic] for tp in partitions if tp.topic in upstream))
        for group, partitions in checkpoints.items()
        if not flow.group_filter.accepts(group)
    }


def by_the_last_round(found: OutOfScope, scope: Scope, state: FlowState) -> OutOfScope:
    """Return `found` with the groups of the last checkpoint round, for a silent source. Pure.

    A group without an exact position has no checkpoint, so only the round's record names it.
    """
    last = state.get(CheckpointsRecord)
    if last is None:
        return found
    others, _ = from_state(last)
    places: dict[str, str] = {}
    for group, tp, verdict, why in last.refused:
        if verdict == GuardVerdict.NO_POSITION.name and partition_of(tp).topic in scope.topics:
            places.setdefault(group, f"{tp}: {why or verdict}; it begins where its auto.offset.reset says")
    return replace(found, kinds={o.group: o.reason for o in others}, no_place=places)


async def readers_of(source: RawCluster) -> dict[str, SourceReader]:
    """Return all visible groups with the topics of their committed offsets. Raises DrkitError."""
    asked = Groups(source)
    listed = await asked.listed()
    answers = await asked.committed(sorted(listed))
    return {
        group: SourceReader(
            listed[group].protocol,
            frozenset(tp.topic for tp in answer.value or ()),
            is_known=answer.value is not None and listed[group].protocol != _SHARE,
        )
        for group, answer in answers.items()
    }


def not_copied(
    flow: FlowSettings, listed: Mapping[str, TopicMetadata] | None, state: FlowState
) -> dict[str, str]:
    """Return topics that the flow should copy but that have no copy, with the reasons. Pure.

    :param listed: the source's topics, or None if it is silent: then the topics of the last events are used
    """
    known, events = state.all(GenerationRecord), state.readable(EventRecord)
    promoted = promoted_of(state)
    names = listed.keys() if listed is not None else {e.topic for e in events.values() if e.kind == _LEFT_OUT}
    missing = {}
    for name in sorted(names):
        if not flow.copies(name) or flow.is_heartbeats(name) or name in promoted:
            continue
        if name not in known:
            missing[name] = _why(events.get(EventRecord.name_of(_LEFT_OUT, name)))
        elif listed is None or (seen := listed[name]).error or not seen.topic_id.int:
            continue
        elif seen.topic_id != known[name].source_id:
            missing[name] = "it was deleted and created again on the source: its copy is of the earlier topic"
    return missing


def _why(event: EventRecord | None) -> str:
    if event is None:
        return "it has no copy yet"
    seen = [str(event.fields.get(key, "")) for key in ("reason", "evidence")]
    return f"it is left out: {' '.join(filter(None, seen))}"


def outside(
    flow: FlowSettings, scope: Scope, readers: Readers, missing: Mapping[str, str], state: FlowState,
    left: Container[str] = (),
) -> OutOfScope:  # fmt: skip
    """Return what does not move. Pure. `missing`: topics without a copy, with the reasons.

    :param left: groups that the request leaves on the source
    """
    moved = {*scope.topics, *promoted_of(state)}
    torn = {
        g: tuple(sorted(t for t in readers[g].topics - moved if not flow.is_heartbeats(t)))
        for g in scope.groups
        if g in readers
    }
    staying = {g: r for g, r in sorted(readers.items()) if g not in scope.groups}
    reading = {g: r for g, r in staying.items() if r.topics & scope.topics.keys()}
    reasons = {g: _LEFT if g in left else _reason(flow, g, r) for g, r in reading.items()}
    copied = {t for t in state.all(GenerationRecord) if flow.copies(t) and not flow.is_heartbeats(t)}
    remaining = (copied | missing.keys()) - moved
    return OutOfScope(
        not_copied=missing,
        groups={g: why for g, why in reasons.items() if why},
        late=tuple(g for g, why in reasons.items() if not why),
        unknown=tuple(g for g, r in staying.items() if not r.is_known),
        kinds={g: OtherGroup(g, r.kind).reason for g, r in staying.items() if r.kind == _SHARE},
        torn={g: topics for g, topics in torn.items() if topics},
        staying=tuple(g for g, r in staying.items() if r.topics & remaining),
        staying_topics=tuple(sorted(remaining)),
    )


def _reason(flow: FlowSettings, group: str, reader: SourceReader) -> str:
    if reader.kind not in CONSUMERS:
        return OtherGroup(group, reader.kind).reason
    if not flow.group_filter.accepts(group):
        return _FILTERED
    return ""


_ONLY_SAYS: Final = "print"
"""The kind that redirects no client by itself."""


class Reach(NamedTuple):
    """One way that is used when a scope moves."""

    way: str
    unlimited: bool
    groups: tuple[str, ...]
    """Groups that move and follow the way."""
    other_groups: tuple[str, ...] = ()
    """Groups that remain on the source and follow the way."""
    other_topics: tuple[str, ...] = ()
    """Topics that remain on the source and whose producers may follow the way."""

    @property
    def others(self) -> str:
        """Remaining clients that the way reaches, in words, or empty if it reaches none."""
        groups, topics = self.other_groups, self.other_topics
        clients = {"groups that remain": groups, "producers of topics that remain": topics}
        return "; ".join(f"{who}: {first_of(names)}" for who, names in clients.items() if names)

    def in_words(self) -> str:
        """Return a sentence for the proposal."""
        groups = f"groups {first_of(self.groups) or 'none'}"
        who = "every client that follows it" if self.unlimited else groups
        return f"{self.way}: {who}" + (f"; also {self.others}" if self.others else "")


def reach(ways: Iterable[RepointSettings], scope: Scope, outside: OutOfScope) -> tuple[Reach, ...]:
    """Return the moving and remaining clients that these ways reach."""
    reaches, is_whole = [], scope.whole_flow and not outside.by_file
    for way in ways:
        if not is_whole and not way.tells(scope.groups, scope.topics):
            continue
        one = Reach(name_of(way), way.is_unlimited, tuple(filter(way.reaches_group, scope.groups)))
        if way.kind != _ONLY_SAYS:
            one = one._replace(
                other_groups=tuple(filter(way.reaches_group, outside.staying)),
                other_topics=tuple(filter(way.reaches_topic, outside.staying_topics)),
            )
        reaches.append(one)
    return tuple(reaches)
