"""Tails of odd records, and a new primary whose broker restarts while a tail is appended to it."""

from __future__ import annotations

from collections.abc import Iterator
import os
from pathlib import Path
import threading
import time
from typing import Any

import pytest

from drkit.config import ClusterSettings
from drkit.errors import DrkitError
from drkit.failover.core.context import StepProgress
from drkit.failover.core.request import RunRequest
from drkit.journal.machine import StepName
from drkit.local.cluster import LocalCluster
from drkit.replay import tail as tails
from drkit.replay.compare import HEADER
from tests.support.failback.pair import Pair
from tests.support.failback.tail import Case, DeadPrimary, Write
from tests.support.failover.truth import values
from tests.support.flows.compare import Seen
from tests.support.flows.produce import fill, now_ms, producer, put
from tests.support.shared_clusters import ModuleClusters

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1200)]
ANY_TIME = {"message.timestamp.after.max.ms": str((1 << 63) - 1)}
YEAR_MS = 365 * 86_400_000
PIECE = 10
"""Records in one transaction of a replay."""
RESTARTS, APART_SECONDS = 3, 8.0
AWAY_SECONDS = 0.7
TRIES = 6


def at_times(delta_ms: int) -> Write:
    def write(cluster: ClusterSettings, topic: str) -> None:
        fill(cluster, topic, 20, first=1000, timestamp=lambda _: now_ms() + delta_ms)

    return write


def odd(cluster: ClusterSettings, topic: str) -> None:
    """Empty and missing keys and values, headers with empty names, records as large as a topic takes."""
    out = producer(cluster, compression_type="none", message_max_bytes=1_900_000)
    large = os.urandom(1_048_400)
    pairs = [
        (b"", b""),
        (None, b""),
        (b"", None),
        (None, None),
        (b"k", None),
        (b"k", b"v"),
        (b"large", large),
    ]
    headers: list[list[tuple[str, bytes | None]]] = [
        [],
        [("a", b""), ("a", None), ("a", b"1")],
        [("", b"x")],
        [("", b""), ("", None)],
        [("drkit.x", b"1")],
    ]
    for number, (key, value) in enumerate(pairs):
        for some in headers:
            put(out, topic, value, key, headers=some, partition=number % 2)
    assert out.flush(60) == 0


CASES = {
    "own": Case("replay", settings={"message.timestamp.type": "LogAppendTime"}),
    "future": Case("replay", settings=ANY_TIME, write=at_times(YEAR_MS)),
    "later": Case("quarantine", settings=ANY_TIME, write=at_times(YEAR_MS)),
    "past": Case("replay", write=at_times(-40 * YEAR_MS)),
    "odd": Case("replay", settings={"max.message.bytes": "3000000"}, write=odd),
    "aside": Case("quarantine", write=odd),
}


@pytest.fixture
def clusters(module_cluster: ModuleClusters) -> tuple[LocalCluster, LocalCluster]:
    return module_cluster("primary"), module_cluster("standby")


class Homes:
    def __init__(self, clusters: tuple[LocalCluster, LocalCluster], folder: Path) -> None:
        self._clusters, self._folder, self._made = clusters, folder, list[DeadPrimary]()

    def __call__(self, cases: dict[str, Case]) -> DeadPrimary:
        pair = Pair(*self._clusters, self._folder / "journal")
        home = DeadPrimary(pair, self._clusters[0], cases)
        self._made.append(home)
        home.die()
        return home

    def close(self) -> None:
        for home in self._made:
            home.close()


@pytest.fixture
def homes(clusters: tuple[LocalCluster, LocalCluster], tmp_path: Path) -> Iterator[Homes]:
    found = Homes(clusters, tmp_path)
    yield found
    found.close()


@pytest.mark.parametrize("how", ["parquet", "jsonl"])
def test_odd_records_are_exported_and_appended_as_they_are(homes: Homes, tmp_path: Path, how: str) -> None:
    home = homes(CASES)
    with home.side.desk() as desk:
        report = desk.begin_return(home.request(tmp_path / "saved", export_format=how))
    assert report["state"] == "done"
    exported = home.side.run_log().results[StepName.EXPORT]["evidence"]
    home.manifest_is_the_truth(exported["manifest"], exported["sha256"])
    home.turned()
    home.copied_back()
    home.nothing_is_lost()
    assert home.same_on_both() > 200
    for topic, case in home.cases.items():
        name = topic if case.disposition == "replay" else f"{topic}.divergent.{home.term}"
        times = "LogAppendTime" not in case.settings.values()
        for partition, lost in home.tails[topic].items():
            seen = replayed(home.side.records(home.side.target, name)[partition])
            assert [plain(s, times=times) for s in seen] == [plain(s, times=times) for s in lost], topic


def test_the_broker_of_the_new_primary_restarts_while_a_tail_is_appended(
    homes: Homes, clusters: tuple[LocalCluster, LocalCluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each record is appended once, whether the return outlives the restart or is resumed."""
    monkeypatch.setattr(tails, "_PIECE_RECORDS", PIECE)
    home = homes(
        {
            "again": Case("replay", tail=400),
            "tx": Case("replay", tail=300, transactions=True),
            "aside": Case("quarantine", tail=200),
        }
    )
    restarted: list[float] = []

    def restart() -> None:
        broker = clusters[1].brokers[0]
        broker.kill()
        threading.Event().wait(AWAY_SECONDS)
        broker.restart()

    def tell(progress: StepProgress) -> None:
        appends = progress.step is StepName.REPLAY and "appended" in progress.what
        due = not restarted or time.monotonic() - restarted[-1] > APART_SECONDS
        if appends and due and len(restarted) < RESTARTS:
            restarted.append(time.monotonic())
            threading.Thread(target=restart).start()

    report, tries = None, 0
    while report is None and tries < TRIES:
        try:
            with home.side.desk(tell=tell) as desk:
                request = home.request(tmp_path / "saved")
                report = desk.resume(RunRequest()) if tries else desk.begin_return(request)
        except DrkitError:
            tries += 1
    assert report is not None
    assert report["state"] == "done"
    assert restarted
    home.turned()
    home.copied_back()
    home.nothing_is_lost()
    assert home.same_on_both() > 200
    home.positions_are_right()
    for topic in home.topics:
        if home.cases[topic].disposition == "replay":
            for partition, log in home.side.records(home.side.target, topic).items():
                assert values(replayed(log)) == values(home.tails[topic].get(partition, [])), topic


def replayed(log: list[Seen]) -> list[Seen]:
    """Records with the header of a replay."""
    return [s for s in log if any(name.encode() == HEADER for name, _ in s.headers)]


def plain(seen: Seen, *, times: bool) -> tuple[Any, ...]:
    """A record without the header of a replay."""
    headers = tuple(h for h in seen.headers if h[0].encode() != HEADER)
    return seen.key, seen.value, headers, seen.timestamp if times else 0
