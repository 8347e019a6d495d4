"""``drkit failback`` as a person types it: refused, begun, waiting, home; run again, it continues."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
import re

import pytest

from drkit.failover.core.request import RunRequest
from drkit.local.cluster import LocalCluster
from tests.support.cli.json_fields import pin
from tests.support.failback.pair import CUT, Pair
from tests.support.failback.tail import REASON, Case, DeadPrimary
from tests.support.failover.command import Said, drkit
from tests.support.failover.settings_file import written
from tests.support.failover.truth import values
from tests.support.flows.produce import answers, fill
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
    _an_abort_leaves_the_hold(home, file, words)

    undecided = drkit(file, *words, "--yes")
    assert (undecided.code, undecided.error) == (3, "decision_missing"), undecided.err
    del words[1:3]  # the flow whose primary died is found
    words += ["--disposition", f"{home.topics[0]}=discard", "--reason", REASON]
    shown = drkit(file, *words, "--dry-run")
    assert shown.code == 0, shown.err
    assert {row["step"] for row in shown.data["steps"]} >= {"EXPORT", "BEGIN"}

    alone = run(file, *words, "--yes", "--wait-seconds", "0")
    assert alone.code == 1, alone.err
    assert (alone.data["home"], [s["stage"] for s in alone.data["stages"]]) == (False, ["return"])
    assert alone.data["stages"][0]["report"]["state"] == "done"
    assert alone.error == "not_in_step", alone.err

    home.back.replicate()
    home.back.copied(home.topics, dict.fromkeys(home.groups))
    home.positions_are_right()
    _refused_before_anybody_moves(file)
    there = run(file, "failback", "--clients-cut", CUT, "--yes")
    assert there.code == 0, (there.out, there.err)
    assert (there.data["home"], [s["stage"] for s in there.data["stages"]]) == (True, ["switch", "turn"])
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
    assert (again.code, again.error) == (3, "nothing_to_fail_back"), again.err
    nameless = drkit(file, "failback", "--yes")
    assert (nameless.code, "lost its primary" in nameless.err) == (2, True), "either side may be home now"


def run(file: Path, *words: str) -> Said:
    """Run a failback; the fields of its answer are as recorded, and its reports have those of a failover."""
    said = drkit(file, *words)
    pin("failback", said.data | {"stages": [{**stage, "report": {}} for stage in said.data["stages"]]})
    return said


def _refused_before_anybody_moves(file: Path) -> None:
    """The other cluster would be fenced by size, and nothing was said to keep clients off it."""
    for mode in ("--dry-run", "--yes"):
        uncut = drkit(file, "failback", mode)
        assert (uncut.code, uncut.error) == (3, "switchover_fence_refuses_drkit"), uncut
        assert "the switchover home" in uncut.err, uncut
        assert re.search(r"state how: drkit .*failback .*--clients-cut", uncut.err), uncut.err


def _an_abort_leaves_the_hold(home: DeadPrimary, file: Path, words: list[str]) -> None:
    """However often it is typed: only its own words end it, and not while a return copies what is held."""
    before, said = home.own_settings(home.side.target), ["reprotect", *words[1:3]]
    assert drkit(file, "reprotect", *words[1:], "--until-export", "--yes").code == 3
    early = drkit(file, *said, "--hold", "--abort")
    assert (early.code, early.error) == (2, "failback_under_way"), early.err
    end = f" --flow '{words[2]}' --hold --abort"
    aborted = drkit(file, *said, "--abort", "--yes")
    assert (aborted.code, end in aborted.data["next"][-1]) == (0, True), (aborted.out, aborted.err)
    again = drkit(file, *said, "--abort", "--yes")
    assert again.code == 2, (again.out, again.err)
    assert "there is no return to abort, so nothing is rolled back" in again.err
    assert f"{home.side.target.alias} keeps everything of 2 topics still; to end that: " in again.err
    assert end in again.err
    assert home.own_settings(home.side.target) == before
    ended = drkit(file, *said, "--hold", "--abort")
    assert (ended.code, len(ended.data["topics"])) == (0, 2), ended.err
    assert not any("retention.bytes" in own for own in home.own_settings(home.side.target).values())
    repeated = drkit(file, *said, "--hold", "--abort")
    assert (repeated.code, repeated.data["topics"]) == (0, []), repeated.err
    assert drkit(file, *said, "--hold", "--yes").code == 0
    assert home.own_settings(home.side.target) == before


@pytest.mark.wide
@pytest.mark.timeout(600)
def test_some_topics_come_home_before_the_others(
    module_cluster: ModuleClusters, target: LocalCluster, tmp_path: Path
) -> None:
    """Each stage is of the named topics alone; the others wait, and what is held of them stays."""
    primary = module_cluster("primary")
    home = DeadPrimary(
        Pair(primary, target, tmp_path / "journal"), primary, {"first": Case(tail=0), "then": Case(tail=0)}
    )
    try:
        home.die()
        first, then = home.topics
        file, flow = written(home.side, tmp_path), home.side.settings.flows[0].name
        words = ("failback", "--flow", flow, "--clients-cut", CUT, "--yes", "--wait-seconds")
        assert drkit(file, "reprotect", "--flow", flow, "--hold", "--yes").code == 0
        unknown = drkit(file, *words, "0", "--topic", "no-such-topic")
        assert (unknown.code, unknown.error) == (2, "topic_unknown"), unknown.err
        assert "'no-such-topic'" in unknown.err

        alone = run(file, *words, "0", "--topic", first)
        assert (alone.code, [s["stage"] for s in alone.data["stages"]]) == (1, ["return"]), alone.err
        assert f"--flow '{flow}' --topic {first}" in alone.err
        returned = drkit(file, "reprotect", "--flow", flow, "--topic", first, "--yes")
        assert (returned.code, f"wait for their return: {then}" in returned.err) == (3, True), returned.err
        home.back.replicate()
        home.back.copied([first])
        there = drkit(file, *words, "60", "--topic", first)
        assert (there.code, [s["stage"] for s in there.data["stages"]]) == (0, ["switch", "turn"]), there.err
        assert all(list(s["report"]["topics"]) == [first] for s in there.data["stages"]), there.data
        held = home.own_settings(home.side.target)
        assert ("retention.bytes" in held[first], held[then]["retention.bytes"]) == (False, "-1")
        again = drkit(file, *words, "0", "--topic", first)
        assert (again.code, again.error) == (3, "nothing_to_fail_back"), again.err
        assert f"none of {first} is active on {home.side.target.alias}" in again.err

        rest = drkit(file, *words, "0")
        assert (rest.code, [s["stage"] for s in rest.data["stages"]]) == (1, ["return"]), rest.err
        home.back.stop_replicating()
        home.back.replicate()
        home.back.copied([then])
        rest = drkit(file, *words, "60")
        assert (rest.code, [s["stage"] for s in rest.data["stages"]]) == (0, ["switch", "turn"]), rest.err
        home.back.stop_replicating()
        home.side.replicate()
        home.side.copied(home.topics)
        assert home.side.exact(home.topics) > 100
    finally:
        home.close()


@pytest.mark.wide
@pytest.mark.timeout(400)
def test_topics_whose_clients_never_left_stay_where_they_are(pair: Pair, tmp_path: Path) -> None:
    """Both clusters are home to some topics: a failback moves what the failover has moved."""
    side, back = pair.now, pair.other
    orders, audit, cash = (side.name(name) for name in ("orders", "audit", "cash"))
    back.flow_fields["topics_exclude"] = [audit]
    for home, topic in ((side.source, orders), (side.source, audit), (side.target, cash)):
        side.create(home, topic, 1, {"retention.ms": "-1"})
        fill(home, topic, 20)
    side.replicate()
    side.copied([orders, audit])
    with side.desk() as desk:
        request = RunRequest(planned=True, clients_cut=CUT)
        assert list(desk.begin([], request, topics=[orders])["topics"]) == [orders]
    side.stop_replicating()
    pair.reprotect()
    back.replicate()
    back.copied([orders, cash])
    flow = side.settings.flows[0].name
    words = ("failback", "--flow", flow, "--clients-cut", CUT, "--yes", "--wait-seconds", "60")
    said = run(written(side, tmp_path), *words)
    assert (said.code, [s["stage"] for s in said.data["stages"]]) == (0, ["switch", "turn"]), said.err
    assert [list(s["report"]["topics"]) for s in said.data["stages"]] == [[orders], [orders]]
    assert answers(side.target, cash, [b"x"]) == [None], "its clients stay there"
