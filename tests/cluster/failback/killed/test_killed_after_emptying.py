"""A primary is killed soon after a return has emptied it: clients do not get back what was deleted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from drkit.errors import Refused
from drkit.failover.core.request import RunRequest
from drkit.failover.emptying.empty import empty
from drkit.flow_state.records import CutRecord
from drkit.flow_state.topic import StateTopic
from drkit.journal.machine import StepName
from drkit.kafka.requests import EARLIEST
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from tests.support.errors import coded
from tests.support.failback.pair import CUT
from tests.support.failback.tail import Case, DeadPrimary, dead_primary
from tests.support.shared_clusters import ModuleClusters

CASES = {"thrown": Case("discard"), "keys": Case("discard", settings={"cleanup.policy": "compact"})}
ON_DISK_MS = "30000"
"""Longer than the way home takes: without a wait a killed broker has not written that it was emptied."""
GONE = 10


@pytest.fixture
def home(module_cluster: ModuleClusters, target: LocalCluster, tmp_path: Path) -> Iterator[DeadPrimary]:
    """A primary that died and is back, and writes to disk only every half minute where its logs begin."""
    late = {"log.flush.start.offset.checkpoint.interval.ms": ON_DISK_MS}
    primary = module_cluster("primary", properties=late)
    with dead_primary(primary, target, tmp_path, CASES) as found:
        yield found


@pytest.mark.wide
@pytest.mark.timeout(600)
def test_killed_right_after_it_came_home_it_brings_nothing_back(home: DeadPrimary, tmp_path: Path) -> None:
    home.come_home(home.request(tmp_path / "saved"))
    home.copied_back()
    back = home.back
    begins = {t: back.offsets(back.target, t, EARLIEST) for t in home.topics}
    assert all(offset > 0 for starts in begins.values() for offset in starts.values()), begins
    with back.desk() as desk:
        report = desk.begin([], RunRequest(planned=True, clients_cut=CUT))
    back.stop_replicating()
    home.primary.kill()
    home.rise()
    assert {t: back.offsets(back.target, t, EARLIEST) for t in home.topics} == begins
    fence = next(step for step in report["steps"] if step["step"] == StepName.FENCE)
    assert any("has on disk where 4 emptied partitions begin" in note for note in fence["notes"]), fence
    _what_came_back_is_no_history(home, tmp_path, begins)


def _what_came_back_is_no_history(
    home: DeadPrimary, folder: Path, begins: Mapping[str, Mapping[int, int]]
) -> None:
    """Records before the end of an emptying do not keep a partition from being emptied once more."""
    assert home.pair.reprotect()["state"] == "done"
    side, topic = home.side, home.topics[0]
    side.replicate()
    side.copied(home.topics)
    side.stop_replicating()
    home.primary.kill()
    with side.desk() as desk:
        assert desk.begin([], RunRequest(accept_data_loss="for the test"))["state"] == "done"
    home.rise()
    # The new primary's retention has removed records that the old one still has.
    gone = {TopicPartition(topic, p): GONE for p in begins[topic]}
    side.ask(side.target, lambda raw: empty(raw, gone))
    rebuilt = RunRequest(
        clients_cut=CUT, methods={"*": "rebuild"}, reason="a test", export_to=str(folder / "again")
    )
    with side.desk() as desk, pytest.raises(Refused, check=coded("rebuild_loses_history")):
        desk.begin_return(rebuilt)
    with StateTopic(side.source, side.target.alias) as state:
        state.load()
        cut = state.get(CutRecord, topic)
        assert cut is not None
        emptied = {p: begin + GONE for p, begin in begins[topic].items()}
        state.put(replace(cut, emptied=emptied), topic)
    with side.desk() as desk:
        assert desk.begin_return(rebuilt)["state"] == "done"
