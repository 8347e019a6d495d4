"""Planned switchovers there and back under load, and what holds after each of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
import random
import time
from typing import Any

from drkit.errors import Refused
from drkit.flow_state.copied_topics import known_of
from drkit.flow_state.records import RoleRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.requests import EARLIEST
from drkit.model import TopicPartition
from drkit.offset_map.places import PositionReader
from drkit.offsets.translation import PartitionPosition
from drkit.repoint import endpoint_of
from drkit.repoint.file import EndpointFile
from tests.support.failback.pair import CUT, Pair, Side
from tests.support.failover.followers import Reader, Transactor, Writer
from tests.support.failover.truth import values
from tests.support.flows.compare import Seen
from tests.support.flows.exactness import exact_both_ways
from tests.support.flows.produce import aged, fill
from tests.support.waiting import eventually

PARTITIONS = 3
OLD_MS = 2 * 86_400_000
_STEPS = 7
"""Records that a lagging group reads between two turns."""
Log = dict[int, list[Seen]]
Give = Callable[[list[str]], None]
"""Gives the applications their rights on these topics."""


class Standing:
    """Groups without members: how many records of each partition they have read, whatever their offsets."""

    def __init__(self) -> None:
        self.read: dict[str, dict[TopicPartition, int]] = {}

    def put(self, side: Side, group: str, read: dict[TopicPartition, int]) -> None:
        """Commit on the primary of a direction where a group has read this number of records."""
        logs = {topic: side.records(side.source, topic) for topic in {at.topic for at in read}}
        offsets = {at: _offset(logs[at.topic][at.partition], n) for at, n in read.items()}
        side.commit(side.source, group, offsets)
        self.read[group] = read

    def check(self, side: Side, log: dict[str, Log]) -> int:
        """Compare what each group would read next on the standby of a direction; returns their number."""
        number = 0
        for group, wanted in self.read.items():
            stands = side.all_committed(group)
            for at, read in wanted.items():
                assert at in stands, f"{group} {at} has no position"
                records = log[at.topic][at.partition]
                found = sum(s.offset < stands[at] for s in records)
                assert found == read, f"{group} {at} at {stands[at]}: {found} records, it had read {read}"
                number += 1
        return number


def _offset(records: list[Seen], read: int) -> int:
    return records[read - 1].offset + 1 if read else 0


class Rounds:
    """A pair with a load that follows, and groups of every kind.

    :param tick: seconds between two writes of an application
    :param client: settings of the applications' clients, Kafka's names with underscores
    """

    def __init__(
        self,
        pair: Pair,
        folder: Path,
        *,
        groups: int,
        cut: str = CUT,
        give: Give = lambda _: None,
        tick: float = 0.01,
        **client: Any,
    ) -> None:
        self.cut = cut
        self.pair, self._chance = pair, random.Random(7)
        self.standing, self.turns, self.places = Standing(), 0, 0
        side = pair.now
        self.orders, self.old, self.keys = (side.name(n) for n in ("orders", "old", "keys"))
        self.topics = [self.orders, self.old, self.keys]
        for topic, more in ((self.orders, {}), (self.old, {}), (self.keys, {"cleanup.policy": "compact"})):
            side.create(side.source, topic, PARTITIONS, {"retention.ms": "-1", **more})
            fill(side.source, topic, 150, timestamp=aged(OLD_MS) if topic == self.old else None)
        give(self.topics)
        self.file = folder / "endpoint.json"
        cluster_id = Cluster.connect(side.source).cluster_id
        EndpointFile(self.file).tell(endpoint_of(side.source, term=0, cluster_id=cluster_id))
        for each in (pair.now, pair.other):
            fence = {"transaction_wait_seconds": 0.5, **each.failover_fields.get("fence", {})}
            each.failover_fields |= {
                "repoint": [{"kind": "file", "path": str(self.file)}], "drain_seconds": 30.0, "fence": fence,
            }  # fmt: skip
        for number in range(groups):
            self._group(f"idle{number}")
        self.lagging = [side.name(f"lags{number}") for number in range(max(1, groups // 4))]
        for group in self.lagging:
            self.standing.put(side, group, {TopicPartition(self.orders, p): 0 for p in range(PARTITIONS)})
        self.writers = [
            Writer("plain", self.orders, self.file, **client),
            Writer("idempotent", self.orders, self.file, enable_idempotence=True, **client),
            Writer("keys", self.keys, self.file, **client),
        ]
        self.transactor = Transactor("tx", self.orders, self.file, **client)
        for application in (*self.writers, self.transactor):
            application.tick = tick
        self.reader = Reader(side.name("works"), self.orders, self.file, **client)

    def _group(self, name: str) -> None:
        """Add a group with a random position in one topic."""
        side, topic = self.pair.now, self._chance.choice(self.topics)
        log = side.records(side.source, topic)
        read = {TopicPartition(topic, p): self._chance.randint(0, len(s)) for p, s in log.items()}
        self.standing.put(side, side.name(name), read)

    def turn(self) -> None:
        """One switchover under load, checked; then the other direction begins."""
        side, number = self.pair.now, self.turns
        fill(side.source, self.old, 20, first=1000 + 100 * number, timestamp=aged(OLD_MS))
        self._group(f"new{number}")
        for group in self.lagging:
            read = {at: n + self._chance.randint(0, _STEPS) for at, n in self.standing.read[group].items()}
            self.standing.put(side, group, read)
        side.replicate()
        eventually(
            lambda: all(map(side._synced, self.standing.read)), 60, lambda: f"positions: {side.said()}"
        )
        before = [len(w.acked) for w in self.writers]
        report = self.pair.switch()
        assert report["state"] == "done", report
        assert report["loss"]["records"] == 0
        eventually(
            lambda: all(len(w.acked) > n + 30 for w, n in zip(self.writers, before, strict=True)),
            30, lambda: f"writers at work: {[w.trouble for w in self.writers]}",
        )  # fmt: skip
        log = self._exact(side)
        self.places += self.standing.check(side, log)
        self._return(side)
        self.turns += 1

    def _return(self, side: Side) -> None:
        """Make the old primary the standby; where its report says so, restart its brokers."""
        deadline = time.monotonic() + 30
        while True:
            try:
                report = self.pair.reprotect(self.cut)
                break
            except Refused:  # the last consumers are leaving
                assert time.monotonic() < deadline
        assert report["state"] == "done", report
        if any("restart broker" in line for line in report["next"]):
            old = side.brokers[0]
            old.kill()
            old.restart()

    def _exact(self, side: Side) -> dict[str, Log]:
        """Compare every offset before the cut; returns the standby's log up to it."""
        with StateTopic(side.target, side.source.alias) as state:
            state.load()
            known, roles = known_of(state.records), state.all(RoleRecord)
        found = {}
        for topic in self.topics:
            pairs = [known.pair(topic, p) for p in range(PARTITIONS)]
            places = side.ask(
                side.target,
                lambda raw: PositionReader(raw, side.source.alias).look(pairs, known.producers, None),  # noqa: B023
            )
            theirs, ours = side.records(side.source, topic), side.records(side.target, topic)
            starts = side.offsets(side.source, topic, EARLIEST)
            cuts = roles[topic].ends or {}
            found[topic] = {p: [s for s in r if s.offset < (cuts[p] or 0)] for p, r in ours.items()}
            for at, place in places.items():
                assert isinstance(place, PartitionPosition), f"{at}: {place}"
                p, cut = at.partition, cuts[at.partition]
                assert cut is not None
                copy, log = values(found[topic][p]), values(theirs[p])
                both = enumerate(zip(copy, log, strict=False))
                same = next((i for i, (a, b) in both if a != b), min(len(copy), len(log)))
                assert copy == log, (
                    f"{at}: turn {self.turns}, {len(log)} records, {len(copy)} copied, equal up to {same}:"
                    f" {found[topic][p][same:][:3]} for {theirs[p][same:][:3]}; cut {cut}, {place}"
                )
                before = replace(place, end=cut)
                self.places += exact_both_ways(before, theirs[p], found[topic][p], starts[p], str(at))
        return found

    def balance(self) -> dict[str, Any]:
        """Stop the load; what was acknowledged against what is on both sides."""
        for each in (*self.writers, self.transactor):
            each.finish()
        side = self.pair.now
        side.replicate()
        side.copied(self.topics, self.standing.read)
        self.places += side.exact(self.topics)
        log = {t: side.records(side.target, t) for t in self.topics}
        self.places += self.standing.check(side, log)
        acked = Counter(v for w in self.writers for v in w.acked) + Counter(self.transactor.committed)
        there = Counter(v for t in (self.orders, self.keys) for r in log[t].values() for v in values(r))
        names = tuple(f"{name} ".encode() for name in (*(w.name for w in self.writers), self.transactor.name))
        there = Counter({v: n for v, n in there.items() if v.startswith(names)})
        orders = sum(map(len, log[self.orders].values()))
        eventually(lambda: len(self.reader.processed) >= orders, 30, "the reader at the end")
        read = Counter(self.reader.processed)
        return {
            "lost": sum((acked - there).values()),
            "repeated": sum((there - acked).values()),
            "skipped": sum(
                (Counter(v for r in log[self.orders].values() for v in values(r)) - read).values()
            ),
            "read twice": sum(read.values()) - orders,
            "acknowledged": sum(acked.values()),
            "places": self.places,
        }

    def run(self, turns: int) -> dict[str, Any]:
        """Switch over several times under load; returns the balance."""
        with ExitStack() as stack:
            for each in (*self.writers, self.transactor, self.reader):
                stack.enter_context(each)
            for _ in range(turns):
                self.turn()
            found = self.balance()
        trouble = [t for each in (*self.writers, self.transactor, self.reader) for t in each.trouble]
        assert not trouble
        assert not [e for w in self.writers for e in w.failed]
        return found


def is_whole(found: dict[str, int], turns: int) -> None:
    """Check a balance: nothing lost, repeated or skipped, of enough records and positions."""
    assert {k: found[k] for k in ("lost", "repeated", "skipped", "read twice")} == dict.fromkeys(
        ("lost", "repeated", "skipped", "read twice"), 0
    ), found
    assert found["acknowledged"] > 250 * turns
    assert found["places"] > 1000 * turns
