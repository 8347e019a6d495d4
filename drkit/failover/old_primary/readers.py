"""Readers of the old primary: consumers that never left it, and flows to other clusters.

Such consumers would read what comes back, and commit. Every group with members is asked, also those that the
flow's filter leaves out: drkit writes no positions of them, but they would process the records that come back
all the same. A consumer that assigns its partitions itself is no member of a group: brokers do not know it.

A failback writes records there again, which are new for every reader. A flow in the other direction leaves
out what it wrote itself; a flow to a third cluster does not, and its copy would have every record twice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing, suppress
from typing import Final, NamedTuple

from drkit.checkpoints.other_groups import is_consumer
from drkit.clock import wall_ms
from drkit.counted import counted, first_of
from drkit.errors import DrkitError, Refused
from drkit.failover.core.commands import retry_command
from drkit.failover.core.context import Context
from drkit.failover.core.request import RunRequest
from drkit.failover.core.reverse import reverse_flow, states_elsewhere
from drkit.failover.core.step import StepEffect
from drkit.failover.groups.offsets import evict_members
from drkit.flow_state.records import GenerationRecord, LeaseRecord
from drkit.journal.machine import StepName
from drkit.kafka.codes import GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED
from drkit.kafka.groups.requests import DEAD, EMPTY, SHARE, Groups, failure
from drkit.kafka.raw import RawCluster
from drkit.kafka.reading.log_tail import LogTail
from drkit.mm2_topics.heartbeats import TOPIC
from drkit.model import TopicPartition
from drkit.offsets.mm2_records import Heartbeat
from drkit.wire import Record

_IDLE: Final = frozenset({"", EMPTY, DEAD})
_STREAMS: Final = "streams"
"""The protocol type of KIP-1071: such a group is known by what it has committed alone."""
_UNTOLD: Final = frozenset({SHARE, _STREAMS})
"""Protocol types of groups that brokers may not describe to drkit."""
_HIDDEN: Final = frozenset({GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED})
"""The second one if a member of a group of KIP-848 or KIP-932 has a topic that drkit may not describe."""
_SETTLED_SECONDS: Final = 5.0
"""Timeout for a group that rebalances, until it is known what its members read."""
_REJOINS_SECONDS: Final = 6.0
"""For a client that was removed, until it joins again: with its next heartbeat, by default after 3 s (classic
protocol) or 5 s (consumer protocol)."""
_PAUSE_SECONDS: Final = 0.3


class Readers(NamedTuple):
    """Members of groups that read some topics."""

    members: Mapping[str, str]
    """Group → its members, in words."""
    unsettled: frozenset[str]
    """Groups that rebalance: what they read is unknown."""
    hidden: tuple[str, ...]
    """Groups whose topics drkit cannot see: the flow leaves one out and drkit may not describe it, or no
    request describes one of this protocol."""

    @property
    def settled(self) -> dict[str, str]:
        """Return the groups that are known to read some of the topics."""
        return {group: text for group, text in self.members.items() if group not in self.unsettled}


def refuse_readers(
    context: Context, source: RawCluster, topics: Collection[str], *, evict: bool,
    step: StepName = StepName.CONTACT,
) -> list[str]:  # fmt: skip
    """Refuse members of groups that read some topics of the old primary, or have read them.

    :param evict: remove them first; those that come back are refused
    :param step: which does that
    :returns: notes on what was removed, and on what could not be seen
    :raises DrkitError: the old primary does not answer, or does not remove them
    """
    readers, notes = _settled(context, source, topics), list[str]()
    if evict and (known := readers.settled):
        evict_members(context, step, source, known, retry_command(context))
        notes.append(f"removed from groups on {context.flow.source}: {_in_words(known)}")
        readers = _rejoined(context, source, topics)
    if members := readers.members:
        raise Refused(
            "members_on_old_primary",
            where=context.flow.source,
            evidence=first_of(
                f"{g}: {m}{' (it rebalances: what it reads is unknown)' if g in readers.unsettled else ''}"
                for g, m in sorted(members.items())
            ),
            groups=counted(len(members), "group", "has"),
            command=retry_command(context),
            evict_command=retry_command(context, RunRequest(evict_readers=True)),
        )
    if not readers.hidden:
        return notes
    groups = counted(len(readers.hidden), "group", "reads")
    return [*notes, f"drkit cannot see whether {groups} there: {first_of(readers.hidden)}"]


def planned_eviction(context: Context, source: RawCluster, topics: Collection[str]) -> list[StepEffect]:
    """Return the members that :func:`refuse_readers` would remove, also of groups that the flow excludes."""
    known = _settled(context, source, topics).settled
    if not known:
        return []
    text = f"remove the members of {counted(len(known), 'group')}"
    return [StepEffect(text, context.flow.source, _in_words(known, most=len(known)))]


def _in_words(members: Mapping[str, str], most: int = 5) -> str:
    return first_of((f"{group} ({text})" for group, text in sorted(members.items())), most)


def _settled(context: Context, source: RawCluster, topics: Collection[str]) -> Readers:
    until = context.clock() + _SETTLED_SECONDS
    while True:
        readers: Readers = context.run(_readers, context, source, topics)
        if not readers.unsettled or readers.unsettled < readers.members.keys() or context.clock() > until:
            return readers
        context.pause(_PAUSE_SECONDS)


def _rejoined(context: Context, source: RawCluster, topics: Collection[str]) -> Readers:
    until = context.clock() + _REJOINS_SECONDS
    while not (readers := _settled(context, source, topics)).members and context.clock() <= until:
        context.pause(_PAUSE_SECONDS)
    return readers


async def _readers(context: Context, source: RawCluster, topics: Collection[str]) -> Readers:
    """Return groups whose members are subscribed to some topics, were assigned one, or have read one.

    Only groups with members are asked about, by the states in the list of groups.
    """
    groups, accepts = Groups(source), reverse_flow(context).group_filter.accepts
    living = {g: x for g, x in sorted((await groups.listed()).items()) if x.state not in {EMPTY, DEAD}}
    described = await groups.describe([g for g, x in living.items() if is_consumer(x)])
    described |= await groups.describe_share([g for g, x in living.items() if x.protocol == SHARE])
    with_offsets = [g for g, x in living.items() if is_consumer(x) or x.protocol == _STREAMS]
    committed = await groups.committed(with_offsets)
    members, unsettled, hidden = dict[str, str](), set[str](), list[str]()
    for group, listed in living.items():
        answers = [a for a in (described.get(group), committed.get(group)) if a is not None]
        code = next((a.error for a in answers if a.value is None), 0)
        has_read = group in committed and any(tp.topic in topics for tp in committed[group].value or ())
        if code and (code not in _HIDDEN or (accepts(group) and not has_read)):
            raise failure(code, f"ask about the group {group}", source.alias)
        description = described[group].value if group in described else None
        if description is None or code:
            if has_read:
                members[group] = f"members of a {listed.protocol or 'consumer'} group"
            elif code or listed.protocol in _UNTOLD:
                hidden.append(group)
            continue
        reads = [m.reads for m in description.members]
        is_reader = has_read or any(r is not None and r.some_of(topics) for r in reads)
        if description.state in _IDLE or not (is_reader or None in reads):
            continue
        members[group] = ", ".join(f"{m.client or m.id} on {m.host}" for m in description.members)
        if not is_reader:
            unsettled.add(group)
    return Readers(members, frozenset(unsettled), tuple(hidden))


_NEW_MS: Final = 60_000
"""Longer than clocks of two hosts usually differ."""
_LAST: Final = 1_000
_SECONDS: Final = 5.0


def refuse_other_flows(context: Context, topics: Collection[str]) -> None:
    """Refuse to empty topics that another flow copies to another cluster.

    :raises Refused: one is configured here, or has a lease on a cluster of this configuration
    :raises DrkitError: such a cluster answers, and its state cannot be read
    """
    source, pair, emptied = context.flow.source, {context.flow.source, context.flow.target}, set(topics)
    others = [f for f in context.settings.flows if f.source == source and f.target not in pair]
    copied = {f.name: sorted(t for t in emptied if f.copies(t)) for f in others}
    for flow, state in states_elsewhere(context):
        # The age of a lease is not asked: its holder's clock may be behind.
        if flow.name not in copied and state.readable(LeaseRecord):
            copied[flow.name] = sorted(state.readable(GenerationRecord).keys() & emptied)
    readers = [f"{flow} copies {first_of(names)}" for flow, names in copied.items() if names]
    flows = [f"{context.flow.source}->{alias}" for alias in ([] if readers else _beating(context))]
    readers += [f"{flow} runs: its heartbeats are new" for flow in flows]
    if readers:
        raise Refused("other_flow_reads", where=context.flow.source, evidence="; ".join(sorted(set(readers))))


def _beating(context: Context) -> Collection[str]:
    """Return clusters outside of this configuration to which a flow runs, by its heartbeats."""
    settings, since = context.source_settings, wall_ms() - _NEW_MS
    targets: set[str] = set()

    def take(record: Record) -> None:
        with suppress(ValueError):  # not a heartbeat
            beat = Heartbeat.decode(record.key or b"", record.value or b"")
            if beat.source == context.flow.source and beat.timestamp > since:
                targets.add(beat.target)

    with closing(LogTail(settings, TopicPartition(TOPIC, 0), take)) as tail, suppress(DrkitError):
        if tail.skip_to_last(_LAST, _SECONDS):
            tail.read(_SECONDS)
    return sorted(targets - set(context.settings.clusters))
