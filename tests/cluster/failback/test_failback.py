"""``drkit failback`` as a person types it: refused, begun, waiting, home; run again, it continues."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from drkit.local.cluster import LocalCluster
from tests.support.failback.pair import CUT, Pair
from tests.support.failback.tail import REASON, Case, DeadPrimary
from tests.support.failover.command import drkit
from tests.support.failover.settings_file import written
from tests.support.failover.truth import values
from tests.support.shared_clusters import ModuleClusters


@pytest.fixture
def home(module_cluster: ModuleClusters, target: LocalCluster, tmp_path: Path) -> Iterator[DeadPrimary]:
    primary = module_cluster("primary")
    pair = Pair(primary, target, tmp_path / "journal")
    found = DeadPrimary(pair, primary, {"thrown": Case("discard", tail=6), "clean": Case(tail=0)})
    found.fall()
    yield found
    found.close()


@pytest.mark.wide
@pytest.mark.timeout(600)
def test_clients_come_home(home: DeadPrimary, tmp_path: Path) -> None:
    """P41."""
    file = written(home.side, tmp_path)
    flow = f"{home.side.source.alias}->{home.side.target.alias}"
    words = ["failback", "--flow", flow, "--clients-cut", CUT, "--export-to", str(tmp_path / "saved")]
    held = drkit(file, "reprotect", "--flow", flow, "--hold", "--yes")
    assert held.code == 0, held.err
    assert {own["retention.bytes"] for own in home.own_settings(home.side.target).values()} == {"-1"}
    home.rise()

    undecided = drkit(file, *words, "--yes")
    assert (undecided.code, "somebody has to decide" in undecided.err) == (3, True), undecided.err
    words += ["--disposition", f"{home.topics[0]}=discard", "--reason", REASON]
    shown = drkit(file, *words, "--dry-run")
    assert shown.code == 0, shown.err
    assert {row["step"] for row in shown.data["steps"]} >= {"EXPORT", "BEGIN"}

    alone = drkit(file, *words, "--yes", "--wait-seconds", "0")
    assert alone.code == 1, alone.err
    assert [s["stage"] for s in alone.data["stages"]] == ["return"]
    assert alone.data["stages"][0]["report"]["state"] == "done"
    assert "is not in step yet" in alone.err

    home.back.replicate()
    home.back.copied(home.topics, dict.fromkeys(home.groups))
    home.positions_are_right()
    there = drkit(file, "failback", "--flow", flow, "--clients-cut", CUT, "--yes")
    assert there.code == 0, (there.out, there.err)
    assert [s["stage"] for s in there.data["stages"]] == ["switch", "turn"]
    for cluster in (home.side.source, home.side.target):
        own = home.own_settings(cluster)
        assert not [t for t in own if "retention.bytes" in own[t]], (
            "what was held is put back, and not copied"
        )
    home.back.stop_replicating()

    side = home.side
    for topic in home.topics:
        theirs, ours = (side.records(c, topic) for c in (side.source, side.target))
        assert {p: values(r) for p, r in theirs.items()} == {p: values(r) for p, r in ours.items()}, topic
    side.replicate()
    side.copied(home.topics)
    assert side.exact(home.topics) > 100
    again = drkit(file, "failback", "--flow", flow, "--yes")
    assert (again.code, "there is nothing to fail back" in again.err) == (3, True), again.err
