"""`drkit replicate` with both directions of a pair: each begins by itself after a planned switchover."""

from __future__ import annotations

from collections.abc import Iterator
import json
from pathlib import Path
import subprocess
import sys
from typing import Any

import pytest

from drkit.failover.core.request import RunRequest
from drkit.flow_state.records import ReturnRecord
from drkit.flow_state.topic import StateTopic
from drkit.local.cluster import LocalCluster
from tests.support.circles import in_soak
from tests.support.failback.pair import CUT, Pair, Side
from tests.support.failover.command import drkit
from tests.support.failover.settings_file import drkit as typed
from tests.support.failover.settings_file import written
from tests.support.failover.truth import values
from tests.support.flows.produce import fill, fill_transactions
from tests.support.waiting import eventually


@pytest.fixture
def pair(source: LocalCluster, target: LocalCluster, tmp_path: Path) -> Iterator[Pair]:
    quick: dict[str, Any] = {"tasks": 1, "epoch_seconds": 20, "refresh_topics_interval_seconds": 1,
             "checkpoint_interval_seconds": 1, "sync_group_offsets_interval_seconds": 1}  # fmt: skip
    found = Pair(source, target, tmp_path / "journal", **quick)
    yield found
    found.close()


@pytest.fixture
def replicator(pair: Pair, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    path = written(pair.now, tmp_path)
    command = [sys.executable, "-m", "drkit", "replicate", "--config", str(path)]
    with (tmp_path / "log").open("wb") as log, subprocess.Popen(command, stderr=log, stdout=log) as process:
        yield process
        process.terminate()
        assert process.wait(30) == 0


@pytest.mark.wide
@pytest.mark.parametrize("turns", [1, in_soak(3)])
def test_each_direction_begins_by_itself(
    pair: Pair, replicator: subprocess.Popen[bytes], tmp_path: Path, turns: int
) -> None:
    first = pair.now
    topic = first.name("orders")
    first.create(first.source, topic, 3, {"retention.ms": "-1"})
    fill_transactions(first.source, [topic], 30, most=9)
    fill(first.source, topic, 100)
    written = sum(map(len, first.records(first.source, topic).values()))

    def said() -> str:
        return (tmp_path / "log").read_text()[-3000:]

    for number in range(turns):
        side, back = pair.now, pair.other
        eventually(lambda: _is_copied(side, topic), 90, said)  # noqa: B023  asked at once
        side.exact([topic])
        assert pair.switch(clients_cut=CUT)["state"] == "done"
        fill(side.target, topic, 50, first=1000 * (number + 1))
        eventually(lambda: _has_begun(back, topic), 60, said)  # noqa: B023
        pair.now, pair.other = back, side
        assert replicator.poll() is None, said()
    eventually(lambda: _is_copied(pair.now, topic), 90, said)
    assert pair.now.exact([topic]) > 170 * turns
    theirs, ours = (pair.now.records(c, topic) for c in (pair.now.source, pair.now.target))
    assert {p: values(r) for p, r in theirs.items()} == {p: values(r) for p, r in ours.items()}
    assert sum(map(len, ours.values())) == written + turns * 50


def _is_copied(side: Side, topic: str) -> bool:
    theirs, ours = side.records(side.source, topic), side.records(side.target, topic)
    return {p: len(r) for p, r in theirs.items()} == {p: len(r) for p, r in ours.items()}


def _has_begun(side: Side, topic: str) -> bool:
    with StateTopic(side.target, side.source.alias) as state:
        state.load()
        return topic in state.all(ReturnRecord)


@pytest.mark.wide
@pytest.mark.parametrize("times", [1, in_soak(4)])
def test_clients_go_home_beside_it(
    pair: Pair, replicator: subprocess.Popen[bytes], tmp_path: Path, times: int
) -> None:
    """`drkit failback` and the replicator both begin the turn: the later one found no run to resume."""
    side, back = pair.now, pair.other
    topic = side.name("orders")
    side.create(side.source, topic, 3, {"retention.ms": "-1"})
    fill(side.source, topic, 60)

    def said() -> str:
        return (tmp_path / "log").read_text()[-3000:]

    for number in range(1, times + 1):
        eventually(lambda: _is_copied(side, topic), 90, said)
        with side.desk() as desk:
            assert desk.begin([], RunRequest(planned=True, clients_cut=CUT))["state"] == "done"
        fill(side.target, topic, 30, first=1000 * number)
        eventually(lambda: _has_begun(back, topic) and _is_copied(back, topic), 90, said)
        assert replicator.poll() is None, said()
        flow = ("--flow", side.settings.flows[0].name)
        home = drkit(tmp_path / "drkit.toml", "failback", *flow, "--yes", "--clients-cut", CUT)
        assert (home.code, home.data["home"]) == (0, True), (home.err, said())
        assert {s["report"]["state"] for s in home.data["stages"]} == {"done"}
        fill(side.source, topic, 20, first=1000 * number + 500)
    eventually(lambda: _is_copied(side, topic), 90, said)
    theirs, ours = (side.records(c, topic) for c in (side.source, side.target))
    assert {p: values(r) for p, r in theirs.items()} == {p: values(r) for p, r in ours.items()}
    assert sum(map(len, ours.values())) == 60 + 50 * times


@pytest.mark.wide
def test_a_copy_with_an_end_copies_the_direction_that_copies(pair: Pair, tmp_path: Path) -> None:
    """It refused for the promoted flow, and `drkit reprotect` refused for there was nothing to protect."""
    side = pair.now
    topic = side.name("orders")
    side.create(side.source, topic, 2, {"retention.ms": "-1"})
    fill(side.source, topic, 60)
    side.replicate()
    side.copied([topic])
    assert pair.switch(clients_cut=CUT)["state"] == "done"
    file = written(side, tmp_path)
    assert pair.reprotect()["state"] == "done"
    fill(side.target, topic, 40, first=1000)
    done = typed(file, "replicate", "--once", "--json")
    assert done.returncode == 0, done.stderr
    ended = {flow["flow"]: flow["ended"] for flow in json.loads(done.stdout)["flows"]}
    there, back = side.settings.flows
    assert ended == {there.name: "promoted: waits", back.name: "complete"}
    assert _is_copied(pair.now, topic)
