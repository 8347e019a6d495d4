"""Tails are kept while clients write, brokers are killed, and a group is inside the crossing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from drkit.errors import Refused
from drkit.failover.core.request import RunRequest
from drkit.flow_state.records import TailRecord
from drkit.flow_state.topic import StateTopic
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from tests.support.failback.crossed import crossed
from tests.support.failback.pair import CUT, Pair
from tests.support.failback.tail import Case, DeadPrimary
from tests.support.failback.writing import Writing
from tests.support.failover.truth import values
from tests.support.flows.produce import fill
from tests.support.shared_clusters import ModuleClusters
from tests.support.waiting import eventually

CASES = {"plain": Case("replay", "keep"), "atomic": Case("replay", "keep", transactions=True)}


@pytest.fixture
def home(module_cluster: ModuleClusters, target: LocalCluster, tmp_path: Path) -> Iterator[DeadPrimary]:
    primary = module_cluster("primary")
    found = DeadPrimary(Pair(primary, target, tmp_path / "journal"), primary, CASES)
    yield found
    found.close()


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_tails_are_kept_while_clients_write(home: DeadPrimary, tmp_path: Path) -> None:
    home.fall()
    home.rise()
    side, back = home.side, home.back
    with Writing(side.target, home.topics) as writing:
        _has_written(writing)
        home.come_home(home.request(tmp_path / "saved"))
        _restarted(home)  # another leader, and no record copied yet: the tail is not foreign
        back.replicate()
        _is_copied(home)
        _has_written(writing)
    back.copied(home.topics, dict.fromkeys(home.groups))
    home.nothing_is_lost()
    assert home.same_on_both() > 500
    home.positions_are_right()
    for topic in home.topics:
        there = Counter(v for r in side.records(side.target, topic).values() for v in values(r))
        assert all(there[v] == 1 for v in writing.written[topic]), "each is there once"
    found = back.verified(home.topics)
    assert (found.counts.differences, found.unclear) == (0, []), found
    assert found.counts.equal > 100
    _restarted(home)
    eventually(lambda: sum(crossed(back, t) for t in home.topics) > 500, what="all is as it was")
    _a_group_inside_holds_the_way_home(home)
    _is_home(home)
    _dies_again(home, tmp_path)


def _has_written(writing: Writing) -> None:
    before = {t: len(v) for t, v in writing.written.items()}
    eventually(lambda: all(len(v) > before[t] + 40 for t, v in writing.written.items()), what="clients write")


def _is_copied(home: DeadPrimary) -> None:
    """What clients write now comes to the old primary."""
    ends = {t: home.back.offsets(home.back.target, t) for t in home.topics}
    eventually(
        lambda: all(
            end > ends[t][p] + 20
            for t in home.topics
            for p, end in home.back.offsets(home.back.target, t).items()
        ),
        90,
        what="what clients write is copied",
    )


def _restarted(home: DeadPrimary) -> None:
    home.primary.kill()
    home.primary.restart()
    eventually(
        lambda: home.back.offsets(home.back.target, home.topics[0]), what="an answer of the old primary"
    )


def _a_group_inside_holds_the_way_home(home: DeadPrimary) -> None:
    """It has read a record that clients wrote after the failover, and not the tail; then it reads on."""
    back, topic = home.back, home.topics[0]
    group, copied = f"{topic}-inside", home.copy[topic]
    log = back.records(back.source, topic)
    inside = {TopicPartition(topic, p): r[len(copied[p])].offset + 1 for p, r in log.items()}
    back.stop_replicating()  # its brokers were killed under it
    back.replicate()
    back.copied(home.topics)
    back.commit(back.source, group, inside)
    with back.desk() as desk:
        with pytest.raises(Refused) as held:
            desk.begin([], RunRequest(planned=True, clients_cut=CUT))
        assert group in f"{held.value.what} {held.value.evidence}"
        read = {TopicPartition(topic, p): r[-1].offset + 1 for p, r in log.items()}
        back.commit(back.source, group, read)
        report = desk.resume(RunRequest())
    assert report["state"] == "done", report
    stands = back.all_committed(group)
    for p, records in back.records(back.target, topic).items():
        assert not [s for s in records if s.offset >= stands[TopicPartition(topic, p)]], "it has read all"
    back.stop_replicating()


def _is_home(home: DeadPrimary) -> None:
    """The next turns know the crossing, in the other direction."""
    side = home.side
    assert home.pair.reprotect()["state"] == "done"
    side.replicate()
    side.copied(home.topics)
    assert sum(crossed(side, t) for t in home.topics) > 500
    found = side.verified(home.topics)
    assert (found.counts.differences, found.unclear) == (0, []), found
    assert found.counts.equal > 100


def _dies_again(home: DeadPrimary, folder: Path) -> None:
    """A second tail in the same logs; contents are compared on either side of the first crossing."""
    side, back = home.side, home.back
    home.pair.now, home.pair.other = side, back
    for topic in home.topics:
        fill(side.source, topic, 40, first=20_000)
    side.copied(home.topics)
    side.stop_replicating()
    for topic in home.topics:
        fill(side.source, topic, 20, first=30_000)
    home.primary.kill()
    with side.desk() as desk:
        assert desk.begin([], RunRequest(accept_data_loss="for the test"))["state"] == "done"
    for topic in home.topics:
        fill(side.target, topic, 20, first=40_000)
    home.rise()
    with side.desk() as desk:
        report = desk.begin_return(home.request(folder / "again"))
    assert report["state"] == "done", report
    back.replicate()
    back.copied(home.topics)
    with StateTopic(side.target, side.source.alias) as state:
        state.load()
        kept = {t: set(r.methods.values()) for t, r in state.all(TailRecord).items()}
    assert kept == {t: {"keep"} for t in home.topics}
    assert sum(crossed(back, t) for t in home.topics) > 500
