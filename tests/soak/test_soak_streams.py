"""A Kafka Streams application follows a failover: its counts, its own topics, and how long it takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
import json
import os
from pathlib import Path
import re
import subprocess
import tempfile
import threading
from typing import Any, NamedTuple

import pytest

from drkit.failover.core.request import RunRequest
from drkit.failover.report import report_of
from drkit.journal.entries import RunLog
from drkit.kafka.admin import Cluster
from drkit.local.cluster import LocalCluster, start_together
from drkit.local.jars import BROKER, KAFKA_VERSION, Module, classpath
from drkit.local.java import find_java
from drkit.local.spec import ClusterSpec
from drkit.repoint import endpoint_of
from drkit.repoint.file import EndpointFile
from tests.support.failover.python_clients import Writer
from tests.support.failover.world import World
from tests.support.waiting import eventually

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]
_SOURCE = Path(__file__).with_name("java") / "Streams.java"
MODULES = (*BROKER, Module("org.apache.kafka", "kafka-streams", KAFKA_VERSION))
PARTITIONS = 2
_LINE = re.compile(r"(\d+) ([GSEM]) (\S+)(?: (.*))?")


class Event(NamedTuple):
    """A line that the application printed."""

    at_ms: int
    kind: str
    """``G`` a record of the topic, ``S`` a state, ``E`` an error, ``M`` it leaves a cluster."""
    servers: str
    text: str


@contextmanager
def streams(*arguments: str) -> Iterator[list[Event]]:
    """The application in a process of its own, and what it prints."""
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [str(find_java()), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", classpath(modules=MODULES),
             str(_SOURCE), *arguments],
            stdout=subprocess.PIPE, stderr=said, text=True,
        )  # fmt: skip
        events: list[Event] = []

        def listen() -> None:
            for line in process.stdout or ():
                found = _LINE.fullmatch(line.rstrip("\n"))  # an error's text may have more lines
                if found is not None:
                    events.append(Event(int(found[1]), found[2], found[3], found[4] or ""))

        threading.Thread(target=listen, daemon=True).start()
        try:
            yield events
        finally:
            process.kill()
            process.wait()
            said.seek(0)
            print([e for e in events if e.kind != "G"], events[-2:])  # noqa: T201 - shown when the test fails
            print(said.read().decode(errors="replace")[-1500:])  # noqa: T201 - likewise


def moved(
    world: World, primary: LocalCluster, folder: Path, protocol: str, *, killed: bool
) -> dict[str, Any]:
    """Its figures, of one failover of everything that it uses."""
    given, made, app = world.name("in"), world.name("out"), world.name("app")
    for topic in (given, made):
        world.create(world.source, topic, PARTITIONS, {"retention.ms": "-1"})
    ids = Cluster.connect(world.source).cluster_id
    file = folder / "endpoint.json"
    EndpointFile(file).tell(endpoint_of(world.source, term=0, cluster_id=ids))
    world.failover_fields |= {"repoint": [{"kind": "file", "path": str(file)}], "drain_seconds": 5.0}
    primary_at, standby_at = world.source.bootstrap_servers, world.target.bootstrap_servers
    writer = Writer("python", "w", given, file, enable_idempotence=True)
    arguments = (str(file), app, given, made, str(folder / "state"), protocol)
    with writer, streams(*arguments) as events:
        seen = lambda at: [e for e in events if (e.kind, e.servers) == ("G", at)]  # noqa: E731
        eventually(lambda: len(seen(primary_at)) > 100, 240, f"work on the primary: {events[-5:]}")
        world.replicate()  # the application's own topics exist by now
        eventually(lambda: world._synced(app) and world.committed(world.target, app), 180, "its checkpoint")
        number = len(seen(primary_at))
        eventually(lambda: len(seen(primary_at)) > number + 100, 120, "more work")
        if killed:
            primary.kill()
        request = RunRequest(accept_data_loss="for the test") if killed else RunRequest(planned=True)
        with world.desk() as desk:
            report = desk.begin((), request)
        eventually(lambda: len(seen(standby_at)) > 100, 240, f"work on the standby: {events[-8:]}")
        writer.finish()
        _at_rest(world, made, events)
        run = world.run_log()
        if killed:
            primary.restart()
    assert report_of(run, "flow")["state"] == "done"
    opened = _step_end(run, "OPEN")
    names = {primary_at: "primary", standby_at: "standby"}
    return {
        "told": (_step_end(run, "REPOINT") - opened) / 1000,
        "states": [((e.at_ms - opened) / 1000, names[e.servers], e.text) for e in events if e.kind == "S"],
        "first": (seen(standby_at)[0].at_ms - opened) / 1000,
        "errors": sorted({f"{names[e.servers]} {e.text.split(' ')[0]}" for e in events if e.kind == "E"}),
        "read again": len({e.text for e in seen(primary_at)} & {e.text for e in seen(standby_at)}),
        "outside": report["outside"]["groups"], "moved": report["groups"]["moved"],
        "topics": sorted(report["topics"]), "repeats": report["groups"]["repeats"],
        "lost": report["loss"]["statement"], "seconds": report["seconds"],
        **_counts(world, given, made),
    }  # fmt: skip


def _step_end(run: RunLog, step: str) -> int:
    return next(e.at_ms for e in run.entries if e.step == step and e.kind == "result" and not e.effect)


def _at_rest(world: World, made: str, events: list[Event]) -> None:
    before = [-1]

    def rests() -> bool:
        ends = [*world.offsets(world.target, made).values(), len(events)]
        same, before[:] = ends == before, ends
        threading.Event().wait(2.0)
        return same

    eventually(rests, 120, "the application at rest")


def _counts(world: World, given: str, made: str) -> dict[str, Any]:
    """Whether the counts that it wrote are one, two, three, … of each key, up to the number of records."""
    total = sum(map(len, world.records(world.target, given).values()))
    counts: dict[bytes, list[int]] = {}
    for records in world.records(world.target, made).values():
        for s in records:
            counts.setdefault(s.key or b"", []).append(int(s.value or b"0"))
    steps = Counter(b - a for found in counts.values() for a, b in zip([0, *found], found, strict=False))
    return {"records": total, "counted": sum(f[-1] for f in counts.values()), "steps": dict(steps)}


@pytest.mark.parametrize("protocol", ["classic", "streams"])
@pytest.mark.parametrize("killed", [False, True])
def test_a_streams_application_goes_along(tmp_path: Path, protocol: str, *, killed: bool) -> None:
    primary, standby = LocalCluster(ClusterSpec("primary")), LocalCluster(ClusterSpec("standby"))
    start_together(primary, standby)
    world = World(primary, standby, tmp_path / "journal", groups=[".*"])
    try:
        found = moved(world, primary, tmp_path, f"group.protocol={protocol}", killed=killed)
    finally:
        world.close()
        primary.stop()
        standby.stop()
    line = json.dumps({"protocol": protocol, "killed": killed, **found})
    print(line)  # noqa: T201 - the figures are the result
    if results := os.environ.get("DRKIT_TEST_RESULTS"):
        with Path(results).open("a", encoding="utf-8") as out:
            out.write(line + "\n")
    if not killed and protocol == "classic":
        assert found["counted"] == found["records"]
        assert set(found["steps"]) == {1}
