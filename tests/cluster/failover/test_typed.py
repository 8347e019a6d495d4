"""Each command that a failover prints, typed in a shell as it is printed, in the state that prints it.

The group's name has blanks and quotation marks, the configuration's file a quotation mark. A primary is
silent where the configuration leads to a closed port.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
import os
from pathlib import Path
import signal
import subprocess
import sys
import threading

import pytest

from drkit.flow_state.records import PendingFence, PendingLift, RoleRecord
from drkit.journal import journal
from drkit.journal.machine import RunState, StepName
from drkit.local.cluster import LocalCluster
from drkit.local.ports import PortReservation
from drkit.model import TopicPartition
from drkit.next_command import typed
from tests.support.cli.screen import Screen, type_line
from tests.support.errors import longest_part, sentence
from tests.support.failover.settings_file import written
from tests.support.failover.world import World
from tests.support.flows.produce import answers, fill

ROOT = Path(__file__).parents[3]
CONFIG = "night's shift.toml"
SCENES = ("held", "pending", "refused")


class Night:
    """A world, and a person at a shell."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world, self.folder, self._ports = world, folder, PortReservation()
        for scene in SCENES:
            world.create(world.source, world.name(scene), 1, {"retention.ms": "-1"})
            fill(world.source, world.name(scene), 20)
            world.commit(world.source, self.group(scene), {TopicPartition(world.name(scene), 0): 5})
        world.failover_fields |= {"drain_seconds": 2.0, "rpo_seconds": 0.2}
        world.replicate()
        world.copied([world.name(s) for s in SCENES], {self.group(s): None for s in SCENES})
        self.sees_the_primary()

    def group(self, scene: str) -> str:
        return self.world.name(f'it\'s {scene} at "night" $0')

    def sees_the_primary(self) -> None:
        written(self.world, self.folder).replace(self.folder / CONFIG)  # there is no ./drkit.toml

    def loses_the_primary(self) -> None:
        self.sees_the_primary()
        file, closed = self.folder / CONFIG, f"127.0.0.1:{self._ports.reserve()}"
        file.write_text(file.read_text().replace(self.world.source.bootstrap_servers, closed))

    def begins(self, scene: str, *words: str) -> str:
        return typed("drkit", "failover", "--config", CONFIG, "--group", self.group(scene), "--yes", *words)

    def types(self, line: str, answer: str = "", begun: Callable[[], None] = lambda: None) -> Screen:
        """Type a line in this person's folder."""
        return type_line(line, self.folder, answer, begun)

    def held_in_drain(self, scene: str) -> Screen:
        """A switchover while the replicator is suspended."""
        over = threading.Event()
        writer = threading.Thread(target=self._write, args=(scene, over))
        writer.start()
        try:
            held = self.types(self.begins(scene, "--planned"), begun=lambda: self.signal(signal.SIGSTOP))
        finally:
            over.set()
            writer.join()
        assert held.code == 3, held.text
        assert sentence("switchover_incomplete") in held.text
        assert self.world.run_log().held["step"] == StepName.DRAIN
        return held

    def _write(self, scene: str, over: threading.Event) -> None:
        """One record after the other, until the primary is fenced."""
        while not over.is_set() and self.takes_writes(scene):
            pass

    def signal(self, number: signal.Signals) -> None:
        assert self.world._replicator is not None
        self.world._replicator.send_signal(number)

    def takes_writes(self, scene: str) -> bool:
        return answers(self.world.source, self.world.name(scene), [b"late"])[0] is None


@pytest.fixture(autouse=True)
def its_process_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that began a run is the test's own, which lives: here it counts as ended."""
    monkeypatch.setattr(journal, "lives_here", lambda _: False)


@pytest.fixture(scope="module")
def night(
    source: LocalCluster, target: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Night]:
    folder = tmp_path_factory.mktemp("night")
    world = World(source, target, folder / "journal")
    try:
        yield Night(world, folder)
    finally:
        world.close()


