"""Exports of one failover that have records in common: the topic in quarantine gets each record once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from drkit.errors import Failed
from drkit.model import TopicPartition
from drkit.replay.run import Replayer
from drkit.replay.writer import ReplayResult
from drkit.wire import Record
from tests.support.errors import made
from tests.support.replay.world import ReplayWorld, own, tail


def _values(world: ReplayWorld, topic: str) -> list[str]:
    return [str(s.value) for s in own(world.seen(f"{topic}.divergent.7"))]


def _sorted(records: Sequence[Record]) -> list[str]:
    return sorted(str(r.value) for r in records)


@pytest.mark.wide
def test_the_rest_of_a_tail_goes_into_the_same_quarantine(world: ReplayWorld, topic_name: str) -> None:
    """The old primary had lost a part, which an earlier export has: both are of one failover."""
    mine, at = world.promoted(topic_name), TopicPartition(topic_name, 0)
    whole = tail(7)
    first, rest = world.export({at: whole[:3]}, end=whole[3].offset), world.export({at: whole[3:]})
    assert world.replay(first, quarantine=True) == {str(at): ReplayResult(3, 0, 0)}
    assert world.replay(rest, quarantine=True) == {str(at): ReplayResult(4, 0, 0)}
    assert world.replay(rest, quarantine=True) == {str(at): ReplayResult(4, 0, 0)}, "none twice"
    assert sorted(_values(world, mine)) == _sorted(whole)


@pytest.mark.wide
def test_what_two_exports_have_in_common_is_there_once(world: ReplayWorld, topic_name: str) -> None:
    """The old primary took more after the first one, or lost some of it."""
    mine, at = world.promoted(topic_name), TopicPartition(topic_name, 0)
    whole = tail(9)
    first, second, third = (world.export({at: part}) for part in (whole[1:5], whole[3:], whole))
    assert world.replay(first, quarantine=True) == {str(at): ReplayResult(4, 0, 0)}
    [plan] = world.plan(second, quarantine=True).partitions
    assert plan.counts.replayed == 2
    assert world.replay(second, quarantine=True) == {str(at): ReplayResult(4, 2, 0)}
    assert world.replay(third, quarantine=True) == {str(at): ReplayResult(1, 8, 0)}
    assert sorted(_values(world, mine)) == _sorted(whole)


@pytest.mark.wide
def test_one_that_died_when_its_topic_was_created_finds_what_is_there_since(
    world: ReplayWorld, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, at = world.promoted(topic_name), TopicPartition(topic_name, 0)
    whole = tail(6)
    first, second = (world.export({at: part}) for part in (whole[:4], whole[2:]))

    async def dies(*_given: object) -> None:
        raise made(Failed, "it dies here")

    with monkeypatch.context() as patch:
        patch.setattr(Replayer, "_run_all", dies)
        with pytest.raises(Failed, match="it dies here"):
            world.replay(first, quarantine=True)
    assert world.replay(second, quarantine=True) == {str(at): ReplayResult(4, 0, 0)}
    world.replay(first, quarantine=True)
    assert sorted(_values(world, mine)) == _sorted(whole)


@pytest.mark.wide
def test_one_that_was_stopped_finds_what_is_there_since(world: ReplayWorld, topic_name: str) -> None:
    """What was decided when it began is on record, and not the last word."""
    mine, at = world.promoted(topic_name), TopicPartition(topic_name, 0)
    whole = tail(6)
    stopped, other = world.export({at: whole}), world.export({at: whole[2:]})
    with world.replayer(stopped, quarantine=True) as replayer, world.state() as state:
        state.load()
        begun = replayer.run(replayer.plan(state.records), stopped=lambda: True)
    assert [r.is_done for r in begun.values()] == [False]
    assert world.replay(other, quarantine=True) == {str(at): ReplayResult(4, 0, 0)}
    assert world.replay(stopped, quarantine=True) == {str(at): ReplayResult(2, 4, 0)}
    assert sorted(_values(world, mine)) == _sorted(whole)


@pytest.mark.wide
def test_what_clients_have_got_by_a_replay_goes_there_too_and_is_named(
    world: ReplayWorld, topic_name: str
) -> None:
    mine, at = world.promoted(topic_name), TopicPartition(topic_name, 0)
    whole = tail(5)
    typed, of_return = world.export({at: whole[:3]}), world.export({at: whole})
    assert world.replay(typed) == {str(at): ReplayResult(3, 0, 0)}
    [caution] = world.plan(of_return, quarantine=True).cautions(0)
    assert "replayed before" in caution
    assert mine in caution
    assert not world.plan(of_return).cautions(0)
    assert world.replay(of_return, quarantine=True) == {str(at): ReplayResult(5, 0, 0)}
    assert len(_values(world, mine)) == 5
