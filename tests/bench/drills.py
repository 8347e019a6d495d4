"""A bubble beside production: how long it takes, and what it costs production's clients and its replicator.

A producer writes 5,000 records a second into the source, a reader follows on the target, and ``drkit drill
run`` runs bubbles. Each bubble is compared with the same number of seconds right before it, so that a machine
that becomes slower is no cost of the bubble.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
import json
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path
import subprocess
import sys
import time
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, Producer

from tests.bench.latency import FIRST_RECORD_SECONDS, STAMP, collect, consume, percentile
from tests.bench.peers.drkit import Drkit
from tests.bench.peers.replicator import Flow, Running, running
from tests.bench.scenarios import PACES, PARTITIONS, Pace
from tests.bench.topics import Topics
from tests.bench.waiting import pause, until

PACE: Final = PACES[-1]
GOAL_SECONDS: Final = 60.0
COST_GOAL: Final = 0.2
"""By which share latencies of production may grow."""
_WARM_UP_SECONDS: Final = 60.0
_QUIET_SECONDS: Final = 90.0
"""Without a bubble, before each; before the next one as long as the last one took, if that is longer."""
_LIMIT_SECONDS: Final = 900.0
_SETTINGS: Final = """\
[failover]
rpo_seconds = 3600
journal_folder = "{journal}"
"""
Tell = Callable[[str], None]


class Window(NamedTuple):
    """Production in one stretch of time; milliseconds."""

    records: int
    produce_p50: float
    produce_p99: float
    lag_p50: float
    """From the producer to a reader on the target."""
    lag_p99: float


@dataclass(frozen=True, slots=True)
class BubbleRun:
    """One bubble, and production with it and right before it."""

    round: int
    verdict: str
    reasons: str
    seconds: float
    """Of the whole command."""
    steps: dict[str, float]
    without: Window
    beside: Window


def measure(flow: Flow, rounds: int, tell: Tell, *, quick: bool) -> list[BubbleRun]:
    """Return the bubbles, in the order in which they were run.

    :param flow: between fresh clusters, without settings
    :raises TimeoutError: the pair was not protected, or a client did not answer
    :raises RuntimeError: a drill gave no report
    """
    folder = flow.folder
    folder.mkdir(parents=True, exist_ok=True)
    share = 1 / 3 if quick else 1.0
    quiet = share * _QUIET_SECONDS
    spans: list[tuple[float, float, float, dict[str, Any]]] = []
    Topics(flow.source).create(PACE.topic)
    flow = replace(flow, topic=PACE.topic, settings=_SETTINGS.format(journal=folder / "journal"))
    with running(Drkit(), flow) as replicator, _clients(flow, replicator) as clients:
        until(
            lambda: _is_protected(folder),
            FIRST_RECORD_SECONDS,
            "protected",
            every=1.0,
            check=replicator.check,
        )
        pause(share * _WARM_UP_SECONDS, "compilers have seen the work")
        for number in range(1, rounds + 1):
            pause(quiet, "production without a bubble")
            began = time.monotonic()
            report = _drkit(folder, "drill", "run", "--kind", "bubble")
            end = time.monotonic()
            spans.append((began - min(end - began, quiet), began, end, report))
            quiet = max(quiet, end - began)
            tell(f"    bubble {number}: {report['verdict']} in {end - began:.1f} s {report['reasons']}")
            replicator.check()
    acked, read = clients
    return [
        BubbleRun(
            round=number,
            verdict=report["verdict"],
            reasons="; ".join(report["reasons"]),
            seconds=end - began,
            steps={step["name"]: step["seconds"] for step in report["steps"]},
            without=window(acked, read, before, began),
            beside=window(acked, read, began, end),
        )
        for number, (before, began, end, report) in enumerate(spans, start=1)
    ]


def window(acked: array[int], read: array[int], began: float, end: float) -> Window:
    """Return the figures of what was sent in a stretch of time.

    :param acked: pairs of sending and acknowledgement, in nanoseconds; so is `read`
    :raises TimeoutError: nothing was
    """
    produce, lag = (
        sorted((at - sent) / 1e6 for sent, at in zip(pairs[::2], pairs[1::2], strict=True)
               if began * 1e9 <= sent < end * 1e9)
        for pairs in (acked, read)
    )  # fmt: skip
    if not produce or not lag:
        raise TimeoutError("production stood still in a whole window")
    middle, high = 0.50, 0.99
    return Window(len(produce), percentile(produce, middle), percentile(produce, high),
                  percentile(lag, middle), percentile(lag, high))  # fmt: skip


@contextmanager
def _clients(flow: Flow, replicator: Running) -> Iterator[tuple[array[int], array[int]]]:
    """Write and read as production does; what both saw is in the arrays at the end."""
    spawn = get_context("spawn")
    stop, flowing = spawn.Event(), spawn.Event()
    acked_end, read_end = spawn.Pipe(duplex=False), spawn.Pipe(duplex=False)
    acked, read = array("q"), array("q")
    processes = (
        spawn.Process(target=_produce, args=(flow.source, PACE, stop, acked_end[1]), daemon=True),
        spawn.Process(target=consume, args=(flow.target, PACE, stop, flowing, read_end[1]), daemon=True),
    )
    for process in processes:
        process.start()
    try:
        until(flowing.is_set, FIRST_RECORD_SECONDS, "a record on the target", check=replicator.check)
        yield acked, read
        pause(2.0, "stragglers of the last window")
    finally:
        stop.set()
    acked.extend(collect(acked_end[0]))
    read.extend(collect(read_end[0]))
    for process in processes:
        process.join(10.0)


def _produce(bootstrap: str, pace: Pace, stop: Event, result: Connection) -> None:
    """Child process: send at an even pace, note when each record was sent and acknowledged."""
    settings = {"bootstrap.servers": bootstrap, "log_level": 0, "acks": "all", "linger.ms": pace.linger_ms}
    producer = Producer(settings)
    padding = bytes(pace.record_bytes - STAMP.size)
    acked, interval, sent, start = array("q"), 1e9 / pace.per_second, 0, time.monotonic_ns()
    while not stop.is_set():
        while start + sent * interval <= time.monotonic_ns():
            stamp = time.monotonic_ns()
            producer.produce(
                pace.topic,
                STAMP.pack(stamp) + padding,
                partition=sent % PARTITIONS,
                on_delivery=partial(_note, acked, stamp),
            )
            sent += 1
            producer.poll(0)
        producer.poll(0.001)
    producer.flush(10.0)
    result.send_bytes(acked.tobytes())


def _note(acked: array[int], stamp: int, error: KafkaError | None, _message: object) -> None:
    if error is None:
        acked.extend((stamp, time.monotonic_ns()))


def _is_protected(folder: Path) -> bool:
    pair = _drkit(folder, "status")["flows"][0]["pair"]
    return bool(pair) and pair["state"] == "protected"


def _drkit(folder: Path, *arguments: str) -> dict[str, Any]:
    """Return what a command answers.

    :raises RuntimeError: it has no answer
    """
    command = [sys.executable, "-m", "drkit", *arguments, "--config", str(folder / "drkit.toml"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_SECONDS, check=False)
    if not done.stdout.strip():
        raise RuntimeError(f"drkit {arguments[0]} ended with {done.returncode}: {done.stderr[-1500:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found
