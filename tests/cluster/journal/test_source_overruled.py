"""A primary that died while its switchover opened the target is opened again by an abort at the source."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
import sys

import pytest

from drkit.flow_state.source_fence.entries import FenceMark
from drkit.flow_state.source_fence.topic import FenceTopic
from drkit.status.paired import PairedCollector
from tests.support.failback.pair import CUT, Pair
from tests.support.failover.command import Said, drkit
from tests.support.failover.orchestrator import Kill, Orchestrators
from tests.support.failover.settings_file import written
from tests.support.failover.world import World
from tests.support.flows.produce import answers, fill
from tests.support.shared_clusters import ModuleClusters

DURING_OPEN = Kill("OPEN promote intent", "after")


def faults(said: Said) -> dict[str, str]:
    return {f["code"]: f["text"] for f in said.data["flows"][0]["faults"]}


@pytest.fixture
def side(module_cluster: ModuleClusters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A pair after that switchover: the primary is back, and its record says that the target is opening."""
    monkeypatch.setattr(sys, "stdin", None)  # no one answers a question
    pair = Pair(module_cluster("primary"), module_cluster("standby"), tmp_path / "journal")
    side, primary = pair.now, pair.now.brokers[0]
    try:
        topic, group = side.copy_orders()
        side.protected([topic])
        with Orchestrators() as orchestrators:
            request = {"planned": True, "clients_cut": CUT}
            run = orchestrators.start(
                side.plain(), "begin", groups=[group], freeze=DURING_OPEN, request=request
            )
            primary.kill()
            run.wake()
            outcome = run.outcome()
        assert outcome.report is not None, outcome
        assert outcome.report["state"] == "done", outcome.report
        side.stop_replicating()
        primary.restart()
        assert marks(side) == [FenceMark.OPENING]
        yield side
    finally:
        pair.close()


def marks(side: World) -> list[FenceMark]:
    log = FenceTopic(side.source, side.settings.flows[0]).read()
    return [record.mark for record in log.records.values()]


@pytest.mark.timeout(400)
def test_the_journal_of_the_target_decides(side: World, tmp_path: Path) -> None:
    """Both took writes then, and no command closed either."""
    topic, standby = side.name("orders"), side.brokers[1]
    file, flow = written(side, tmp_path), ("--flow", side.settings.flows[0].name)
    fill(side.target, topic, 15, first=1000)
    standby.kill()
    aborted = drkit(file, "failover", *flow, "--abort", "--target-lost", "the site burnt down", "--yes")
    assert aborted.code == 0, aborted
    fill(side.source, topic, 10, first=5000)
    standby.restart()
    opened = faults(drkit(file, "status"))
    assert "drkit divergence" in opened["both_open"], opened
    assert f"drkit fence pay --flow '{flow[1]}' fences it again" in opened["both_open"], opened
    assert drkit(file, "fence", "pay", *flow).code == 2, "it asks a person"
    paid = drkit(file, "fence", "pay", *flow, "--yes")
    assert (paid.code, paid.data["paid"]) == (0, True), paid
    assert answers(side.source, topic, [b"late"]) != [None]
    assert answers(side.target, topic, [b"on the new primary"]) == [None]
    seen = faults(drkit(file, "status"))
    assert not seen.keys() & {"both_open", "both_closed", "aborted_at_source"}, seen
    assert marks(side) == [FenceMark.OPENED]
    divergence = drkit(file, "divergence", *flow)
    assert divergence.data["records"] == 10, divergence
    back = drkit(file, "reprotect", *flow, "--clients-cut", CUT, "--yes")
    assert back.error == "export_place_missing", back
    assert "10 records are only on the old primary" in back.err


@pytest.mark.timeout(400)
def test_the_first_contact_of_both_marks_the_target_open(side: World, tmp_path: Path) -> None:
    settings = side.settings
    with closing(PairedCollector(settings, settings.flows[0], groups=False)) as collector:
        collector.look()
        assert marks(side) == [FenceMark.OPENING], "a look changes nothing"
        collector.mark_opened()
    assert marks(side) == [FenceMark.OPENED]
    side.brokers[1].kill()
    try:
        words = (
            "failover",
            "--flow",
            settings.flows[0].name,
            "--abort",
            "--target-lost",
            "it burnt",
            "--yes",
        )
        refused = drkit(written(side, tmp_path), *words)
        assert refused.error == "point_of_no_return", refused
    finally:
        side.brokers[1].restart()
