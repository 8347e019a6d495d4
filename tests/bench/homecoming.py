"""A primary that died comes home: 20 topics of 12 partitions, for each method that brings a log in step.

Every partition of the old primary has a tail that was never copied, and 5 % of a partition are written on the
new primary before the old one returns. ``drkit reprotect`` brings it home; a running ``drkit replicate``
copies what the method leaves to copy. With the method delta there is no tail: a partition that has one
cannot continue. With keep the tail is appended to the new primary, with rebuild and trim it is discarded.
What the new primary's broker sent meanwhile is what would cross the link between both sites.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
import json
import os
from pathlib import Path
import random
import subprocess
import sys
import time
from typing import Any, Final

from confluent_kafka import Producer

from drkit.local.cluster import LocalCluster, start_together
from drkit.local.spec import ClusterSpec
from tests.bench.peers.drkit import Drkit
from tests.bench.peers.replicator import Flow, Running, running
from tests.bench.topics import Topics
from tests.bench.waiting import until

TOPICS: Final = 20
PARTITIONS: Final = 12
METHODS: Final = ("delta", "rebuild", "trim", "keep")
RECORDS: Final = 12_000
"""Of each partition before the primary dies: twelve times as many as the return compares."""
DELTA: Final = RECORDS // 20
"""Written to each partition of the new primary."""
TAIL: Final = 5
"""Only on the old primary, in each partition; with the method delta none."""
_BYTES: Final = 500
"""Of a value; random, so that no codec makes the link look cheap."""
_BATCH_BYTES: Final = 16_384
"""The default of Kafka's own producer. A look at one record gets its batch: large ones make looks large."""
_PATIENCE: Final = 300.0
_LOOK_SECONDS: Final = 0.5
_STILL_SECONDS: Final = 1.5
_CUT: Final = "no client runs in this benchmark"
_FORTH: Final = "source->target"
_BACK: Final = "target->source"
_SETTINGS: Final = """\
[[flows]]
source = "target"
target = "source"
topics = ["home-.*"]
tasks = 2
[failover]
rpo_seconds = 3600
verify_seconds = 0.1
journal_folder = "{journal}"
"""
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ReturnRun:
    """One return; times in seconds, sizes in bytes."""

    method: str
    records: int
    """On the old primary, its tail included."""
    tail: int
    delta: int
    command_seconds: float
    """`drkit reprotect`: compared, exported, decided, emptied and seeded."""
    protected_seconds: float
    """From its beginning until `drkit status` calls the pair protected and all is copied."""
    sent: int
    """By the new primary's broker in that time."""
    whole: int
    """The new primary's logs of these topics: what a copy from nothing would send."""
    steps: dict[str, float]
    wrong: int
    """Partitions whose ends differ by more than what each log has of its own (markers and tails)."""


def measure(folder: Path, tell: Tell) -> Iterator[ReturnRun]:
    """One return for each method, each on clusters of its own.

    :raises TimeoutError: the pair did not come into step
    :raises RuntimeError: a command was refused or failed
    """
    for method in METHODS:
        found = _Homecoming(method, folder / method, tell).run()
        tell(f"    {method}: {found}")
        yield found


