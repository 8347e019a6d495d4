"""A return that keeps a tail appends it, and ``drkit replay`` is typed with its export: each record once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from drkit.errors import Refused
from drkit.model import TopicPartition
from drkit.replay.compare import Same
from drkit.replay.run import roll_back_kept
from tests.support.replay.world import ReplayWorld, run_of, tail
from tests.support.waiting import eventually

NUMBER, PIECE = 60, 25
BEFORE_IT_BEGINS = 2
"""The first request after it has fenced others and read what they did; of a new broker it is a later one."""


def at_the_same_moment(world: ReplayWorld, topic: str, freeze: int) -> bool:
    """Halt the one that keeps the tail at a request, type a replay, let both end, roll back, replay the rest.

    :returns: whether it was halted before it ended
    """
    mine, at = world.promoted(topic), TopicPartition(topic, 0)
    lost = tail(NUMBER)
    world.write(mine, tail(3, word="others"))
    manifest = world.export({at: lost})
    first = world.process(manifest, freeze=freeze, piece=PIECE, kept=True)
    eventually(lambda: not first.running or first.halted, what="halted, or at its end")
    halted = first.running
    typed: Any = None
    try:
        typed = world.replay(manifest, Same.NONE)
    except Refused as error:
        typed = error.what
    first.resume()
    kept = first.outcome()
    where = (freeze, typed, kept)
    assert max(_copies(world, mine).values()) == 1, where
    roll_back_kept(world.target, world.flow, run_of(manifest), [TopicPartition(mine, 0)])
    world.replay(manifest, Same.CONTENT)
    copies = _copies(world, mine)
    assert set(copies.values()) == {1}, where
    assert len(copies) == NUMBER, where
    return halted


@pytest.mark.wide
def test_one_finds_what_the_other_began(world: ReplayWorld, topic_name: str) -> None:
    assert at_the_same_moment(world, f"{topic_name}-first", 0)
    assert at_the_same_moment(world, topic_name, BEFORE_IT_BEGINS)


@pytest.mark.soak
@pytest.mark.timeout(1500)
def test_at_every_request(world: ReplayWorld, topic_name: str) -> None:
    freeze = 0
    while at_the_same_moment(world, f"{topic_name}-{freeze}", freeze):
        freeze += 1
    assert freeze >= 12


def _copies(world: ReplayWorld, topic: str) -> Counter[tuple[bytes | None, int]]:
    """Record of the tail, by its key and time → how often the new primary has it."""
    seen = [s for s in world.seen(topic) if not (s.value or b"").startswith(b"others ")]
    return Counter((s.key, s.timestamp) for s in seen)
