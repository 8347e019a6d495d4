"""A return that was to keep a tail is rolled back partway, then it is replayed, beside equal records."""

from __future__ import annotations

from collections import Counter

import pytest

from drkit.errors import Refused
from drkit.model import TopicPartition
from drkit.replay.compare import Same
from drkit.replay.run import roll_back_kept
from tests.support.errors import coded
from tests.support.replay.world import ReplayWorld, run_of, tail

NUMBER, PIECE = 30, 10
APPENDED = 2 * PIECE
IN_THE_THIRD_PIECE = 16
"""Number of a request that changes something: records of it were sent, and its transaction is open."""
EQUAL = slice(17, 22)
"""Of the tail: clients write other records that are equal to these; some of them were appended, some not."""
OTHERS = EQUAL.stop - EQUAL.start


class Left:
    """A new primary with a part of a tail, which a return has appended that was rolled back."""

    def __init__(self, world: ReplayWorld, topic: str, *, written_first: bool) -> None:
        self._world, self._mine = world, world.promoted(topic)
        at, self.lost = TopicPartition(topic, 0), tail(NUMBER)
        if written_first:
            world.write(self._mine, self.lost[EQUAL])
        self.manifest = world.export({at: self.lost})
        self.other = world.export({at: self.lost})
        """Another export of the same tail."""
        begun = world.process(
            self.manifest, kill=IN_THE_THIRD_PIECE, piece=PIECE, kept=True, same="none"
        ).outcome()
        assert begun == {"killed": True}
        [left] = roll_back_kept(
            world.target, world.flow, run_of(self.manifest), [TopicPartition(self._mine, 0)]
        )
        assert left.appended == APPENDED
        if not written_first:
            world.write(self._mine, self.lost[EQUAL])

    def replayed(self, same: Same | None, *, by_other: bool = False) -> tuple[int, int]:
        """Replay it; how many records were appended, and how many were there."""
        [found] = self._world.replay(self.other if by_other else self.manifest, same).values()
        return found.appended, found.already

    @property
    def there(self) -> Counter[tuple[bytes | None, bytes | None]]:
        """What the new primary has, beside what was copied before the failover."""
        return Counter((s.key, s.value) for s in self._world.seen(self._mine))

    def wanted(self, others: slice = EQUAL) -> Counter[tuple[bytes | None, bytes | None]]:
        """The tail, and some equal records of clients."""
        return Counter((r.key, r.value) for r in (*self.lost, *self.lost[others]))


@pytest.mark.wide
@pytest.mark.parametrize("written_first", [True, False])
@pytest.mark.parametrize("by_other", [False, True])
def test_none_appends_what_is_missing(
    world: ReplayWorld, topic_name: str, *, by_other: bool, written_first: bool
) -> None:
    left = Left(world, topic_name, written_first=written_first)
    assert left.replayed(Same.NONE, by_other=by_other) == (NUMBER - APPENDED, APPENDED)
    assert left.there == left.wanted()
    assert left.replayed(Same.NONE, by_other=not by_other) == (0, NUMBER)
    assert left.there == left.wanted()


def test_content_is_asked_of_clients_records_alone(world: ReplayWorld, topic_name: str) -> None:
    left = Left(world, topic_name, written_first=True)
    with pytest.raises(Refused, check=coded("replay_content_known")) as caught:
        left.replayed(None)
    sent_again = EQUAL.stop - APPENDED
    assert caught.value.evidence.startswith(f"{sent_again} of {NUMBER} records")
    appended = NUMBER - APPENDED - sent_again
    assert left.replayed(Same.CONTENT) == (appended, APPENDED + sent_again)
    assert left.there == left.wanted(slice(EQUAL.start, APPENDED))


@pytest.mark.wide
def test_nothing_is_asked_where_clients_wrote_nothing_equal(world: ReplayWorld, topic_name: str) -> None:
    mine, at = world.promoted(topic_name), TopicPartition(topic_name, 0)
    lost = tail(NUMBER)
    manifest = world.export({at: lost})
    world.process(manifest, kill=IN_THE_THIRD_PIECE, piece=PIECE, kept=True).outcome()
    roll_back_kept(world.target, world.flow, run_of(manifest), [TopicPartition(mine, 0)])
    with pytest.raises(Refused, check=coded("keep_replayed_before")):
        world.replay(manifest, kept=True)
    assert world.process(manifest, kill=12, piece=5).outcome() == {"killed": True}
    [found] = world.replay(manifest).values()
    assert (found.appended, found.already) == (NUMBER - APPENDED, APPENDED)
    assert Counter((s.key, s.value) for s in world.seen(mine)) == Counter((r.key, r.value) for r in lost)
    [found] = world.replay(world.export({at: lost})).values()
    assert (found.appended, found.already) == (0, NUMBER), "by what is on record beside the later replay"


def test_a_tail_is_kept_beside_equal_records_that_are_others(world: ReplayWorld, topic_name: str) -> None:
    mine, at = world.promoted(topic_name), TopicPartition(topic_name, 0)
    lost = tail(NUMBER)
    world.write(mine, lost[EQUAL])
    manifest = world.export({at: lost})
    for same in (None, Same.CONTENT):
        with pytest.raises(Refused, check=coded("keep_content_known")) as caught:
            world.replay(manifest, same, kept=True)
        assert "--resume --same none" in caught.value.hint
    [found] = world.replay(manifest, Same.NONE, kept=True).values()
    assert (found.appended, found.already) == (NUMBER, 0)
    assert len(world.seen(mine)) == NUMBER + OTHERS
