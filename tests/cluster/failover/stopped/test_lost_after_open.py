"""The fence is lifted behind OPEN, and the old primary takes records: the resumed run counts them."""

from __future__ import annotations

from pathlib import Path
import sys

import pytest

from tests.support.failback.pair import CUT, Pair
from tests.support.failover.command import Said, drkit
from tests.support.failover.orchestrator import Kill, Orchestrators
from tests.support.failover.settings_file import written
from tests.support.flows.produce import answers, fill
from tests.support.shared_clusters import ModuleClusters

LATE = 15
PROMOTED = Kill("OPEN promote intent", "after")


@pytest.mark.wide
def test_records_behind_open_are_counted(
    module_cluster: ModuleClusters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", None)  # no one answers a question
    pair = Pair(module_cluster("primary"), module_cluster("standby"), tmp_path / "journal")
    try:
        lifted(pair, tmp_path)
    finally:
        pair.close()


def lifted(pair: Pair, folder: Path) -> None:
    side = pair.now
    topic, group = side.copy_orders()
    side.protected([topic])
    file, flow = written(side, folder), side.settings.flows[0].name

    def resumed(*words: str) -> Said:
        return drkit(file, "failover", "--flow", flow, "--resume", "--take-over", *words)

    with Orchestrators() as orchestrators:
        request = {"planned": True, "clients_cut": CUT}
        begun = orchestrators.run(side.plain(), "begin", groups=[group], kill=PROMOTED, request=request)
    assert begun.killed, begun
    side.stop_replicating()
    opened = drkit(file, "fence", "lift", "--flow", flow, "--accept-divergence", "a long night", "--yes")
    assert opened.code == 0, opened
    fill(side.source, topic, LATE, first=1000)
    side.brokers[0].kill()
    silent = resumed()
    assert (silent.code, silent.error) == (3, "lost_after_open"), silent
    assert "unknown: anything the primary accepted" in silent.err, "a silent primary is no proof of a fence"
    assert not silent.data["fence"]["proven"], silent
    assert answers(side.target, topic, [b"open"]) == [None], "clients work there all the same"
    side.brokers[0].restart()
    counted = resumed()
    assert (counted.code, counted.error) == (3, "lost_after_open"), counted
    assert f"lost: {LATE} records" in counted.err, counted
    assert not counted.data["loss"]["drained"], counted
    done = resumed("--accept-data-loss", "a long night")
    assert (done.code, done.data["state"]) == (0, "done"), done
    assert (done.data["loss"]["records"], done.data["loss"]["exact"]) == (LATE, True), done
    assert drkit(file, "divergence", "--flow", flow).data["records"] == LATE
