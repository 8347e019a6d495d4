"""``drkit reprotect`` as a person types it, on a pair of flows: without a name, shown first, then done."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.failback.pair import CUT, Pair
from tests.support.failover.command import drkit
from tests.support.failover.settings_file import written
from tests.support.flows.produce import fill


@pytest.mark.wide
def test_the_flow_that_waits_is_found_and_returned(pair: Pair, tmp_path: Path) -> None:
    side = pair.now
    topic = side.name("typed")
    side.create(side.source, topic, 1, {"retention.ms": "-1"})
    fill(side.source, topic, 20)
    file, name = written(side, tmp_path), f"{side.source.alias}->{side.target.alias}"
    side.replicate()
    side.copied([topic])
    early = drkit(file, "reprotect")
    assert (early.code, "no topic of them waits for a return" in early.err) == (2, True)
    assert pair.switch()["state"] == "done"

    found = drkit(file, "divergence")
    assert (found.code, found.data["flow"]) == (0, name), found.err
    fences = drkit(file, "fence", "show")
    assert (fences.code, fences.data["cluster"]) == (0, side.source.alias), fences.err

    refused = drkit(file, "reprotect", "--dry-run")
    assert refused.code == 3
    assert refused.error == "late_fence_refuses_drkit", refused.err
    planned = drkit(file, "reprotect", "--dry-run", "--clients-cut", CUT)
    assert planned.code == 0, planned.err
    assert {row["step"] for row in planned.data["steps"]} >= {"CONTACT", "COMPARE", "DEMOTE", "BEGIN"}
    assert f"clients are kept off: {CUT}" in planned.err
    assert drkit(file, "reprotect", "--resume").code == 2, "a dry run begins nothing"
    no_name = drkit(file, "reprotect", "--flow", name, "--abort")
    assert "there is no return to abort" in no_name.err
    assert "begin one: drkit reprotect" in no_name.err

    done = drkit(file, "reprotect", "--clients-cut", CUT, "--yes")
    assert done.code == 0, done.err
    assert (done.data["kind"], done.data["state"]) == ("return", "done")
    assert "BEGIN" in done.err, "progress is shown"
    over = drkit(file, "failover", "--flow", name, "--resume")
    assert f"the last run was the return {done.data['run']}: done" in over.err
    assert "a return begins with drkit reprotect" in over.err
    again = drkit(file, "reprotect", "--flow", name)
    assert (again.code, again.error) == (3, "nothing_to_protect"), again


@pytest.mark.wide
@pytest.mark.timeout(300)
def test_after_two_switchovers_the_way_home_needs_no_name(pair: Pair, tmp_path: Path) -> None:
    """Clients stood on the standby, and the command asked which flow was meant."""
    side = pair.now
    topic, home = side.name("home"), side.source.alias
    side.create(side.source, topic, 1, {"retention.ms": "-1"})
    fill(side.source, topic, 20)
    file = written(side, tmp_path)
    for _ in range(3):  # there, back, and there again
        pair.now.replicate()
        pair.now.copied([topic])
        assert pair.switch(clients_cut=CUT)["state"] == "done"
        assert pair.reprotect()["state"] == "done"
        shown = drkit(file, "failback", "--dry-run", "--clients-cut", CUT)
        if pair.now.target.alias == home:
            assert shown.code in {0, 3}, shown.err
            assert shown.error != "several_flows", shown.err
        else:
            assert (shown.code, shown.error) == (2, "several_flows"), "they are at home"
