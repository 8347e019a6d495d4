"""A Structured Streaming query goes along with a failover, its checkpoint translated; how long it takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
import json
import os
from pathlib import Path
import subprocess
import sys
import threading
from typing import Any

import pytest

from drkit.failover.core.request import RunRequest
from drkit.journal.machine import StepName
from drkit.kafka.admin import Cluster
from drkit.local.cluster import LocalCluster, start_together
from drkit.local.spec import ClusterSpec
from drkit.repoint import endpoint_of
from drkit.repoint.file import EndpointFile
from tests.support.failover.python_clients import Writer
from tests.support.failover.settings_file import written
from tests.support.failover.truth import values
from tests.support.failover.world import World
from tests.support.spark.spark_run import connector
from tests.support.waiting import eventually

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]
_ROOT = Path(__file__).parents[2]


class Events(list[tuple[int, str, str, str]]):
    """Lines of the application: when, kind, servers, text."""

    def batches(self, servers: str) -> list[tuple[int, list[str]]]:
        """Batches with records that it read from one of the clusters."""
        found = [
            (at, json.loads(text)["values"])
            for at, kind, s, text in tuple(self)
            if (kind, s) == ("B", servers)
        ]
        return [(at, v) for at, v in found if v]


@contextmanager
def application(job: dict[str, Any], folder: Path) -> Iterator[Events]:
    """The application in a process of its own."""
    events = Events()
    with (folder / "said.log").open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.soak.spark_following"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True, cwd=_ROOT,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "TMPDIR": str(folder)},
        )  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(json.dumps(job))
        process.stdin.close()

        def listen() -> None:
            for line in process.stdout or ():
                at, _, rest = line.rstrip("\n").partition(" ")
                if at.isdecimal():
                    kind, servers, *text = rest.split(" ", 2)
                    events.append((int(at), kind, servers, text[0] if text else ""))

        threading.Thread(target=listen, daemon=True).start()
        try:
            yield events
        finally:
            process.kill()
            process.wait()


def moved(world: World, primary: LocalCluster, folder: Path, *, killed: bool) -> dict[str, Any]:
    """Its figures, of one failover."""
    topic, file = world.name("in"), folder / "endpoint.json"
    world.create(world.source, topic, 2, {"retention.ms": "-1"})
    EndpointFile(file).tell(
        endpoint_of(world.source, term=0, cluster_id=Cluster.connect(world.source).cluster_id)
    )
    world.failover_fields["repoint"] = [{"kind": "file", "path": str(file)}]
    job = {
        "jars": connector(), "endpoint": str(file), "topic": topic, "scratch": str(folder),
        "config": str(written(world, folder)),
    }  # fmt: skip
    old, new = world.source.bootstrap_servers, world.target.bootstrap_servers
    world.replicate()
    with (
        Writer("python", "w", topic, file, enable_idempotence=True) as writer,
        application(job, folder) as events,
    ):
        eventually(lambda: len(events.batches(old)) > 3, 300, "batches on the primary")
        world.copied([])
        if killed:
            primary.kill()
        request = RunRequest(accept_data_loss="for the test") if killed else RunRequest(planned=True)
        with world.desk() as desk:
            report = desk.begin((), request)
        eventually(lambda: len(events.batches(new)) > 2, 300, f"batches on the standby: {events[-5:]}")
        writer.finish()
        there = {v.decode() for r in world.records(world.target, topic).values() for v in values(r)}
        seen = lambda at: {v for _, found in events.batches(at) for v in found}  # noqa: E731
        eventually(lambda: there <= seen(old) | seen(new), 120, "the query at the end")
        run = world.run_log()
    ends = {e.step: e.at_ms for e in run.entries if e.kind == "result" and not e.effect}
    first = events.batches(new)[0][0]
    given = Counter(v for at in (old, new) for _, found in events.batches(at) for v in found)
    opened = ends[StepName.OPEN]
    return {
        "killed": killed, "state": report["state"], "told": (ends[StepName.REPOINT] - opened) / 1000,
        "first": (first - opened) / 1000, "twice": sum(n > 1 for n in given.values()),
        "events": [(round((at - opened) / 1000, 2), k, t[:200]) for at, k, _, t in events if k != "B"],
    }  # fmt: skip


@pytest.mark.parametrize("killed", [False, True])
def test_a_query_goes_along(tmp_path: Path, *, killed: bool) -> None:
    primary, standby = LocalCluster(ClusterSpec("primary")), LocalCluster(ClusterSpec("standby"))
    start_together(primary, standby)
    world = World(primary, standby, tmp_path / "journal")
    try:
        found = moved(world, primary, tmp_path, killed=killed)
    finally:
        world.close()
        primary.stop()
        standby.stop()
    print(json.dumps(found))  # noqa: T201 - the figures are the result
    if results := os.environ.get("DRKIT_TEST_RESULTS"):
        with Path(results).open("a", encoding="utf-8") as out:
            out.write(json.dumps(found) + "\n")
    assert found["state"] == "done"
    assert not found["twice"], "the checkpoint leads to the next record"
