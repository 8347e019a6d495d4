"""What all acts share: two clusters, the shop, the replicator, the observer, and their cleanup."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
import json
from pathlib import Path
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from types import FrameType, TracebackType
from typing import Any, NamedTuple, NoReturn, Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from drkit.clock import wall_ms
from drkit.config import Settings, load
from drkit.demo.accounting import Payments
from drkit.demo.proof import Content
from drkit.demo.replicator import ReplicatorProcess, environment
from drkit.demo.screen import Scene, Screen
from drkit.demo.shop import ORDERS, PAYMENTS, Shop
from drkit.errors import Failed, Refused, raise_first
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import TopicPlan, create_topics
from drkit.local.cluster import LocalCluster, start_together
from drkit.local.pair import LocalPair, default_folder
from drkit.local.spec import ClusterSpec

EPOCH_SECONDS = 4
_FLOW = """\
[[flows]]
source = "{source}"
target = "{target}"
topics = ["orders", "payments"]
# Short ones, so that the story sees several.
epoch_seconds = {epoch_seconds}
refresh_topics_interval_seconds = 2
checkpoint_interval_seconds = 1
sync_group_offsets_interval_seconds = 1
"""
_THERE = """\
[clusters.primary]
bootstrap_servers = "{primary}"

[clusters.standby]
bootstrap_servers = "{standby}"

{flow}
[failover]
rpo_seconds = 60
# The group starts afterwards.
verify_seconds = 0.5
journal_folder = "{journal}"
repoint = [{{ kind = "file", path = "{endpoint}" }}]
"""


def there(addresses: Mapping[str, str], *, journal: Path, endpoint: Path) -> str:
    """The configuration that the demo begins with.

    :param addresses: where clients find `primary` and `standby`
    """
    return _THERE.format(**addresses, flow=_flow("primary", "standby"), journal=journal, endpoint=endpoint)


def back() -> str:
    """Return the reverse flow's table: that flow begins by itself after a planned switchover."""
    return "\n" + _flow("standby", "primary")


def _flow(source: str, target: str) -> str:
    return _FLOW.format(source=source, target=target, epoch_seconds=EPOCH_SECONDS)


_OBSERVER_LOOK_SECONDS = 0.2
_PIECE = 2000
_POLL_SECONDS = 0.005
_RATE_SECONDS = 1.0


class Latency(NamedTuple):
    """From an order's creation until a consumer of the standby has it, in milliseconds."""

    p50: float
    p99: float
    worst: float
    longest_gap: float
    """The longest time in which no order arrived."""
    orders: int


