"""The waits of a switchover for consumer groups: idle consumers, and offsets in open transactions.

Consumers on a fenced source are awaited until they reach its end, so that a switchover repeats nothing. A
fence on topics does not end a transaction that only sent offsets (``sendOffsetsToTransaction``). It could
commit on the old primary after the group's position is written on the new one, and the group would lose that
commit. So drkit reads stable offsets, and treats such transactions like those under the fence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple

from drkit.clock import Seconds
from drkit.counted import counted, first_of
from drkit.errors import Refused
from drkit.failover.core.context import Context, StepProgress, asked
from drkit.failover.groups.offsets import Positions, committed_in
from drkit.failover.loss.positions import scope_positions
from drkit.journal.machine import StepName
from drkit.kafka.codes import UNSTABLE_OFFSET_COMMIT
from drkit.kafka.groups.asking import OFFSETS_TOPIC, Answered
from drkit.kafka.groups.requests import GroupDescription, Groups
from drkit.kafka.raw import RawCluster
from drkit.kafka.requests import metadata
from drkit.kafka.transactions import Owner, abort, open_in, owners
from drkit.model import TopicPartition
from drkit.offsets.translation import Exact, PartitionPosition

_LAG_PAUSE_SECONDS: Final = 0.3
STUCK_SECONDS: Final = 15.0
"""A group without a commit for this time is not awaited: three times Kafka's `auto.commit.interval.ms`.

An application that writes its results into a fenced topic cannot commit any more.
"""


class Moving:
    """Tracks which groups still approach the end offsets."""

    def __init__(self, clock: Seconds) -> None:
        self._clock = clock
        self._since: dict[str, tuple[int, float]] = {}

    def of(self, lags: Mapping[str, int]) -> list[str]:
        """Return the groups in `lags` whose distance changed within `STUCK_SECONDS`."""
        now = self._clock()
        before = self._since
        self._since = {g: (n, now) for g, n in lags.items()}
        self._since |= {g: known for g, known in before.items() if lags.get(g) == known[0]}
        return [group for group, (_, since) in self._since.items() if now < since + STUCK_SECONDS]


def wait_for_groups(context: Context, deadline: float) -> dict[str, str]:
    """Wait until groups are at the fenced end, without members, or stuck; return the others and their lag."""
    moving = Moving(context.clock)
    while True:
        behind = asked(context, lambda source: None if source is None else _behind(context, source))
        if behind is None:
            return {}
        lags, members = behind
        moves = moving.of(lags)
        if not moves or context.clock() > deadline:
            return {
                group: f"{counted(number, 'record')} before the fenced end,"
                f" {counted(members[group], 'member')}"
                for group, number in lags.items()
            }
        reading = f"{counted(len(moves), 'group', 'is')} still reading"
        context.tell(StepProgress(StepName.DRAIN, reading, {"first": min(moves)}))
        context.pause(_LAG_PAUSE_SECONDS)


def _behind(context: Context, source: RawCluster) -> tuple[dict[str, int], dict[str, int]]:
    positions = scope_positions(context, source, final=True)
    # All groups: a group that began to commit after SNAPSHOT moves too.
    ask = partial(context.run, committed_in, source, context.flow, context.known.topics)
    committed: Positions = {**ask(), **ask(context.scope.groups)}
    lags: dict[str, int] = {}
    for group, partitions in committed.items():
        for tp, stored in partitions.items():
            position = positions.get(tp)
            if not isinstance(position, PartitionPosition):
                continue
            target = position.forward(stored.offset)
            if isinstance(target, Exact) and target.offset < position.copied_end:
                lags[group] = lags.get(group, 0) + position.copied_end - target.offset
    described: dict[str, Answered[GroupDescription]] = context.run(Groups(source).describe, lags)
    members = {g: len(a.value.members) for g, a in described.items() if a.value is not None}
    return {group: number for group, number in lags.items() if members.get(group)}, members


_PAUSE_SECONDS: Final = 0.1
_END_SECONDS: Final = 5.0
"""Timeout for the markers of aborted transactions."""


class Pending(NamedTuple):
    """A group with offsets in an open transaction."""

    group: str
    at: TopicPartition
    """The partition that stores its offsets."""
    producers: Mapping[int, Owner | None]
    """Producers with open transactions there, with None if drkit may not see the transactional id."""

    def __str__(self) -> str:
        named = (o.transactional_id if o else f"producer {i}" for i, o in sorted(self.producers.items()))
        return f"group {self.group}: {first_of(named) or 'a producer that cannot be seen'}"


def settle(context: Context, source: RawCluster, groups: Iterable[str]) -> list[str]:
    """Wait until no open transaction holds offsets of the groups; return notes on aborted ones.

    :raises Refused: some do, and the settings do not abort them, or the abort timed out
    :raises RawError: the source stopped answering
    """
    settings, names = context.settings.failover.fence, sorted(groups)
    waiting = _waited(context, source, names, settings.transaction_wait_seconds)
    if not waiting:
        return []
    notes = [f"{p}: its transaction, open with offsets of the group, was aborted" for p in waiting]
    if settings.open_transactions == "abort":
        for one in {o for p in waiting for o in p.producers.values() if o is not None and not o.is_decided}:
            context.run(abort, source, one.transactional_id)
        waiting = _waited(context, source, names, _END_SECONDS)
    if waiting:
        where = f"{context.flow.name}: {first_of(p.group for p in waiting)}"
        groups = counted(len(waiting), "group")
        raise Refused("pending_offsets", where=where, evidence=first_of(waiting), groups=groups)
    return notes


def _waited(context: Context, source: RawCluster, names: list[str], seconds: float) -> list[Pending]:
    deadline = context.clock() + seconds
    while (waiting := context.run(pending, source, names)) and context.clock() < deadline:
        context.pause(_PAUSE_SECONDS)
    return list(waiting)


async def pending(source: RawCluster, groups: Iterable[str]) -> list[Pending]:
    """Return the groups with offsets in open transactions, with the producers. Raises RawError."""
    answers = await Groups(source).committed(groups, stable=True)
    names = [g for g, a in answers.items() if a.error == UNSTABLE_OFFSET_COMMIT]
    if not names:
        return []
    leaders = (await metadata(source, [OFFSETS_TOPIC]))[OFFSETS_TOPIC].leaders
    partitions = {g: TopicPartition(OFFSETS_TOPIC, kept_in(g, len(leaders))) for g in names}
    known = {tp: leaders[tp.partition].node for tp in partitions.values() if tp.partition in leaders}
    opened = await open_in(source, known)
    known_owners = await owners(source, {o.producer_id for o in opened})
    return [
        Pending(g, tp, {o.producer_id: known_owners.get(o.producer_id) for o in opened if o.at == tp})
        for g, tp in sorted(partitions.items())
    ]


def kept_in(group: str, partitions: int) -> int:
    """Return the partition that stores a group's offsets, by the absolute Java hash of its name."""
    units = group.encode("utf-16-be")
    value = 0
    for i in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[i : i + 2], "big")) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >> 31 else value
    return (0 if signed == -(1 << 31) else abs(signed)) % max(1, partitions)
