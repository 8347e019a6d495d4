"""A lost primary, from its last breath to the first record that an application reads on the standby.

Real clusters, a real ``drkit replicate`` on Spark, three ``drkit watch`` with the default settings, of which
two must agree. All brokers of the primary are killed; the command that the first observer prints is typed at
once, and an application (:class:`drkit.client.FailoverConsumer`) waits at the end of its topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
import json
import os
from pathlib import Path
import random
import shlex
import subprocess
import sys
import threading
import time
from typing import Final

from confluent_kafka import Producer

from drkit.client import FailoverConsumer
from drkit.local.cluster import LocalCluster
from tests.bench import detection
from tests.bench.waiting import pause, until

GOAL_SECONDS: Final = 12.0
"""From the kill to the first record."""
COMMAND_GOAL_SECONDS: Final = 5.0
START_GOALS: Final = {"failover --help": 0.5, "dry run": 1.0, "start": 1.0}
"""Processor seconds of a command: its help; a dry run; all that comes before a broker answers."""
_TOPIC, _GROUP = "orders", "shop"
_RECORDS: Final = 60
_PATIENCE: Final = 180.0
_LOOK_SECONDS: Final = 0.005
_ANY_MOMENT: Final = (2.0, 4.0)
_NOWHERE: Final = "127.0.0.1:1"
_ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class LostPrimaryRun:
    """One loss; seconds."""

    lost: float
    """From the kill until the first observer says LOST."""
    begun: float
    """From then until the first entry of the journal: Python starts, both clusters are looked at."""
    steps: dict[str, float]
    repointed: float
    """From the first entry until the endpoint file leads to the standby."""
    read: float
    """From then until the application has its first record from the standby."""
    command: float
    """The whole command, VERIFY and report included."""
    total: float
    """From the kill to that record."""
    load: float
    """Of the machine, over the minute before."""
    commit: str


@dataclass(frozen=True, slots=True)
class StartUp:
    """What a command takes before it does anything."""

    command: str
    cpu_seconds: float
    seconds: float


def measure(rounds: int, tell: Callable[[str], None]) -> Iterator[LostPrimaryRun | StartUp]:
    """Lose primaries; each round has clusters of its own.

    :raises TimeoutError: a verdict, or a record, did not come
    """
    for number in range(rounds):
        with detection.scene(tell, extra=_extra) as (primary, standby, watchers):
            config = Path(watchers[0].config)
            if not number:
                for started in _starts(config):
                    tell(f"    {started.command}: {started.cpu_seconds:.2f} s of processor time")
                    yield started
            run = _round(primary, standby, watchers, config)
            tell(f"    kill to first record {run.total:.1f} s: {run}")
            yield run


def _extra(folder: Path) -> str:
    journal, endpoint = folder / "journal", folder / "endpoint.json"
    return (
        f"[failover]\njournal_folder = {json.dumps(str(journal))}\nverify_seconds = 0.1\n"
        f"repoint = [ {{ kind = 'file', path = {json.dumps(str(endpoint))} }} ]\n"
    )


class _Application:
    """A consumer that follows the endpoint file, and when it read what."""

    def __init__(self, endpoint: Path) -> None:
        self.got: list[tuple[float, str]] = []
        self._over = threading.Event()
        config = {"group.id": _GROUP, "auto.offset.reset": "earliest", "log_level": 0}
        self._consumer = FailoverConsumer(config, endpoint=str(endpoint))
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        self._consumer.subscribe([_TOPIC])
        while not self._over.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.got.append((time.monotonic(), (message.value() or b"").decode()))
        self._consumer.close()

    def stop(self) -> None:
        self._over.set()
        self._thread.join(30.0)

    def first(self, value: str) -> float | None:
        """When it read the first such record."""
        return next((at for at, text in list(self.got) if text.startswith(value)), None)


def _round(
    primary: LocalCluster, standby: LocalCluster, watchers: Sequence[detection.Watcher], config: Path
) -> LostPrimaryRun:
    endpoint = config.with_name("endpoint.json")
    _typed(f"drkit repoint apply --to primary --config {shlex.quote(str(config))}")
    with ExitStack() as stack:
        application = _Application(endpoint)
        stack.callback(application.stop)
        _write(primary, "before")
        until(lambda: len(application.got) >= _RECORDS, _PATIENCE, "the records of the primary")
        before = detection.beats(standby)
        until(lambda: detection.beats(standby) >= before + 15, _PATIENCE, "heartbeats")
        until(lambda: all(w.newest == "UP" for w in watchers), _PATIENCE, "UP")
        pause(random.uniform(*_ANY_MOMENT), "any moment between two heartbeats")
        load, killed = os.getloadavg()[0], time.monotonic()
        primary.kill()
        until(lambda: any(w.command for w in watchers), _PATIENCE, "a command to type")
        lost = time.monotonic()
        command = next(w.command for w in watchers if w.command)
        told: list[float] = []
        threading.Thread(target=_tell_when_it_leads, args=(endpoint, standby, told), daemon=True).start()
        report = _typed(f"{command} --yes --json")
        ended = time.monotonic()
        until(lambda: application.first("after") is not None, _PATIENCE, "a record on the standby")
        first = application.first("after") or 0.0
    found = json.loads(report)
    # The journal has the time of day.
    begun = found["timeline"][0]["at_ms"] / 1000 - time.time() + time.monotonic()
    return LostPrimaryRun(
        lost=round(lost - killed, 2), begun=round(begun - lost, 2),
        steps={k: round(v, 2) for k, v in found["seconds"].items() if k.isupper()},
        repointed=round(told[0] - begun, 2), read=round(first - told[0], 2),
        command=round(ended - lost, 2), total=round(first - killed, 2), load=round(load, 1),
        commit=_commit(),
    )  # fmt: skip


def _tell_when_it_leads(endpoint: Path, standby: LocalCluster, told: list[float]) -> None:
    """Note when the endpoint file leads to the standby; from then on a producer writes there."""
    until(
        lambda: json.loads(endpoint.read_text())["cluster"] == "standby", _PATIENCE,
        "an endpoint that leads to the standby", every=_LOOK_SECONDS,
    )  # fmt: skip
    told.append(time.monotonic())
    _write(standby, "after")


def _write(cluster: LocalCluster, value: str) -> None:
    out = Producer({"bootstrap.servers": cluster.bootstrap(), "log_level": 0, "linger.ms": 0})
    for i in range(_RECORDS):
        out.produce(_TOPIC, f"{value} {i}".encode(), partition=i % 3)
    out.flush(60)


def _starts(config: Path) -> Iterator[StartUp]:
    """Processor time of commands that change nothing."""
    nowhere = config.with_name("nowhere.toml")
    lines = config.read_text().splitlines()
    nowhere.write_text(
        "\n".join(f'bootstrap_servers = "{_NOWHERE}"' if x.startswith("bootstrap") else x for x in lines)
    )
    words: dict[str, Sequence[str]] = {
        "failover --help": ("--help",),
        "dry run": ("--all", "--dry-run", "--config", str(config)),
        "start": ("--all", "--dry-run", "--config", str(nowhere)),
    }
    for name, given in words.items():
        tried = [_cost(given) for _ in range(3)]
        cpu, seconds = sorted(tried)[1]
        yield StartUp(name, round(cpu, 2), round(seconds, 2))


def _cost(words: Sequence[str]) -> tuple[float, float]:
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "drkit", "failover", *words],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=_ROOT,
    )  # fmt: skip
    _, _, used = os.wait4(process.pid, 0)
    return used.ru_utime + used.ru_stime, time.monotonic() - began


def _typed(command: str) -> str:
    """Run a command that drkit printed. Raises RuntimeError."""
    done = subprocess.run(
        [sys.executable, "-m", *shlex.split(command)],
        capture_output=True, text=True, cwd=_ROOT, timeout=300, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{command} ended with {done.returncode}: {done.stderr[-1500:]}")
    return done.stdout


def _commit() -> str:
    asked = ["git", "rev-parse", "--short", "HEAD"]
    done = subprocess.run(asked, capture_output=True, text=True, cwd=_ROOT, check=False)
    return done.stdout.strip() or "unknown"


def main() -> int:
    """Measure once, and print it."""
    for found in measure(1, detection.tell):
        detection.tell(str(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
