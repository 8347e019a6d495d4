"""A tail is appended to the new primary: in order, with its times, each record once, only what it lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from drkit.control_key import ControlKeys
from drkit.errors import Refused
from drkit.export.manifest import ExportFormat
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from drkit.replay.compare import Same
from drkit.replay.writer import ReplayResult
from tests.support.errors import coded
from tests.support.flow_state.keys import KEYS
from tests.support.kafka.attacks import stored, write_again
from tests.support.replay.world import ReplayWorld, as_replayed, own, run_of, tail


@pytest.mark.parametrize("how", list(ExportFormat))
def test_a_tail_is_appended_once(world: ReplayWorld, topic_name: str, how: ExportFormat) -> None:
    mine = world.promoted(topic_name, 2)
    world.write(mine, tail(10, word="new"))
    lost = {TopicPartition(topic_name, p): tail(40 + p, first=7, step=1 + p) for p in (0, 1)}
    manifest = world.export(lost, how=how)
    assert world.replay(manifest) == {
        f"{topic_name}-0": ReplayResult(40, 0, 0), f"{topic_name}-1": ReplayResult(41, 0, 0)
    }  # fmt: skip
    for at, records in lost.items():
        seen = world.seen(mine, at.partition)
        assert [s.content for s in own(seen)] == as_replayed(records, at, run_of(manifest))
        assert len(seen) == len(records) + (10 if at.partition == 0 else 0)
    ends = world.offsets(world.target, mine)
    plan = world.plan(manifest)
    assert plan.is_done
    assert world.replay(manifest)[f"{topic_name}-0"] == ReplayResult(40, 0, 0)
    assert world.offsets(world.target, mine) == ends, "a second run appends nothing"


def test_what_clients_sent_again_is_not_sent(world: ReplayWorld, topic_name: str) -> None:
    mine, at = world.promoted(topic_name), TopicPartition(topic_name, 0)
    lost = tail(30)
    lost += [r._replace(offset=200 + n) for n, r in enumerate([lost[3], lost[3], lost[4]])]
    # Sent again: 3 once (of three times), 4 three times (of two), 20 with another header.
    again = [lost[3], lost[4], lost[4], lost[4], lost[20]._replace(headers=((b"other", b""),))]
    world.write(mine, again)
    manifest = world.export({at: lost})
    plan = world.plan(manifest)
    assert (plan.alike, plan.partitions[0].counts.records) == (3, 33)
    with pytest.raises(Refused, check=coded("replay_content_known")):
        world.replay(manifest)
    before = world.offsets(world.target, mine)
    assert world.plan(manifest, Same.CONTENT).same is Same.CONTENT
    assert world.offsets(world.target, mine) == before, "a plan changes nothing"
    assert world.replay(manifest, Same.CONTENT) == {str(at): ReplayResult(30, 3, 0)}
    # The first of three, and both of two: the earlier ones are accounted for first.
    left = [r for n, r in enumerate(lost) if n not in {3, 4, 32}]
    assert [s.content for s in own(world.seen(mine))] == as_replayed(left, at, run_of(manifest))


def test_equal_records_are_sent_when_they_are_said_to_be_others(world: ReplayWorld, topic_name: str) -> None:
    mine, at = world.promoted(topic_name), TopicPartition(topic_name, 0)
    lost = tail(20)
    world.write(mine, lost[:10])
    first = world.export({at: lost[:12]})
    assert world.replay(first, Same.NONE) == {str(at): ReplayResult(12, 0, 0)}
    # Another export of the same records, and more: what was replayed has drkit's header.
    second = world.export({at: lost})
    assert world.replay(second, Same.NONE) == {str(at): ReplayResult(8, 12, 0)}
    seen = own(world.seen(mine))
    assert [s.content for s in seen[12:]] == as_replayed(lost[12:], at, run_of(second))


@pytest.mark.parametrize("keys", [KEYS, None], ids=["signed", "unsigned"])
def test_earlier_records_of_a_replay_that_are_repeated(
    target: LocalCluster, topic_name: str, tmp_path: Path, keys: ControlKeys | None
) -> None:
    """With a key they do not count. Without one the replay begins again, and appends all of them again."""
    world, at = ReplayWorld(target, tmp_path, keys), TopicPartition(topic_name, 0)
    mine = world.promoted(topic_name)
    manifest = world.export({at: tail(40)})
    try:
        assert world.replay(manifest) == {str(at): ReplayResult(40, 0, 0)}
        ends = world.offsets(world.target, mine)
        flags, begun, *_ = stored(world.target, world.log_topic)
        write_again(world.target, world.log_topic, [flags, begun])
        assert world.plan(manifest).is_done == (keys is not None)
        world.replay(manifest)
        assert (world.offsets(world.target, mine) == ends) == (keys is not None)
    finally:
        world.close()


def test_only_some_topics(world: ReplayWorld, topic_name: str) -> None:
    """The others can be replayed later, by the same export."""
    names = [f"{topic_name}-{n}" for n in (1, 2)]
    mine = [world.promoted(name) for name in names]
    manifest = world.export({TopicPartition(name, 0): tail(5) for name in names})
    assert world.replay(manifest, topics=frozenset(names[:1])) == {f"{names[0]}-0": ReplayResult(5, 0, 0)}
    assert [len(own(world.seen(each))) for each in mine] == [5, 0]
    assert len(world.replay(manifest)) == 2
    assert [len(own(world.seen(each))) for each in mine] == [5, 5]
