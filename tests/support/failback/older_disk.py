"""A primary that died, comes back from an older disk and takes other records; its standby lost some, too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
import os
from pathlib import Path
import shutil
from typing import Any

from drkit.config import ClusterSettings
from drkit.failover.core.request import RunRequest
from drkit.failover.loss.divergence import divergence
from drkit.failover.loss.findings import Divergence, PartitionDivergence
from drkit.local.broker import LocalBroker
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from drkit.wire import Record
from tests.support.failover.world import World
from tests.support.flows.produce import fill, fill_transactions, producer, put
from tests.support.waiting import eventually

FIRST = 30
"""Records that every topic has on the older disk."""
LATER = 10
"""Records that some topics got, and had copied, after that."""
BIG, BIG_LATER = 3000, 1500
REGROWN = {"same": 10, "more": 15, "fewer": 4, "keys-regrown": 10}
"""Topic → other records that the old primary took when it was back."""
FAR = 1100
"""Records that were copied after those of another client."""
SHORT = 20
"""Records that are left of one copy."""
COMPACT = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
QUICK_CLEANER = {"log.cleaner.backoff.ms": "200"}
_KEYS = 10
_WHAT = (
    "clean", "tx", "diverged", "regressed", "recreated", "gone", "wider", "after", "between", "short",
    "elsewhere", "keys", "keys-there", "big", *REGROWN,
)  # fmt: skip
_CHANGED = ("regressed", *REGROWN)


@dataclass
class OlderDisk:
    """What there is to compare, and what was found."""

    world: World
    found: Divergence
    listed: list[tuple[TopicPartition, Record]]
    """The tails, record by record."""

    def tail(self, what: str, partition: int = 0) -> PartitionDivergence:
        """What was found of a topic's partition."""
        topic = self.world.name(what)
        [tail] = [t for t in self.found.tails if (t.topic, t.partition) == (topic, partition)]
        return tail

    def records(self, what: str) -> list[Record]:
        """The records that only the old primary has."""
        return [r for at, r in self.listed if at.topic == self.world.name(what)]

    @contextmanager
    def broken(self, cluster: LocalCluster, what: str, at: int) -> Iterator[None]:
        """Another byte on a broker's disk: brokers send what they read there.

        :param at: which byte of the topic's first segment; a negative one counts from its end
        """
        folder = _folder_of(cluster.brokers[0], self.world.name(what))
        file = folder / f"{0:020}.log"
        byte = file.read_bytes()[at]
        try:
            _overwrite(file, at, byte ^ 0xFF)
            yield
        finally:
            _overwrite(file, at, byte)


def told(world: World, primary: LocalCluster, standby: LocalCluster, folder: Path) -> OlderDisk:
    """Let all of it happen, then compare."""
    teller = _Teller(world, primary, standby, folder)
    teller.copy_twice()
    teller.fail_over()
    teller.come_back()
    teller.lose_on_the_standby()
    return looked(world)


def looked(world: World, **more: Any) -> OlderDisk:
    """Compare both sides."""
    listed: list[tuple[TopicPartition, Record]] = []
    with world.desk() as desk:
        take = lambda at, record: listed.append((at, record))  # noqa: E731
        found = divergence(desk.context_outside_run(), take, **more)
    return OlderDisk(world, found, listed)


