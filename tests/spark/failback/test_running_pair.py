"""`drkit replicate` with both directions of a pair: each begins by itself after a planned switchover."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
import json
from pathlib import Path
import subprocess
import sys
from typing import Any

import pytest

from drkit.config import ClusterSettings
from drkit.failover.core.request import RunRequest
from drkit.flow_state.records import ReturnRecord
from drkit.flow_state.topic import StateTopic
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
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


def _left(side: Side, cluster: ClusterSettings, topic: str, group: str = "") -> dict[int, list[Any]]:
    """Return keys and values of each partition, from a group's position on if one is named."""
    committed = side.committed(cluster, group) if group else {}
    starts = {tp.partition: position.offset for tp, position in committed.items() if tp.topic == topic}
    logs = side.records(cluster, topic).items()
    return {p: [(s.key, s.value) for s in log if s.offset >= starts.get(p, 0)] for p, log in logs}


def _is_same(side: Side, topic: str) -> bool:
    return _left(side, side.source, topic) == _left(side, side.target, topic)


def _is_well(file: Path, flow: str) -> bool:
    return bool(drkit(file, "status", "--flow", flow).data["flows"][0]["health"] == "ok")


def _verified(file: Path, flow: str) -> dict[str, Any]:
    """Return what ``drkit verify`` finds, with Spark."""
    answer = json.loads(typed(file, "verify", "--flow", flow, "--json").stdout)
    found: dict[str, Any] = answer[0] if isinstance(answer, list) else answer
    return found


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
@pytest.mark.timeout(900)
def test_there_and_home_as_typed_then_a_planted_record_is_named(
    pair: Pair, replicator: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """Each direction begins by itself; groups are exact on both sides, and both logs are equal."""
    side, back, file = pair.now, pair.other, tmp_path / "drkit.toml"
    topic, keys = side.name("orders"), side.name("keys")
    side.create(side.source, topic, 3, {"retention.ms": "-1"})
    side.create(side.source, keys, 2, {"cleanup.policy": "compact"})
    fill(side.source, topic, 150)
    fill(side.source, keys, 50)
    groups = [side.name(f"g{n}") for n in range(1, 5)]
    for number, group in enumerate(groups, start=1):
        logs = side.records(side.source, topic).items()
        side.commit(side.source, group, {TopicPartition(topic, p): r[7 * number].offset for p, r in logs})
    for number, (flow, then) in enumerate(((side, back), (back, side)), start=1):
        name = flow.settings.flows[0].name
        flow.protected([topic, keys])
        eventually(lambda: _is_well(file, name), 90, lambda: drkit(file, "status").out)  # noqa: B023
        unread = {group: _left(flow, flow.source, topic, group) for group in groups}
        moved = drkit(file, "failover", "--flow", name, "--all", "--planned", "--yes", "--clients-cut", CUT)
        assert (moved.code, moved.data["state"]) == (0, "done"), moved.err
        assert {group: _left(flow, flow.target, topic, group) for group in groups} == unread
        fill(flow.target, topic, 30, first=1000 * number)
        fill(flow.target, keys, 20, first=1000 * number)
        then.protected([topic, keys])
        assert replicator.poll() is None, (tmp_path / "log").read_text()[-3000:]
    for name in (topic, keys):
        same = partial(_is_same, side, name)
        eventually(same, 90, f"the same records of {name} on both sides")
    replicator.terminate()
    assert replicator.wait(60) == 0
    flow_name = side.settings.flows[0].name
    assert _verified(file, flow_name)["verdict"] == "equal"
    fill(side.target, topic, 1, first=5000)
    found = _verified(file, flow_name)
    assert (found["verdict"], found["extra"]) == ("different", 1)
    refused = drkit(file, "failover", "--flow", flow_name, "--all", "--planned", "--dry-run")
    gates = {refusal["gate"] for refusal in refused.data["refused"]}
    assert (refused.code, "failover-written-standby" in gates) == (3, True), refused.out


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
