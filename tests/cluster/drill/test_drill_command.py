"""`drkit drill run` on a real pair: it passes, then names the group whose position is moved by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from drkit.model import TopicPartition
from tests.support.drill.positions import move_by_one
from tests.support.failover.command import Said, drkit
from tests.support.failover.settings_file import written
from tests.support.failover.world import World
from tests.support.flows.produce import fill
from tests.support.waiting import eventually


@pytest.mark.wide
def test_drills_pass_on_a_healthy_pair_and_name_a_position_moved_by_one(world: World, tmp_path: Path) -> None:
    """P28: readiness and translation run from the command line, and their reports are kept."""
    topic, moved, other = world.name("orders"), world.name("moved"), world.name("other")
    world.create(world.source, topic, 1, {"retention.ms": "-1"})
    fill(world.source, topic, 50)
    at = TopicPartition(topic, 0)
    for group, offset in ((moved, 5), (other, 9)):
        world.commit(world.source, group, {at: offset})
    world.replicate()
    world.copied([topic], {moved: at, other: at})
    world.protected([topic])
    file = written(world, tmp_path)

    def drill(kind: str, *words: str) -> Said:
        return drkit(file, "drill", "run", "--kind", kind, *words)

    page = tmp_path / "page.html"
    first = drill("translation", "--html", str(page))
    assert first.code == 0, first
    assert (first.data["scope"]["groups"], first.data["scope"]["partitions"]) == (2, 1)
    assert {c["name"]: (c["examined"], c["failed"]) for c in first.data["checks"]} == {
        "translated positions": (2, 0),
        "stored positions": (2, 0),
    }
    assert moved in page.read_text()
    eventually(lambda: drill("readiness").code == 0, 60, lambda: str(drill("readiness")))

    world.stop_replicating()
    move_by_one(world, moved)
    last = drill("translation")
    assert (last.code, last.data["verdict"]) == (1, "fail"), last
    assert last.data["previous"] == first.data["self"]
    assert all(moved in reason for reason in last.data["reasons"]), last.data["reasons"]
    checked = drkit(file, "drill", "report", last.data["id"], "--check", last.data["report"])
    assert (checked.code, checked.data["verdict"]) == (0, "fail"), checked
    rows = drkit(file, "drill", "history", "translation").data
    assert [(r["id"], r["verdict"]) for r in rows] == [
        (first.data["id"], "pass"),
        (last.data["id"], "fail"),
    ]
