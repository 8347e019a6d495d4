"""A killed primary comes home with records of its own: every record and every offset, by each choice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from drkit.flow_state.records import IncompleteRecord, ReturnRecord, TailRecord
from drkit.flow_state.topic import StateTopic
from drkit.local.cluster import LocalCluster
from tests.support.failback.pair import Pair
from tests.support.failback.tail import Case, DeadPrimary
from tests.support.shared_clusters import ModuleClusters

CASES = {
    "thrown": Case("discard"),
    "clean": Case(tail=0),
}


@pytest.fixture
def home(module_cluster: ModuleClusters, target: LocalCluster, tmp_path: Path) -> Iterator[DeadPrimary]:
    primary = module_cluster("primary")
    pair = Pair(primary, target, tmp_path / "journal")
    found = DeadPrimary(pair, primary, CASES)
    yield found
    found.close()


def test_what_was_decided_is_done(home: DeadPrimary, tmp_path: Path) -> None:
    home.die()
    assert all(home.tails[t] for t, c in home.cases.items() if c.tail)
    report = home.come_home(home.request(tmp_path / "saved"))
    with StateTopic(home.back.target, home.back.source.alias) as state:
        state.load()
        assert set(state.all(ReturnRecord)) == set(home.topics)
    with StateTopic(home.side.target, home.side.source.alias) as state:
        state.load()
        assert set(state.all(TailRecord)) >= {t for t, c in home.cases.items() if c.tail}
        assert not state.all(IncompleteRecord)
    assert any("export" in s["step"].lower() and s["notes"] for s in report["steps"])
    home.copied_back()
    home.nothing_is_lost()
    assert home.same_on_both() > 300
    home.positions_are_right()
