"""Groups without a place behind a kept tail, through two more failovers: no position is invented for them.

A mark that DEMOTE writes permits drkit to overwrite an offset. It is no commit of the group.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drkit.failover.core.request import RunRequest
from drkit.journal.machine import StepName
from drkit.model import TopicPartition
from drkit.offsets.group_guard import StoredOffset
from tests.support.failback.pair import CUT, Pair, Side
from tests.support.failback.tail import REASON, Case, DeadPrimary
from tests.support.flows.produce import fill
from tests.support.shared_clusters import ModuleClusters
from tests.support.waiting import eventually

LOSS = RunRequest(accept_data_loss="for the test")


class Home(DeadPrimary):
    """A primary that dies; one group has begun to read in the tail, which was never copied."""

    def _process_tails(self) -> None:
        super()._process_tails()
        [topic] = self.topics
        ends = self.side.offsets(self.side.source, topic)
        self.late = {TopicPartition(topic, p): end - 1 for p, end in ends.items()}
        self.side.commit(self.side.source, self.side.name("late"), self.late)


@pytest.fixture
def home(module_cluster: ModuleClusters, tmp_path: Path) -> Iterator[Home]:
    primary, standby = module_cluster.ready({"primary": {}, "standby": {}})
    found = Home(Pair(primary, standby, tmp_path / "journal"), primary, {"both": Case("replay", "keep")})
    yield found
    found.close()


def moved(side: Side) -> set[str]:
    """Return the groups for which the newest run has found an exact position."""
    evidence: dict[str, Any] = side.run_log().results[StepName.TRANSLATE]["evidence"]
    return {group.removeprefix(f"{side.tag}-") for group in evidence["positions"]}


def stored(side: Side, group: str) -> dict[TopicPartition, StoredOffset]:
    """Return what the target of a direction keeps of a group."""
    found = side.committed(side.target, side.name(group))
    return {tp: StoredOffset(*c) for tp, c in found.items()}


@pytest.mark.wide
@pytest.mark.timeout(900)
def test_a_position_without_a_place_is_never_a_commit(home: Home, tmp_path: Path) -> None:
    home.die()
    home.come_home(home.request(tmp_path / "saved"))
    back, side, [topic] = home.back, home.side, home.topics
    late = stored(back, "late")
    assert {tp: s.offset for tp, s in late.items()} == home.late
    assert all(s.void for s in late.values()), "it was never on the new primary"
    assert all(s.void is None for s in stored(back, "both-near").values()), "the failover had moved it"
    home.copied_back()
    home.positions_are_right()

    # A group inside of the tail that both sides have in another order; then its primary dies.
    inside = {TopicPartition(topic, p): end - 2 for p, end in back.offsets(back.source, topic).items()}
    back.commit(back.source, back.name("inside"), inside)
    back.stop_replicating()
    fill(back.source, topic, 5, first=9000)
    _dies(back)
    assert moved(back) == {"both-lags", "both-near"}
    assert stored(back, "late") == late, "its own position in the kept tail"
    fill(back.target, topic, 10, first=9500)
    back.brokers[0].restart()
    eventually(lambda: back.offsets(back.source, topic), what="its return")

    # It comes back, is emptied and copied; then the other one dies.
    request = RunRequest(
        clients_cut=CUT, reason=REASON, export_to=str(tmp_path / "again"), dispositions={topic: "discard"},
        methods={topic: "rebuild"},
    )  # fmt: skip
    with back.desk() as desk:
        report = desk.begin_return(request)
    assert report["state"] == "done", report
    said = [note for step in report["steps"] for note in step["notes"] if "are void" in note]
    assert "-inside " in "".join(said)
    home.pair.now, home.pair.other = side, back
    left = stored(side, "inside")
    assert {tp: s.offset for tp, s in left.items()} == inside
    assert all(s.void for s in left.values())
    side.replicate()
    side.copied([topic], dict.fromkeys(home.groups))
    side.stop_replicating()
    _dies(side)
    assert moved(side) == {"both-lags", "both-near"}
    assert stored(side, "inside") == left


def _dies(side: Side) -> None:
    """Kill the primary of a direction, and fail over."""
    side.brokers[0].kill()
    with side.desk() as desk:
        report = desk.begin([], LOSS)
    assert report["state"] == "done", report
