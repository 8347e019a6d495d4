"""A killed primary comes home with records of its own: every record and every offset, by each choice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from drkit.failover.core.machine import RunState
from drkit.failover.core.request import RunRequest
from drkit.failover.journal.violations import violations
from drkit.flow_state.records import FenceSizesRecord, IncompleteRecord, ReturnRecord, TailRecord
from drkit.flow_state.topic import StateTopic
from drkit.local.cluster import LocalCluster
from tests.support.failback.pair import Pair
from tests.support.failback.tail import Case, DeadPrimary
from tests.support.failover.truth import values
from tests.support.shared_clusters import ModuleClusters

CASES = {
    "thrown": Case("discard"),
    "again": Case("replay", transactions=True),
    "apart": Case("quarantine", "rebuild"),
    "short": Case("replay", "trim"),
    "keys": Case("quarantine", settings={"cleanup.policy": "compact"}),
    "clean": Case(tail=0),
    "whole": Case(tail=0, method="rebuild"),
}


@pytest.fixture
def home(module_cluster: ModuleClusters, target: LocalCluster, tmp_path: Path) -> Iterator[DeadPrimary]:
    primary = module_cluster("primary")
    pair = Pair(primary, target, tmp_path / "journal")
    found = DeadPrimary(pair, primary, CASES)
    yield found
    found.close()


def test_what_was_decided_is_done(home: DeadPrimary, tmp_path: Path) -> None:
    """Two rounds: the second one fails over from the other side, and returns, as planned."""
    home.die()
    assert all(home.tails[t] for t, c in home.cases.items() if c.tail)
    report = home.come_home(home.request(tmp_path / "saved"))
    _is_on_record(home)
    home.copied_back()
    home.nothing_is_lost()
    _is_apart(home)
    assert home.same_on_both() > 300
    home.positions_are_right()
    assert report["state"] == RunState.DONE
    run = home.side.run_log()
    assert not violations(run)
    _goes_home(home)


def _is_on_record(home: DeadPrimary) -> None:
    with StateTopic(home.back.target, home.back.source.alias) as state:
        state.load()
        assert set(state.all(ReturnRecord)) == set(home.topics)
    with StateTopic(home.side.target, home.side.source.alias) as state:
        state.load()
        tails = state.all(TailRecord)
        assert set(tails) == {t for t, c in home.cases.items() if c.tail or c.method}
        assert all((r.disposition or "") == home.cases[t].disposition for t, r in tails.items())
        assert {t for t, r in tails.items() if r.manifest} == {t for t, log in home.tails.items() if log}
        assert not state.all(IncompleteRecord)
        assert state.get(FenceSizesRecord) is None


def _is_apart(home: DeadPrimary) -> None:
    """What is in quarantine is the tail, record by record."""
    for topic, case in home.cases.items():
        if case.disposition == "quarantine":
            [name] = [t for t in home.side.topics_of_target() if t.startswith(f"{topic}.divergent.")]
            there = Counter(v for r in home.side.records(home.side.target, name).values() for v in values(r))
            assert there == Counter(v for r in home.tails[topic].values() for v in values(r)), topic


def _goes_home(home: DeadPrimary) -> None:
    """The switchover back finds every position, and the forward direction begins again."""
    pair = home.pair
    assert pair.switch()["state"] == "done"
    with pair.now.desk() as desk:
        report = desk.begin_return(RunRequest(clients_cut="for the test"))
    assert report["state"] == "done", report
    forward = home.side
    forward.replicate()
    forward.copied(home.topics)
    for topic, case in home.cases.items():
        if case.method != "trim":
            theirs, ours = (forward.records(c, topic) for c in (forward.source, forward.target))
            assert {p: values(r) for p, r in theirs.items()} == {p: values(r) for p, r in ours.items()}, topic
    assert forward.exact([t for t, c in home.cases.items() if c.method != "trim"]) > 300
