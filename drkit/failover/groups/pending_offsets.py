"""Open transactions with offsets of a group: they would commit after TRANSLATE.

A fence on topics does not end a transaction that only sent offsets (``sendOffsetsToTransaction``). It could
commit on the old primary after the group's position is written on the new one, and the group would lose that
commit. So drkit reads stable offsets, and treats such transactions like those under the fence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from drkit.counted import counted, first_of
from drkit.errors import Refused
from drkit.failover.core.context import Context
from drkit.kafka.codes import UNSTABLE_OFFSET_COMMIT
from drkit.kafka.groups.requests import Groups
from drkit.kafka.raw import RawCluster
from drkit.kafka.requests import metadata
from drkit.kafka.transactions import Owner, abort, open_in, owners
from drkit.model import TopicPartition

_OFFSETS: Final = "__consumer_offsets"
_PAUSE_SECONDS: Final = 0.1
_END_SECONDS: Final = 5.0
"""Timeout for the markers of aborted transactions."""


class Pending(NamedTuple):
    """A group with offsets in an open transaction."""

    group: str
    at: TopicPartition
    """The partition that stores its offsets."""
    producers: Mapping[int, Owner | None]
    """Producers with open transactions there; None: drkit may not see the transactional id."""

    def __str__(self) -> str:
        named = (o.transactional_id if o else f"producer {i}" for i, o in sorted(self.producers.items()))
        return f"group {self.group}: {first_of(named) or 'a producer that cannot be seen'}"


def settle(context: Context, source: RawCluster, groups: Iterable[str]) -> list[str]:
    """Wait until no open transaction holds offsets of the groups; return what was done, in sentences.

    :raises Refused: some transactions do, and the settings say to hold then
    :raises RawError: the source stopped answering
    """
    settings, names = context.settings.failover.fence, sorted(groups)
    deadline = context.clock() + settings.transaction_wait_seconds
    found: list[Pending] = context.run(pending, source, names)
    while found and context.clock() < deadline:
        context.pause(_PAUSE_SECONDS)
        found = context.run(pending, source, names)
    if not found:
        return []
    notes = [f"{p}: its transaction, open with offsets of the group, was aborted" for p in found]
    if settings.open_transactions == "abort":
        for one in {o for p in found for o in p.producers.values() if o is not None and not o.is_decided}:
            context.run(abort, source, one.transactional_id)
        deadline = context.clock() + _END_SECONDS
        while found and context.clock() < deadline:
            context.pause(_PAUSE_SECONDS)
            found = context.run(pending, source, names)
    if found:
        raise _unstable(context, found)
    return notes


async def pending(source: RawCluster, groups: Iterable[str]) -> list[Pending]:
    """Return the groups with offsets in open transactions, with the producers.

    :raises RawError: the source stopped answering
    """
    answers = await Groups(source).committed(groups, stable=True)
    names = [g for g, a in answers.items() if a.error == UNSTABLE_OFFSET_COMMIT]
    if not names:
        return []
    leaders = (await metadata(source, [_OFFSETS]))[_OFFSETS].leaders
    places = {g: TopicPartition(_OFFSETS, kept_in(g, len(leaders))) for g in names}
    known = {at: leaders[at.partition].node for at in places.values() if at.partition in leaders}
    opened = await open_in(source, known)
    who = await owners(source, {o.producer_id for some in opened.values() for o in some})
    return [
        Pending(g, at, {o.producer_id: who.get(o.producer_id) for o in opened.get(at, [])})
        for g, at in sorted(places.items())
    ]


def kept_in(group: str, partitions: int) -> int:
    """Return the partition that stores a group's offsets, by the absolute Java hash of its name."""
    units = group.encode("utf-16-be")
    value = 0
    for i in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[i : i + 2], "big")) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >> 31 else value
    return (0 if signed == -(1 << 31) else abs(signed)) % max(1, partitions)


def _unstable(context: Context, found: list[Pending]) -> Refused:
    return Refused(
        "pending_offsets",
        where=f"{context.flow.name}: {first_of(p.group for p in found)}",
        evidence=first_of(found),
        groups=counted(len(found), "group"),
    )