class StandbyObserver:
    """Reads all topics of the standby in a thread of its own, from their first records on."""

    def __init__(self, bootstrap: str, topics: dict[str, int]) -> None:
        self.records = 0
        self.newest_ms = 0
        """Creation time of the newest order seen here."""
        self._topics = dict(topics)
        self._arrivals = array("d")
        self._delays = array("d")
        self._pace: list[tuple[float, int]] = []
        self._closed = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "demo-observer",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 20,
                "fetch.queue.backoff.ms": 2,
                "topic.metadata.refresh.interval.ms": 1000,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop reading."""
        self._closed.set()
        self._thread.join()

    @property
    def rate(self) -> float:
        """Records per second, over the last second."""
        now = time.monotonic()
        recent = [p for p in self._pace[-400:] if now - p[0] <= _RATE_SECONDS]
        return (self.records - recent[0][1]) / (now - recent[0][0]) if len(recent) > 1 else 0.0

    def fastest(self, since: float) -> float:
        """The most records per second over any second after a moment (:func:`time.monotonic`)."""
        pace = [p for p in self._pace if p[0] >= since]
        best = 0.0
        start = 0
        for moment, records in pace:
            while moment - pace[start][0] > _RATE_SECONDS:
                start += 1
            if moment - pace[start][0] > _RATE_SECONDS / 2:
                best = max(best, (records - pace[start][1]) / (moment - pace[start][0]))
        return best

    def latency(self, since: float, until: float) -> Latency | None:
        """Return the latency of orders that arrived between two moments (:func:`time.monotonic`)."""
        lo, hi = bisect_left(self._arrivals, since), bisect_left(self._arrivals, until)
        if hi - lo < 2:  # noqa: PLR2004  no gap without two
            return None
        delays = sorted(self._delays[lo:hi])
        gaps = max(
            b - a for a, b in zip(self._arrivals[lo : hi - 1], self._arrivals[lo + 1 : hi], strict=True)
        )
        count = len(delays)
        return Latency(delays[count // 2], delays[count * 99 // 100], delays[-1], gaps * 1000, count)

    def recent_delay(self) -> float | None:
        """Median delay of the newest orders, in milliseconds."""
        newest = sorted(self._delays[-200:])
        return newest[len(newest) // 2] if newest else None

    def _run(self) -> None:
        try:
            self._find_topics()
            while not self._closed.is_set():
                self._take(self._consumer.consume(_PIECE, _POLL_SECONDS))
        finally:
            self._consumer.close()

    def _find_topics(self) -> None:
        """Topics appear on the standby when drkit creates them."""
        missing = dict(self._topics)
        while missing and not self._closed.wait(_OBSERVER_LOOK_SECONDS):
            there = self._consumer.list_topics(timeout=10).topics
            for name in [
                n for n, count in missing.items() if n in there and len(there[n].partitions) >= count
            ]:
                count = missing.pop(name)
                parts = [TopicPartition(name, p, OFFSET_BEGINNING) for p in range(count)]
                self._consumer.incremental_assign(parts)

    def _take(self, messages: list[Any]) -> None:
        if not messages:
            return
        now, now_ms = time.monotonic(), wall_ms()
        for message in messages:
            if message.error() is not None:
                continue
            self.records += 1
            if message.topic() == ORDERS:
                created = message.timestamp()[1]
                self.newest_ms = max(self.newest_ms, created)
                self._arrivals.append(now)
                self._delays.append(now_ms - created)
        self._pace.append((now, self.records))


TOPICS = {ORDERS: 6, PAYMENTS: 2}
"""Partitions by topic."""
_LOOK_SECONDS = 0.1
_REMOVE_SECONDS = 5.0
_STATUS_SECONDS = 2.0


@dataclass
class Stage:
    """A context manager: whatever was started is stopped, whatever was written is removed.

    :param keep: leave the clusters running; they become the pair of ``drkit local``
    """

    screen: Screen
    rate: int
    """Orders per second, while the shop is open."""
    keep: bool = False
    keep_config: Path = Path("drkit.toml")
    report_folder: Path = Path("drkit-drill")
    """For the report of a drill; it stays."""
    measured: dict[str, Any] = field(default_factory=dict)
    """Filled by the acts; plain data."""
    read_on_primary: Payments = field(default_factory=dict, init=False)
    """What the group got before it moved."""
    on_either_side: Counter[Content] = field(default_factory=Counter, init=False)
    """The committed records that either cluster had before the failback."""
    folder: Path = field(init=False)
    _ending: ExitStack = field(default_factory=ExitStack, init=False)
    _asked: float = field(default=0.0, init=False)
    _addresses: dict[str, str] = field(default_factory=dict, init=False)
    _primary: LocalCluster | None = field(default=None, init=False)
    _shop: Shop | None = field(default=None, init=False)
    _observer: StandbyObserver | None = field(default=None, init=False)
    _replicator: ReplicatorProcess | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="drkit-demo-"))
        self._ending.callback(_remove, self.folder)
        if threading.current_thread() is threading.main_thread():
            before = signal.signal(signal.SIGTERM, _leave)
            self._ending.callback(signal.signal, signal.SIGTERM, before)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A second Ctrl-C must not leave a part of it running.
        before = _ignore_interrupts()
        try:
            if self._replicator is not None:
                self._replicator.stop()
            for part in (self._shop, self._observer):
                if part is not None:
                    # The first error says more than errors of the cleanup.
                    with suppress(Failed):
                        part.close()
            if error is not None and self.keep:
                LocalPair(default_folder()).down()
            self._ending.close()
        finally:
            if before is not None:
                signal.signal(signal.SIGINT, before)

    def start_clusters(self) -> None:
        """Two clusters of one broker each, with the shop's topics on the primary.

        :raises Refused: with `keep`, when a local pair runs already
        """
        self._addresses = self._start_pair() if self.keep else self._start_own()
        text = there(self._addresses, journal=self.folder / "journal", endpoint=self.endpoint)
        self.config.write_text(text, encoding="utf-8")
        primary = Cluster.connect(self.settings.cluster("primary"))
        lz4 = {"compression.type": "lz4"}
        raise_first(create_topics(primary, [TopicPlan(n, p, 1, lz4) for n, p in TOPICS.items()]))

    def _start_own(self) -> dict[str, str]:
        clusters = [
            LocalCluster(ClusterSpec(name), folder=self.folder / name, progress=self.screen.say)
            for name in ("primary", "standby")
        ]
        start_together(*clusters)
        for cluster in clusters:
            self._ending.callback(cluster.stop)
        self._primary = clusters[0]
        return {c.spec.name: c.bootstrap() for c in clusters}

    def _start_pair(self) -> dict[str, str]:
        pair = LocalPair(default_folder())
        if pair.status()["state"] != "down":
            raise Refused("demo_pair_runs", where=str(pair.folder))
        up = pair.up(self.keep_config, progress=self.screen.say)
        return {b["cluster"]: b["bootstrap"] for b in up["brokers"]}

    def kill_primary(self) -> None:
        """SIGKILL all of its brokers; it stays dead.

        :raises Failed: with `keep`: the pair is to be played with
        """
        if self._primary is None:
            raise Failed("demo_kept_primary", where="drkit demo --keep")
        self._primary.kill()

    def restart_primary(self) -> None:
        """Start the killed brokers again, with their data."""
        if self._primary is not None:
            self._primary.restart()

    @property
    def export(self) -> Path:
        """Where the records that only the old primary has are exported to."""
        return self.folder / "export"

    @property
    def endpoint(self) -> Path:
        """The endpoint file of clients, which exists from the first failover on."""
        return self.folder / "endpoint.json"

    @property
    def config(self) -> Path:
        """The configuration that the demo's own commands use."""
        return self.folder / "drkit.toml"

    def add_way_back(self) -> None:
        """Add the flow in the other direction to the configuration."""
        with self.config.open("a", encoding="utf-8") as file:
            file.write(back())

    def protects(self, flow: str) -> bool:
        """Whether `drkit status` calls the pair protected in this direction; it is not asked all the time."""
        if time.monotonic() < self._asked + _STATUS_SECONDS:
            return False
        found = self.ask("status", "--flow", flow)
        self._asked = time.monotonic()
        pair: dict[str, Any] = found["flows"][0]["pair"] or {"state": "unknown", "parts": []}
        return pair["state"] == "protected" and {p["direction"] for p in pair["parts"]} == {flow}

    @property
    def settings(self) -> Settings:
        """That configuration, read."""
        return load(self.config)

    def bootstrap(self, cluster: str) -> str:
        """Where clients find one of the clusters."""
        return self._addresses[cluster]

    def ask(self, *arguments: str) -> Any:
        """Run a command as a user would and return its answer. Raises Failed if it has none."""
        command = [sys.executable, "-m", "drkit", *arguments, "--json", "--config", str(self.config)]
        done = subprocess.run(  # noqa: S603  our own program
            command, capture_output=True, text=True, check=False, env=environment(self.folder)
        )
        if not done.stdout.strip():
            raise Failed("demo_no_answer", where=" ".join(command[1:]), evidence=done.stderr[-1500:])
        return json.loads(done.stdout)

    @property
    def shop(self) -> Shop:
        """Writes to the primary."""
        if self._shop is None:
            self._shop = Shop(self._addresses["primary"])
        return self._shop

    @property
    def observer(self) -> StandbyObserver:
        """Reads from the standby."""
        if self._observer is None:
            self._observer = StandbyObserver(self._addresses["standby"], TOPICS)
        return self._observer

    @property
    def replicator(self) -> ReplicatorProcess:
        """`drkit replicate`."""
        if self._replicator is None:
            self._replicator = ReplicatorProcess(self.config, self.folder)
        return self._replicator

    def watch(self, seconds: float, note: str, until: Any = None, *, alive: bool = True) -> float:
        """Show the live picture for some seconds, or until something is true; returns how long it took.

        :param until: a function; with it, `seconds` is the longest wait
        :param alive: the replicator is expected to run
        :raises Failed: it did not become true, or the replicator ended by itself
        """
        begun = time.monotonic()
        with self.screen.live():
            while (passed := time.monotonic() - begun) < seconds:
                if until is not None and until():
                    return passed
                if alive and not self.replicator.running:
                    raise self.replicator.failed()
                self.screen.show(self._scene(note))
                time.sleep(_LOOK_SECONDS)
        if until is not None:
            raise self._too_late(note, seconds)
        return seconds

    def _scene(self, note: str) -> Scene:
        shop, observer = self.shop, self.observer
        written, arrived = shop.records, observer.records
        alive = self.replicator.running
        behind = observer.recent_delay() if alive else None
        if observer.newest_ms and (not alive or written - arrived > observer.rate + 1000):
            behind = float(wall_ms() - observer.newest_ms)
        return Scene(written, arrived, behind, observer.rate, alive, note)

    def _too_late(self, note: str, seconds: float) -> Failed:
        log = self.replicator.log
        text = log.read_text(errors="replace")[-1500:] if log.exists() else ""
        return Failed(
            "demo_waited_in_vain", evidence=f"{self._scene('').line()}\n{text}", seconds=seconds, note=note
        )


def _remove(folder: Path) -> None:
    """Remove a folder into which the last of our programs may still be writing as it ends."""
    deadline = time.monotonic() + _REMOVE_SECONDS
    while folder.exists():
        shutil.rmtree(folder, ignore_errors=time.monotonic() < deadline)
        time.sleep(_LOOK_SECONDS)


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def _ignore_interrupts() -> Any:
    if threading.current_thread() is not threading.main_thread():
        return None
    return signal.signal(signal.SIGINT, signal.SIG_IGN)
