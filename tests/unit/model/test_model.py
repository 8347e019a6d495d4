"""The model walked by random schedules, and what they find when one rule is taken out.

`DRKIT_TEST_SEED` begins with another seed; `python -m tests.model SEED [STEPS]` replays one.
"""

from __future__ import annotations

from collections.abc import Callable
import os
from typing import Any, Final

import pytest

from drkit.copy_task.core.partition import PartitionCopy
from drkit.copy_task.target import take_up
from drkit.copy_task.target.take_up import TakeUp
from drkit.offset_map import settling
from drkit.offsets import partition_map, resolve, takeup
from drkit.offsets.takeup import Author, Go
from tests.model import map_topic, target, task
from tests.model.explorer import Explorer
from tests.model.scene import Violated

FIRST: Final = int(os.environ.get("DRKIT_TEST_SEED", "0"))
STEPS: Final = 400
SEEDS: Final = 250
LONG_SEEDS: Final = 12_500
MOST: Final = 4_000
"""Schedules in which a missing rule must be found."""


def walk(first: int, seeds: int) -> int:
    """Run schedules; returns how many steps."""
    steps = 0
    for seed in range(first, first + seeds):
        explorer = Explorer(seed)
        explorer.run(STEPS)
        steps += explorer.steps
    return steps


def test_a_hundred_thousand_steps() -> None:
    assert walk(FIRST, SEEDS) >= 100_000


@pytest.mark.soak
def test_five_million_steps() -> None:
    assert walk(FIRST + SEEDS, LONG_SEEDS) >= 5_000_000


def _no_stretches(*_: Any) -> list[Any]:
    return []


def _always_go(found: Any, lease: Any, leader: Any, *_: Any, **__: Any) -> Any:
    epoch = max(-1 if leader.epoch is None else leader.epoch, (found.history or lease).epoch)
    return Go((found.history or lease)._replace(epoch=epoch))


_records = TakeUp.records


def _before_the_fence(taken: TakeUp, author: Author) -> list[Any]:
    return _records(taken, author) or taken.records_behind_fence(author)


def _deviation_forgotten(_: PartitionCopy) -> str:
    return ""


Patch = Callable[[pytest.MonkeyPatch], None]


def _attribute(owner: Any, name: str, value: Any) -> Patch:
    return lambda patch: patch.setattr(owner, name, value)


def _no_leader_change(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(resolve, "has_moved", lambda *_: False)


def _settled_without_transactions(p: PartitionCopy) -> bool:
    return not p.waiting and not p.ready and p.in_flight == 0


def _nothing_removed(_said: Any, low: int, high: int, _holes: Any) -> list[Any] | None:
    return [] if low == high else None


def _no_hole_is_told(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(resolve, "_begins_later", lambda *_: False)
    patch.setattr(resolve, "_removed", _nothing_removed)


WITHOUT: Final[dict[str, Patch]] = {
    "anchors confirm claims of every writer (B1)": _attribute(partition_map, "stretches", _no_stretches),
    "a gap, a rewind or compaction ends a contested history (B2, B3)": _attribute(
        take_up, "_deviation", _deviation_forgotten
    ),
    "another leader of the source ends a contested history (B3)": _attribute(
        PartitionCopy, "_deviates", lambda _self, _chunk: False
    ),
    "claims that were not appended bind the next task": _attribute(
        take_up, "_is_inherited", lambda *_: False
    ),
    "what a former leader seems to have lost is written down after a fence (S1)": _attribute(
        TakeUp, "records", _before_the_fence
    ),
    "a lost tail is looked for when the leader changes (S2)": _no_leader_change,
    "a chunk in an open transaction is on its way (S3)": _attribute(
        PartitionCopy, "settled", property(_settled_without_transactions)
    ),
    "what the target's cleaner removed was appended": _attribute(resolve, "_removed", _nothing_removed),
    "a fence comes before a new history": _attribute(take_up, "next_move", _always_go),
    "one append at a time until the leader knows the producer": _attribute(task, "may_send", lambda _p: True),
    "what retention has removed is not lost": _attribute(target.Target, "first_offset", lambda _self: 0),
    "retention before the first record after the tail is not lost": _no_hole_is_told,
    "a claim or an append without an answer binds its task": _attribute(
        PartitionCopy, "unanswered", lambda _self: None
    ),
    "a claim on its way is waited for": _attribute(
        PartitionCopy, "answered", property(lambda p: p.in_flight == 0)
    ),
    "one writer a bucket": _attribute(map_topic.MapTopic, "take", lambda _self: 0),
}


FIRST_TRIED: Final = {
    "another leader of the source ends a contested history (B3)": 730,
    "claims that were not appended bind the next task": 240,
    "what a former leader seems to have lost is written down after a fence (S1)": 580,
    "a lost tail is looked for when the leader changes (S2)": 1620,
    "what the target's cleaner removed was appended": 290,
    "one append at a time until the leader knows the producer": 110,
    "what retention has removed is not lost": 1280,
    "retention before the first record after the tail is not lost": 290,
    "a claim or an append without an answer binds its task": 9_002_800,
    "a claim on its way is waited for": 9_001_500,
    "one writer a bucket": 110,
}
"""Where the search begins that would take seconds from 0."""


@pytest.mark.parametrize("rule", WITHOUT)
def test_without_a_rule_a_schedule_breaks_it(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    WITHOUT[rule](monkeypatch)
    with pytest.raises(Exception, match="seed"):  # whatever breaks names its seed
        walk(FIRST_TRIED.get(rule, 0), MOST)


def test_the_modules_of_the_rules_are_those_that_run() -> None:
    assert vars(resolve)["resolve"] is vars(settling)["resolve"]
    assert vars(take_up)["take_up"] is vars(task)["take_up"]
    assert vars(takeup)["next_move"] is vars(take_up)["next_move"]
    assert issubclass(Violated, AssertionError)