class _Homecoming:
    def __init__(self, method: str, folder: Path, tell: Tell) -> None:
        self._method, self._folder, self._tell = method, folder, tell
        self._topics = [f"home-{i:02d}" for i in range(TOPICS)]
        self._chance = random.Random(17)
        folder.mkdir(parents=True, exist_ok=True)
        self._source, self._target = (
            LocalCluster(ClusterSpec(name), folder=folder / name) for name in ("source", "target")
        )

    def run(self) -> ReturnRun:
        try:
            start_together(self._source, self._target)
            return self._measured()
        finally:
            self._source.stop()
            self._target.stop()

    def _measured(self) -> ReturnRun:
        for topic in self._topics:
            Topics(self._source.bootstrap()).create(topic, PARTITIONS)
        self._tell(f"{self._method}: {TOPICS} topics × {PARTITIONS} partitions × {RECORDS} records")
        self._write(self._source, RECORDS)
        settings = _SETTINGS.format(journal=self._folder / "journal")
        flow = Flow(
            self._source.bootstrap(), self._target.bootstrap(), "home-.*", "", self._folder, settings=settings
        )
        with running(Drkit(), flow) as replicator:
            self._until_protected({_FORTH, "source<->target"}, self._target, replicator)
        tail = 0 if self._method == "delta" else TAIL
        self._write(self._source, tail)
        self._source.kill()
        self._done("failover", "--flow", _FORTH, "--all", "--yes")
        self._write(self._target, DELTA)
        self._source.restart()
        return self._returned(flow, tail)

    def _returned(self, flow: Flow, tail: int) -> ReturnRun:
        whole, before = _log_bytes(self._target, self._topics), _Sent(self._target)
        chosen = ["--method", f"*={self._method}", "--reason", "benchmark", "--clients-cut", _CUT]
        if tail:
            fate = "replay" if self._method == "keep" else "discard"
            chosen += ["--disposition", f"*={fate}", "--export-to", str(self._folder / "export")]
        began = time.monotonic()
        report = self._done("reprotect", "--flow", _FORTH, "--yes", *chosen)
        command = time.monotonic() - began
        with running(Drkit(), flow) as replicator:
            self._until_protected({_BACK}, self._source, replicator)
            took = time.monotonic() - began
            sent = before.since()
        steps = {k: round(v, 2) for k, v in report["seconds"].items() if k.isupper()}
        partitions = TOPICS * PARTITIONS
        return ReturnRun(
            self._method,
            partitions * (RECORDS + tail),
            partitions * tail,
            partitions * DELTA,
            round(command, 2),
            round(took, 2),
            sent,
            whole,
            steps,
            self._wrong(),
        )

    def _wrong(self) -> int:
        """What `drkit verify` counts as different on both sides."""
        found = self._command("verify", "--flow", _BACK)
        return int(found["differences_total"])

    def _write(self, cluster: LocalCluster, records: int) -> None:
        """Write this number of records to each partition."""
        queue = {"queue.buffering.max.messages": RECORDS * PARTITIONS}  # flushed by topic
        settings = {"log_level": 0, "linger.ms": 20, "batch.size": _BATCH_BYTES, **queue}
        out = Producer({"bootstrap.servers": cluster.bootstrap(), **settings})
        for topic in self._topics:
            for number in range(records * PARTITIONS):
                out.produce(topic, self._chance.randbytes(_BYTES), partition=number % PARTITIONS)
            out.flush(60)

    def _until_protected(self, directions: set[str], copy: LocalCluster, replicator: Running) -> None:
        """Protected is within the recovery point objective; here also everything is copied.

        `drkit status` reads a part of the records that wait to be copied: it is asked when the copy's logs
        have stopped growing, so that it adds little to what is counted as sent.
        """
        size, grew_at = _log_bytes(copy, self._topics), 0.0

        def is_at_rest() -> bool:
            nonlocal size, grew_at
            before, size = size, _log_bytes(copy, self._topics)
            if size > before:
                grew_at = time.monotonic()
            return bool(grew_at) and time.monotonic() - grew_at > _STILL_SECONDS

        until(
            is_at_rest,
            _PATIENCE,
            "the copy grows, and comes to rest",
            every=_LOOK_SECONDS,
            check=replicator.check,
        )

        def is_protected() -> bool:
            pair = self._command("status", "--flow", _FORTH)["flows"][0]["pair"] or {"state": "", "parts": []}
            parts = pair["parts"]
            is_whole = bool(parts) and {p["direction"] for p in parts} <= directions
            return pair["state"] == "protected" and is_whole and not any(p["lag_records"] for p in parts)

        wanted = f"PROTECTED, {sorted(directions)}, nothing left to copy"
        until(is_protected, _PATIENCE, wanted, every=_LOOK_SECONDS, check=replicator.check)

    def _done(self, *arguments: str) -> dict[str, Any]:
        report = self._command(*arguments)
        if report.get("state") != "done":
            raise RuntimeError(f"drkit {arguments[0]}: {str(report)[:1500]}")
        return report

    def _command(self, *arguments: str) -> dict[str, Any]:
        config = str(self._folder / "drkit.toml")
        command = [sys.executable, "-m", "drkit", *arguments, "--config", config, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        if not done.stdout.strip():
            raise RuntimeError(f"drkit {arguments[0]} ended with {done.returncode}: {done.stderr[-1500:]}")
        found: dict[str, Any] = json.loads(done.stdout)
        return found


class _Sent:
    """What a cluster's brokers have written anywhere but to their own folder."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._before = self._now()

    def since(self) -> int:
        return max(0, self._now() - self._before)

    def _now(self) -> int:
        """`wchar` counts what goes to files and to connections alike; what is in the logs is no traffic."""
        written = 0
        for broker in self._cluster.brokers:
            lines = Path(f"/proc/{broker.pid}/io").read_text().splitlines()
            written += int(dict(line.split(": ") for line in lines)["wchar"])
        return written - _folder_bytes(self._cluster.folder)


def _log_bytes(cluster: LocalCluster, topics: list[str]) -> int:
    return sum(
        file.stat().st_size
        for file in cluster.folder.rglob("*.log")
        if file.parent.name.rpartition("-")[0] in topics
    )


def _folder_bytes(folder: Path) -> int:
    """Bytes on the disk: index files are sparse."""
    return sum((Path(at) / name).stat().st_blocks * 512 for at, _, names in os.walk(folder) for name in names)
