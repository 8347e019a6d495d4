"""What `--leave-behind` names stays on the primary; a resumed run keeps the groups with which it began."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
import sys
from typing import Any

import pytest

from drkit.model import TopicPartition
from tests.support.failback.pair import CUT, Pair, Side
from tests.support.failover.command import Said, drkit
from tests.support.failover.orchestrator import Kill, Orchestrators
from tests.support.failover.settings_file import toml, written
from tests.support.flows.produce import answers, fill
from tests.support.shared_clusters import ModuleClusters

PLANNED = {"planned": True, "clients_cut": CUT}
PROMOTED = Kill("OPEN promote intent", "after")

pytestmark = pytest.mark.wide


@dataclass
class Switch:
    """Two topics with a group each, protected, before a switchover of both."""

    side: Side
    folder: Path

    def __post_init__(self) -> None:
        side = self.side
        self.t1, self.t2, self.g1, self.g2 = (side.name(n) for n in ("t1", "t2", "g1", "g2"))
        for topic, group in ((self.t1, self.g1), (self.t2, self.g2)):
            side.create(side.source, topic, 1, {"retention.ms": "-1"})
            fill(side.source, topic, 20)
            side.commit(side.source, group, {TopicPartition(topic, 0): 7})
        side.replicate()
        side.copied([self.t1, self.t2], {self.g1: None, self.g2: None})
        side.protected([self.t1, self.t2])

    def killed(self, kill: Kill) -> None:
        """Begin the switchover of both topics in a process that dies."""
        with Orchestrators() as orchestrators:
            begun = orchestrators.run(self.side.plain(), "begin", groups=[], kill=kill, request=PLANNED)
        assert begun.killed, begun

    def file(self, **flow: Any) -> Path:
        """Write the file of another machine, which selects less."""
        plain, file = self.side.plain(), self.folder / "narrow.toml"
        plain["flows"] = [f | flow for f in plain["flows"]]
        plain["failover"]["journal_folder"] = str(self.folder / "journal-b")
        file.write_text(toml(plain), encoding="utf-8")
        return file

    def failover(self, file: Path, *words: str) -> Said:
        """Run `drkit failover` of the flow."""
        return drkit(file, "failover", "--flow", self.side.settings.flows[0].name, *words)

    def stay(self) -> list[bool]:
        """Return of each topic whether the source takes a record of a client."""
        return [answers(self.side.source, t, [b"x"]) == [None] for t in (self.t1, self.t2)]

    def on_target(self, group: str) -> list[int]:
        """Return the offsets of a group on the target."""
        return [c.offset for c in self.side.committed(self.side.target, group).values()]


@pytest.fixture
def switch(
    module_cluster: ModuleClusters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Switch]:
    monkeypatch.setattr(sys, "stdin", None)  # no one answers a question
    pair = Pair(module_cluster("primary"), module_cluster("standby"), tmp_path / "journal")
    try:
        yield Switch(pair.now, tmp_path)
    finally:
        pair.close()


def test_a_resumed_run_leaves_a_topic_behind(switch: Switch) -> None:
    switch.killed(Kill("DRAIN  intent", "after"))
    file, resume = switch.file(topics=[switch.t1]), ("--resume", "--take-over")
    refused = switch.failover(file, *resume)
    assert refused.error == "left_by_configuration", refused
    empty = switch.failover(file, *resume, "--leave-behind", switch.t1, "--leave-behind", switch.t2)
    assert empty.error == "nothing_to_move", empty
    done = switch.failover(file, *resume, "--leave-behind", switch.t2)
    assert done.code == 0, done
    assert (list(done.data["topics"]), done.data["groups"]["asked"]) == ([switch.t1], [switch.g1]), done
    assert switch.stay() == [False, True]
    assert switch.on_target(switch.g1) == [7]
    switch.side.copied([switch.t2], {})


def test_a_topic_or_group_that_is_selected_is_left_behind(switch: Switch) -> None:
    file, left = written(switch.side, switch.folder), ("--leave-behind", switch.t2)
    done = switch.failover(file, "--all", "--planned", "--clients-cut", CUT, *left, "--yes")
    assert done.code == 0, done
    assert (list(done.data["topics"]), done.data["groups"]["moved"]) == ([switch.t1], [switch.g1]), done
    assert done.data["outside"]["by_file"] == [switch.t2], done
    assert switch.stay() == [False, True]
    rest = ("--leave-behind", switch.g2)
    moved = switch.failover(file, "--all", "--planned", "--clients-cut", CUT, *rest, "--yes")
    assert moved.code == 0, moved
    assert (list(moved.data["topics"]), moved.data["groups"]["moved"]) == ([switch.t2], []), moved
    assert switch.g2 in moved.data["outside"]["groups"], moved


def test_what_the_run_has_opened_is_not_left_behind(switch: Switch) -> None:
    switch.killed(PROMOTED)
    file = switch.file(topics=[switch.t1])
    refused = switch.failover(file, "--resume", "--take-over", "--leave-behind", switch.t2)
    assert (refused.error, switch.t2 in refused.err) == ("point_of_no_return", True), refused
    assert switch.failover(file, "--resume", "--take-over").code == 0
    assert switch.stay() == [False, False]


def test_a_file_with_fewer_groups_drops_none(switch: Switch) -> None:
    switch.killed(Kill("DRAIN  intent", "after"))
    switch.side.commit(switch.side.source, switch.g2, {TopicPartition(switch.t2, 0): 15})
    done = switch.failover(switch.file(groups=[switch.g1]), "--resume", "--take-over")
    assert done.code == 0, done
    assert done.data["groups"]["moved"] == [switch.g1, switch.g2], done
    assert switch.on_target(switch.g2) == [15]
