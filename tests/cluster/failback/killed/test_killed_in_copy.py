"""The new primary has the only copy of what is copied back; it is killed meanwhile, and comes back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from drkit.kafka.requests import EARLIEST
from drkit.local.cluster import LocalCluster
from tests.support.failback.tail import Case, DeadPrimary, dead_primary
from tests.support.flows.produce import fill
from tests.support.shared_clusters import ModuleClusters
from tests.support.waiting import eventually

CASES = {
    "plain": Case("discard", "rebuild"),
    "tx": Case("replay", "rebuild", transactions=True),
    "clean": Case(tail=0),
}
MORE, SIZE = 2000, 1000
"""Records that clients write to the new primary before the return, and their bytes."""
BYTES_PER_SECOND = 1_000_000.0
KILLED_AT = (0.1, 0.4)
"""How much of it is copied when the broker is killed."""


@pytest.fixture
def standby(module_cluster: ModuleClusters) -> LocalCluster:
    return module_cluster("standby", linked=("CLIENT",))


@pytest.fixture
def home(module_cluster: ModuleClusters, standby: LocalCluster, tmp_path: Path) -> Iterator[DeadPrimary]:
    primary = module_cluster("primary")
    with dead_primary(primary, standby, tmp_path, CASES) as found:
        yield found


@pytest.mark.wide
def test_killed_while_it_is_copied_back(home: DeadPrimary, standby: LocalCluster, tmp_path: Path) -> None:
    for topic in home.topics:
        fill(home.side.target, topic, MORE, first=20_000, size=SIZE)
    home.come_home(home.request(tmp_path / "saved"))
    plain, wanted = home.topics[0], _records(home, home.topics[0], new=True)
    assert _records(home, plain, new=False) == 0, "it was emptied"
    standby.link("CLIENT").slow(bytes_per_second=BYTES_PER_SECOND)
    home.back.replicate()
    for part in KILLED_AT:
        _is_copied_up_to(home, plain, int(part * wanted))
        standby.broker(0).kill()
        assert _records(home, plain, new=False) < wanted, "it was copied before"
        standby.restart()
    standby.link("CLIENT").restore()
    home.back.copied(home.topics, dict.fromkeys(home.groups))
    home.nothing_is_lost()
    assert home.same_on_both() > len(home.topics) * MORE
    home.positions_are_right()
    assert home.reads_are_whole() == 2 * len(home.groups)


def _is_copied_up_to(home: DeadPrimary, topic: str, least: int) -> None:
    eventually(lambda: _records(home, topic, new=False) >= least, 60, lambda: f"{least}: {home.back.said()}")


def _records(home: DeadPrimary, topic: str, *, new: bool) -> int:
    """How many offsets a topic has, on the new primary or on the old one."""
    side = home.side
    cluster = side.target if new else side.source
    ends, starts = side.offsets(cluster, topic, committed=False), side.offsets(cluster, topic, EARLIEST)
    return sum(ends[p] - starts[p] for p in ends)
