"""Ten minutes of everything that is no loss: pauses, rolling restarts, flapping links, stalled observers."""

from __future__ import annotations

from collections import Counter
import json
import os
from pathlib import Path
import random
import signal
import subprocess
import sys
import threading
import time

import pytest

from drkit.local.cluster import LocalCluster, start_together
from drkit.local.spec import ClusterSpec
from tests.support.waiting import eventually
from tests.support.watch.disturbances import ALL, no_alarm
from tests.support.watch.ready import ready
from tests.support.watch.world import Lookout, World

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1500)]
SECONDS = 600.0


class Watcher:
    """`drkit watch --json` as a process, stopped and continued again and again."""

    def __init__(self, world: World, folder: Path) -> None:
        config = folder / "drkit.toml"
        source, target = world.source, world.target
        lines = [
            f'[clusters.{source}]\nbootstrap_servers = "{world.primary.bootstrap("PROBE")}"',
            f'[clusters.{target}]\nbootstrap_servers = "{world.standby.bootstrap()}"',
            f'[[flows]]\nsource = "{source}"\ntarget = "{target}"\ntopics = ["{world.topic}"]',
        ]
        config.write_text("\n".join(lines) + "\n")
        main = "from drkit.cli.main import main; main()"
        self._said = (folder / "watch.log").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-c", main, "watch", "--json", "--config", str(config)],
            stdout=subprocess.PIPE, stderr=self._said, text=True,
        )  # fmt: skip
        self.verdicts: list[str] = []
        self.ended = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.verdicts.append(json.loads(line)["verdict"])

    def stall(self, chance: random.Random) -> None:
        os.kill(self._process.pid, signal.SIGSTOP)
        self.ended.wait(chance.uniform(2.0, 30.0))
        os.kill(self._process.pid, signal.SIGCONT)

    def close(self) -> None:
        self.ended.set()
        self._process.kill()
        self._process.wait()
        self._said.close()


def test_no_false_alarm_in_ten_minutes(tmp_path: Path) -> None:
    chance = random.Random(3)
    primary = LocalCluster(ClusterSpec("primary", brokers=3, linked=("PROBE", "REPLICATION")))
    standby = LocalCluster(ClusterSpec("standby", brokers=3))
    world, watcher, lookout = None, None, None
    try:
        start_together(primary, standby)
        world = World(primary, standby, beat=1.0)
        world.replicate()
        lookout = Lookout(world.settings(detection={}), "o1")
        lookout.start()
        ready(lookout)
        watcher = Watcher(world, tmp_path)
        eventually(lambda: "UP" in watcher.verdicts, 60, "the process sees it up")
        ends, done = time.monotonic() + SECONDS, Counter[str]()
        while time.monotonic() < ends:
            stalled = threading.Thread(target=watcher.stall, args=(chance,))
            stalled.start()
            name = chance.choice(sorted(ALL))
            no_alarm(world, lookout, name, chance)
            stalled.join()
            done[name] += 1
        assert set(done) == set(ALL)
        assert done.total() > 10
        assert not {"HOLD", "LOST"} & set(watcher.verdicts)
    finally:
        for each in (watcher, world):
            if each is not None:
                each.close()
        if lookout is not None:
            lookout.stop()
        primary.stop()
        standby.stop()
