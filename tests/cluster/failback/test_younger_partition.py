"""Since the failover a topic got a partition on both sides, and others lost what clients wrote first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from drkit.errors import Refused
from drkit.local.cluster import LocalCluster
from tests.support.errors import coded
from tests.support.failback.tail import DELTA, PARTITIONS, Case, DeadPrimary, dead_primary
from tests.support.failover.truth import values
from tests.support.flows.produce import producer, put
from tests.support.shared_clusters import ModuleClusters

RECORDS = 10
GONE = 3
"""Records of partition 0 that clients wrote on the new primary, and its retention has removed."""


@pytest.fixture
def home(module_cluster: ModuleClusters, target: LocalCluster, tmp_path: Path) -> Iterator[DeadPrimary]:
    primary = module_cluster("primary")
    cases = {"wider": Case("replay", tail=0), "shorter": Case("discard", tail=6)}
    with dead_primary(primary, target, tmp_path, cases) as found:
        yield found


@pytest.mark.wide
def test_what_changed_since_the_failover(home: DeadPrimary, tmp_path: Path) -> None:
    wider, shorter = home.topics
    _given_up_by_name(home, shorter, tmp_path)
    side = home.side
    for cluster, name in ((side.source, b"old"), (side.target, b"new")):
        side.grow(cluster, wider, PARTITIONS + 1)
        out = producer(cluster)
        for i in range(RECORDS):
            put(out, wider, b"%s %d" % (name, i), b"k%d" % i, partition=PARTITIONS)
        assert out.flush(30) == 0
    home.come_home(home.request(tmp_path / "saved", [wider]))
    home.groups = {g: at for g, at in home.groups.items() if g.startswith(wider)}
    home.copied_back()
    theirs, ours = (home.back.records(c, shorter) for c in (home.back.source, home.back.target))
    assert len(theirs[0]) <= DELTA
    assert {p: values(r) for p, r in theirs.items()} == {p: values(r) for p, r in ours.items()}
    assert home.back.exact([shorter]) > 0
    home.topics, home.cases = [wider], {wider: home.cases[wider]}
    home.nothing_is_lost()
    assert home.same_on_both() > 100
    found = Counter(values(side.records(side.source, wider)[PARTITIONS]))
    assert found == Counter(b"%s %d" % (name, i) for name in (b"old", b"new") for i in range(RECORDS))


def _given_up_by_name(home: DeadPrimary, topic: str, folder: Path) -> None:
    """A return of a topic that has lost the beginning of the delta is refused, but where that is given up."""
    side = home.side
    side.delete_records(topic, 0, len(home.copy[topic][0]) + GONE, side.target)
    request = home.request(folder / "saved", [topic])
    with side.desk() as desk, pytest.raises(Refused, check=coded("new_primary_removed_first")):
        desk.begin_return(request, topics=[topic])
    assert side.run_log().opening.get("table") != "return", "it has left no run"
    with side.desk() as desk:
        accepted = request._replace(give_up_history=(topic,))
        assert desk.begin_return(accepted, topics=[topic])["state"] == "done"