class _Teller:
    def __init__(self, world: World, primary: LocalCluster, standby: LocalCluster, folder: Path) -> None:
        self._world, self._folder = world, folder
        self._primary, self._standby = primary.brokers[0], standby.brokers[0]
        self._topics = {what: world.name(what) for what in _WHAT}

    def copy_twice(self) -> None:
        """Everything is copied; the primary's disk is kept, some more is copied."""
        world, topics = self._world, self._topics
        for what, topic in topics.items():
            more = COMPACT if what.startswith("keys") else {"retention.ms": "-1"}
            world.create(world.source, topic, 1, more)
        fill_transactions(world.source, [topics["tx"]], 60, most=9)
        fill(world.source, topics["big"], BIG)
        fill(world.source, topics["short"], SHORT)
        for what in _WHAT:
            if what not in {"tx", "big", "short", "keys", "keys-there"}:
                fill(world.source, topics[what], FIRST)
        for what in ("keys", "keys-there"):
            self._fill_keys(world.source, what, FIRST)
        at = TopicPartition(topics["more"], 0)
        groups = {world.name("moved"): {at: 20}, world.name("older"): {at: 5}}
        for group, offsets in groups.items():
            world.commit(world.source, group, offsets)
        world.replicate()
        world.copied([*topics.values()], groups)
        shutil.copytree(self._dir(self._standby, "short"), self._folder / "short")
        fill(world.source, topics["short"], FIRST - SHORT, first=SHORT)
        self._stray("between", b"between")
        fill(world.source, topics["between"], FAR, first=FIRST)
        world.copied([topics["short"], topics["between"]])

        self._primary.freeze()
        shutil.copytree(self._data, self._folder / "older")
        self._primary.resume()
        for what in _CHANGED:
            fill(world.source, topics[what], LATER, first=FIRST)
        fill(world.source, topics["big"], BIG_LATER, first=BIG)
        world.copied([*topics.values()])
        world.stop_replicating()
        self._stray("after", b"after")

    def fail_over(self) -> None:
        """The primary dies; clients work on the standby."""
        world = self._world
        self._primary.kill()
        with world.desk() as desk:
            report = desk.begin((), RunRequest(accept_data_loss="for the test"))
        assert report["state"] == "done", report
        for what in ("clean", "same", "after"):
            fill(world.target, self._topics[what], LATER, first=500)
        self._closed_segment(world.target, "keys-there")

    def come_back(self) -> None:
        """The primary comes back from its older disk and takes other records."""
        world, topics = self._world, self._topics
        shutil.rmtree(self._data)
        shutil.move(self._folder / "older", self._data)
        self._primary.restart()
        eventually(lambda: world.offsets(world.source, topics["clean"])[0] == FIRST, what="the older disk")
        for what, number in REGROWN.items():
            fill(world.source, topics[what], number, first=1000, enable_idempotence=True)
        fill(world.source, topics["big"], BIG_LATER, first=10_000)
        fill(world.source, topics["diverged"], 5, first=1000, enable_idempotence=True)
        self._closed_segment(world.source, "keys")
        for what in ("recreated", "gone"):
            world.delete(world.source, topics[what])
        world.create(world.source, topics["recreated"], 1, {})
        fill(world.source, topics["recreated"], 3)
        world.grow(world.source, topics["wider"], 2)
        for what, number in (("late", 3), ("late-empty", 0)):
            world.create(world.source, world.name(what), 1, {})
            fill(world.source, world.name(what), number)
        more = TopicPartition(topics["more"], 0)
        world.commit(world.source, world.name("older"), {more: 7})
        world.commit(world.source, world.name("ahead"), {more: FIRST + 12})
        self._cleaned(world.source, "keys")
        self._cleaned(world.target, "keys-there")
        for cluster, what in ((world.source, "keys-there"), (world.target, "keys")):
            assert len(world.records(cluster, topics[what])[0]) == FIRST, "its only segment is not cleaned"

    def lose_on_the_standby(self) -> None:
        """The standby loses the last records of a copy, and a topic is recreated there."""
        world, topics = self._world, self._topics
        directory = self._dir(self._standby, "short")
        self._standby.kill()
        shutil.rmtree(directory)
        shutil.copytree(self._folder / "short", directory)
        self._standby.restart()
        eventually(lambda: world.offsets(world.target, topics["short"])[0] == SHORT, what="the shorter log")
        # Its end says nothing any more; its leader epochs do.
        fill(world.target, topics["short"], 2 * FIRST, first=700)
        world.delete(world.target, topics["elsewhere"])
        world.create(world.target, topics["elsewhere"], 1, {})

    def _stray(self, what: str, value: bytes) -> None:
        """Two records of another client on the passive side."""
        out = producer(self._world.target)
        for _ in range(2):
            put(out, self._topics[what], value, b"stray", partition=0)
        assert out.flush(30) == 0

    def _fill_keys(self, cluster: ClusterSettings, what: str, number: int) -> None:
        out = producer(cluster)
        for i in range(number):
            put(out, self._topics[what], b"%d of %d" % (i, number), b"%d" % (i % _KEYS))
        assert out.flush(30) == 0

    def _closed_segment(self, cluster: ClusterSettings, what: str) -> None:
        """Let the cleaner have all earlier records: it leaves the segment that is written to as it is."""
        self._world.configure(cluster, self._topics[what], "segment.ms", "1000")
        self._fill_keys(cluster, what, 5)

    def _cleaned(self, cluster: ClusterSettings, what: str) -> None:
        """Wait for the cleaner."""
        topic = self._topics[what]
        eventually(lambda: len(self._world.records(cluster, topic)[0]) < FIRST, 30, "the cleaner at work")

    @property
    def _data(self) -> Path:
        return self._primary.folder / "data"

    def _dir(self, broker: LocalBroker, what: str) -> Path:
        return _folder_of(broker, self._topics[what])


def _overwrite(file: Path, at: int, byte: int) -> None:
    with file.open("r+b") as log:
        log.seek(at, os.SEEK_END if at < 0 else os.SEEK_SET)
        log.write(bytes([byte]))


def _folder_of(broker: LocalBroker, topic: str) -> Path:
    """Where a broker has the topic's partition 0."""
    [found] = (broker.folder / "data").rglob(f"{topic}-0")
    return found
