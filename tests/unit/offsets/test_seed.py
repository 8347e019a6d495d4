"""The seed of a direction: after any number of turns every position is exact, and each rule is needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from drkit.flow_state.left_out import LeftOut
from drkit.flow_state.records import CutRecord
from drkit.model import TopicPartition
from drkit.offset_map import seeding, settling
from drkit.offsets import seed as seeds
from drkit.offsets import translation
from drkit.offsets.crossing import Bounds, Spans, bounds
from drkit.offsets.map_record import History
from drkit.offsets.seed import CopyEnd, seed_after, seed_of_emptied
from drkit.offsets.segments import OPEN, SegmentMap
from drkit.offsets.takeup import Author
from drkit.offsets.translation import PartitionPosition
from tests.support.offsets.turns import Direction, walk

HISTORIES: Final = 150
Patch = Callable[[pytest.MonkeyPatch], None]


def _attribute(owner: Any, name: str, value: Any) -> Patch:
    return lambda patch: patch.setattr(owner, name, value)


def _same_history(patch: pytest.MonkeyPatch) -> None:
    turn = seeds.Seed.turn

    def goes_on(*arguments: Any) -> Any:
        return replace(turn(*arguments), ended=History(7, 0))

    patch.setattr(seeds.Seed, "turn", goes_on)
    patch.setattr(Direction, "new_history", lambda self: self.history)


_inverted, _seed = seeds.inverted, seeds._seed


def _left_open(*arguments: Any) -> list[tuple[int, int, int]]:
    found = _inverted(*arguments)
    return [*found[:-1], *((up, down, OPEN) for up, down, _ in found[-1:])]


_cut_after = seeding.cut_after


def _forgotten(patch: pytest.MonkeyPatch) -> None:
    def cut_after(known: CutRecord | None, seeded: seeding.SeededPartition) -> CutRecord:
        return _cut_after(known and replace(known, emptied={}), seeded)

    patch.setattr(seeding, "cut_after", cut_after)


_ids_at, _seed_after = LeftOut.ids_at, seeds.seed_after


def _without_kept(left_out: LeftOut, at: TopicPartition, offset: int) -> frozenset[int]:
    return _ids_at(left_out._replace(kept={}), at, offset)


def _inside(spans: Spans, offset: int) -> Bounds:
    return bounds(spans, offset) or Bounds()


RULES: Final[dict[str, Patch]] = {
    "a direction begins with the opposite map": _attribute(seeds, "inverted", lambda *_: []),
    "the last segment ends with the last copied record": _attribute(seeds, "inverted", _left_open),
    "what has no counterpart is unknown": _attribute(
        seeds, "_seed", lambda known, at, _first, end: _seed(known, at, None, end)
    ),
    "the unknown part has an end of its own": _attribute(SegmentMap, "_ends_unknown", lambda *_: False),
    "claims of the old history are void": _same_history,
    "before its cut nothing of a rebuilt partition is left out": _attribute(
        LeftOut, "ids_before_cut", lambda self, _at: self.ids
    ),
    "a rebuilt partition is known as one": _attribute(
        seeding.SeededPartition, "begins_before_the_cut", property(lambda _: False)
    ),
    "what killed brokers bring back is no part of an emptied copy": _attribute(
        settling, "_clipped", lambda look, _wanted: look
    ),
    "what was emptied stays so after a later turn": _forgotten,
    "of a tail that the target keeps nothing is copied": _attribute(LeftOut, "ids_at", _without_kept),
    "inside a crossing there is no position": _attribute(translation, "bounds", _inside),
    "before a crossing no position is after its beginning": _attribute(
        translation, "_bounded", lambda found, _within, _start: found
    ),
    "a crossing turns with the direction": _attribute(
        PartitionPosition, "inverted_crossings", lambda _self: ()
    ),
    "a tail does not count as foreign": _attribute(settling, "_without_tail", lambda found, _wanted: found),
    "the first record of a tail is no earlier history": _attribute(
        seeds, "seed_after", lambda *arguments: _seed_after(*arguments[:4])
    ),
    "a tail is no copy that a log may lose": _attribute(
        seeds, "_seed", lambda known, at, first, end: _seed(known, at, first, end or at.downstream)
    ),
    "what came back is emptied again before clients read it": _attribute(
        Direction, "open", lambda _self, _target: None
    ),
}


def test_after_every_turn_every_position_is_exact() -> None:
    assert sum(walk(number) for number in range(HISTORIES)) > 10_000


@pytest.mark.soak
def test_after_every_turn_of_many_histories_every_position_is_exact() -> None:
    assert sum(walk(number) for number in range(HISTORIES, 200 * HISTORIES)) > 2_000_000


@pytest.mark.parametrize("rule", RULES)
def test_without_a_rule_a_position_is_wrong(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    RULES[rule](monkeypatch)
    with pytest.raises(AssertionError):
        sum(walk(number) for number in range(HISTORIES))


def test_the_seed_names_no_epoch_of_the_old_source() -> None:
    seed = seed_after(SegmentMap.of([(0, 0, 100)]), 100, CopyEnd(101, 103), 0)
    turn = seed.turn(History(9, 0), History(8, 3), Author(1, 2))
    assert (turn.leader_epoch, turn.ended, turn.history) == (-1, History(8, 3), History(9, 0))
    assert (turn.upstream, turn.downstream, turn.copied_end) == (101, 103, 100)


def test_of_an_emptied_partition_the_older_records_are_given_up_or_copied_again() -> None:
    given_up = seed_of_emptied(CopyEnd(101, 103), 0)
    again = seed_of_emptied(CopyEnd(0, 103), 0)
    assert given_up.segments.known_from() == (101, 103)
    assert (again.segments.triples(), again.upstream) == ([], 0)
