"""Stored positions that are wrong."""

from __future__ import annotations

from drkit.kafka.groups.requests import Committed, Groups
from drkit.offsets.group_guard import OffsetMark
from tests.support.failover.world import World


def move_by_one(world: World, group: str) -> None:
    """Store the next position of a group on the target, with a mark as drkit writes it."""
    [(tp, stored)] = world.committed(world.target, group).items()
    mark = OffsetMark.of(stored.metadata)
    assert mark is not None
    wrong = mark._replace(downstream=mark.downstream + 1)
    offset = Committed(wrong.downstream, wrong.text())
    answer = world.ask(world.target, lambda raw: Groups(raw).alter({group: {tp: offset}}))
    assert answer[group].value == {tp: 0}