def in_a_shell(night: Night, line: str) -> int:
    """Once with nothing of the test's in between: the shell finds and starts the command."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["/bin/bash", "-c", line], cwd=night.folder, capture_output=True, timeout=120, check=False,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    return done.returncode


@pytest.mark.soak
def test_held_and_resumed(night: Night) -> None:
    held = night.held_in_drain("held")
    rehearsed = night.types(night.begins("held", "--dry-run"))
    assert (rehearsed.code, night.world.run_log().run_id in rehearsed.text) == (3, True), rehearsed.text
    assert sentence("run_held", table="failover") in rehearsed.text
    assert rehearsed.offers("failover", "--resume")
    assert rehearsed.offers("failover", "--abort")
    assert "LOCK" not in rehearsed.text, "no step is shown as if it would be done"
    assert in_a_shell(night, held.offers("status")) in {0, 1}
    again = night.types(held.offers("failover", "--resume"))
    assert again.code == 3
    assert again.offers("failover", "--abort")
    night.signal(signal.SIGCONT)
    done = night.types(again.offers("failover", "--resume"))
    assert done.code == 0, done.text
    assert "done: " in done.text
    assert night.world.run_log().state is RunState.DONE
    there, back = night.world.source.alias, night.world.target.alias
    with (night.folder / CONFIG).open("a", encoding="utf-8") as file:
        file.write(f'[[flows]]\nsource = "{back}"\ntarget = "{there}"\ntopics = ["{night.world.tag}-.*"]\n')
    turn = done.offers("reprotect")
    assert '--clients-cut "HOW"' in turn, "the fence is one by size"
    asked = night.types(turn)
    assert (asked.code, longest_part("no_terminal") in asked.text) == (2, True), asked.text
    night.sees_the_primary()


@pytest.mark.soak
def test_held_rolled_back_from_a_silent_primary_and_lifted(night: Night) -> None:
    held = night.held_in_drain("pending")
    night.signal(signal.SIGCONT)
    night.loses_the_primary()
    aborted = night.types(held.offers("failover", "--abort"))
    assert aborted.code == 0, aborted.text
    assert "aborted: " in aborted.text
    assert night.world.run_log().state is RunState.ABORTED
    assert PendingLift.KEY in night.world.state()
    lift = aborted.offers("fence pay")
    assert night.types(lift).code == 1, "it does not answer yet"
    assert not night.takes_writes("pending")
    night.sees_the_primary()
    shown = night.types(typed("drkit", "fence", "show", "--config", CONFIG))
    assert night.types(shown.offers("fence pay")).code == 0
    assert PendingLift.KEY not in night.world.state()
    assert night.takes_writes("pending")


@pytest.mark.wide
def test_refused_and_done_by_what_is_printed(night: Night) -> None:
    """Refusal by refusal, until it is done; then the old primary's pending fence, and its divergence."""
    night.world.stop_replicating()
    night.loses_the_primary()
    rehearsed = night.types(night.begins("refused", "--dry-run"))
    assert rehearsed.code == 3
    assert all(
        words in rehearsed.text for words in ("topics  ", "groups  ", "clients  ", "at risk  ", "LOCK")
    )
    line, refusals = night.begins("refused"), list[str]()
    while (screen := night.types(line)).code == 3 and len(refusals) < 3:
        refusals.append(screen.text)
        accepted = (
            "--despite-signs-of-life" if sentence("source_alive") in screen.text else "--accept-data-loss"
        )
        line = screen.offers("failover", accepted)
    assert screen.code == 0, screen.text
    lost = sentence("rpo_exceeded"), sentence("loss_unknown")
    assert any(each in text for text in refusals for each in lost)
    assert RoleRecord.key(night.world.name("refused")) in night.world.state()
    assert PendingFence.KEY in night.world.state()
    night.sees_the_primary()
    assert night.types(screen.offers("divergence")).code in {0, 1}
    paid = night.types(screen.offers("fence pay"))
    assert paid.code == 0, paid.text
    assert PendingFence.KEY not in night.world.state()
    assert not night.takes_writes("refused")
    assert night.types(paid.offers("divergence")).code in {0, 1}
    kept = night.types(
        typed("drkit", "fence", "lift", "--config", CONFIG, "--topic", night.world.name("refused"))
    )
    assert kept.code == 3
    assert night.types(kept.offers("fence lift", "--accept-divergence"), answer="y\n").code == 0
    assert night.takes_writes("refused")
