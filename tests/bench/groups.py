"""Checkpoint rounds of many groups, and how long a committed offset takes to reach the target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
import random
import threading
import time
from types import TracebackType
from typing import Any, Final, Self

from drkit.config import ClusterSettings
from drkit.errors import DrkitError
from drkit.flow_state.records import CheckpointsRecord
from drkit.flow_state.topic import StateTopic
from drkit.model import TopicPartition
from tests.bench.clocks import Clocks, Sample, foreign_share
from tests.bench.latency import percentile
from tests.bench.peers.replicator import Running
from tests.bench.positions import GROUP_PARTITIONS, GROUP_TOPIC, Commits, GroupOffsets, Truth
from tests.bench.waiting import moments, pause

ROUND_SECONDS: Final = 12.0
"""Between two measured rounds: time enough to move every group on the source."""
INTERVAL_SECONDS: Final = 5.0
"""drkit's default, at which the delay is measured."""
COMMITS_PER_SECOND: Final = 40
AT_REST: Final = 0.1
"""A round that looked at no more than this share of the groups found nothing new."""
WAIT_SECONDS: Final = 90.0
LOOK_SECONDS: Final = 0.1
_TICK_SECONDS: Final = 0.005


@dataclass(frozen=True, slots=True)
class GroupRound:
    """One round in which every offset of every group had moved, and one in which none had."""

    groups: int
    round: int
    positions: int
    seconds: float
    """From the first request to the source to the last offset read back on the target."""
    cpu_seconds: float
    """Of drkit, from the last commit on the source to the end of the round."""
    broker_cpu_seconds: float
    rest_seconds: float
    """The same for a round at rest: no offset had moved, and what was written had been read back again."""
    rest_cpu_seconds: float
    wrong: int
    """Offsets on the target that lead to another record than the one on the source."""
    foreign_cpu_share: float


@dataclass(frozen=True, slots=True)
class SyncDelay:
    """From a commit on the source to the offset on the target, in seconds."""

    groups: int
    interval_seconds: float
    commits: int
    missing: int
    p50: float
    p99: float
    highest: float
    foreign_cpu_share: float


def names(count: int) -> list[str]:
    """The first `count` groups of the benchmark; the names do not depend on the number of groups."""
    return [f"bench-{i:05d}" for i in range(count)]


def filters_of(count: int) -> list[str]:
    """Regular expressions for the first `count` groups, in whole hundreds."""
    return [f"bench-{hundred:03d}.." for hundred in range(count // 100)]


class Rounds:
    """The summaries of checkpoint rounds, as the flow's state on the target has them; a context manager."""

    def __init__(self, bootstrap: str, replicator: Running) -> None:
        self._replicator = replicator
        self._state = StateTopic(ClusterSettings(alias="bench", bootstrap_servers=bootstrap), "source")
        self._last = 0

    def settled(self, positions: int) -> None:
        """Wait for a round that finds every offset on the target already."""
        self.skip()
        self.next(lambda found: found["verdicts"].get("UNCHANGED") == positions)

    def at_rest(self, positions: int) -> Mapping[str, Any]:
        """Wait for a round that had next to nothing to look at; returns its summary."""
        return self.next(
            lambda found: (
                found["verdicts"].get("UNCHANGED") == positions
                and found["looked_at"] <= AT_REST * found["groups"]
            )
        )

    def next(self, wanted: Callable[[Mapping[str, Any]], bool]) -> Mapping[str, Any]:
        """Wait for the next round of whose summary this is true; returns it."""
        for _ in moments(WAIT_SECONDS, every=LOOK_SECONDS):
            self._replicator.check()
            summary = self._newest()
            if summary["at_ms"] > self._last:
                self._last = summary["at_ms"]
                if "verdicts" in summary and wanted(summary):
                    return summary
        raise TimeoutError(f"no such checkpoint round in {WAIT_SECONDS:.0f} s, the last was {self._newest()}")

    def skip(self) -> None:
        """Rounds that ended until now are of no interest."""
        self._last = self._newest()["at_ms"]

    def _newest(self) -> Mapping[str, Any]:
        try:
            self._state.load()
        except DrkitError as error:
            raise TimeoutError(str(error)) from error
        return (self._state.get(CheckpointsRecord) or CheckpointsRecord(0)).to_json()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._state.close()


def everywhere(groups: Sequence[str], truth: Truth, before: Commits, seed: int) -> Commits:
    """An offset in every partition for every group, each with another next record than before."""
    chance = random.Random(seed)
    at = [TopicPartition(GROUP_TOPIC, p) for p in range(GROUP_PARTITIONS)]
    return {
        g: {tp: truth.elsewhere(tp.partition, before.get(g, {}).get(tp, 0), chance) for tp in at}
        for g in groups
    }


class Moving:
    """Groups that commit in every partition, one after the other at an even pace; a context manager.

    :param share: of the groups that commit between two rounds
    """

    def __init__(self, bootstrap: str, groups: int, share: float, end: int) -> None:
        self._bootstrap, self._groups, self._end = bootstrap, names(groups), end
        self._pause = INTERVAL_SECONDS / (groups * share)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        chance, due = random.Random(), time.monotonic()  # another run commits other offsets
        at = [TopicPartition(GROUP_TOPIC, p) for p in range(GROUP_PARTITIONS)]
        with GroupOffsets(self._bootstrap) as source:
            for group in cycle(self._groups):
                if self._stop.wait(max(0.0, due - time.monotonic())):
                    return
                source.commit({group: {tp: chance.randrange(self._end) for tp in at}})
                due += self._pause

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


class GroupBench:
    """Groups on the source, and what of them is on the target while a replicator runs.

    :param commits: what the groups have committed so far
    """

    def __init__(self, source: GroupOffsets, target: GroupOffsets, truth: Truth, commits: Commits) -> None:
        self._source, self._target, self._truth, self._commits = source, target, truth, commits

    def one_round(self, rounds: Rounds, clocks: Clocks, groups: int, number: int) -> GroupRound:
        """Move all groups and measure the round that sees them all, and the next one."""
        positions = groups * GROUP_PARTITIONS
        moved = everywhere(names(groups), self._truth, self._commits, number)
        rounds.next(bool)  # a round has just ended, so the whole pause until the next one remains
        self._source.commit(moved)
        self._commits.update(moved)
        rounds.skip()
        opened = clocks.sample()
        busy = rounds.next(lambda found: found["verdicts"].get("WRITE") == positions)
        closed = clocks.sample()
        rounds.at_rest(positions)
        resting = clocks.sample()
        rest = rounds.at_rest(positions)
        rested = clocks.sample()
        return GroupRound(
            groups=groups,
            round=number,
            positions=positions,
            seconds=busy["seconds"],
            cpu_seconds=closed.cpu - opened.cpu,
            broker_cpu_seconds=closed.brokers - opened.brokers,
            rest_seconds=rest["seconds"],
            rest_cpu_seconds=rested.cpu - resting.cpu,
            wrong=self._truth.wrong(moved, self._target.committed(moved)),
            foreign_cpu_share=foreign_share(opened, closed),
        )

    def delay(self, replicator: Running, clocks: Clocks, groups: int, window: float) -> SyncDelay:
        """Commit single offsets at an even pace and watch the target for each of them."""
        chance, idle = random.Random(groups), names(groups)
        chance.shuffle(idle)
        waiting: dict[str, tuple[TopicPartition, int, float]] = {}
        delays: list[float] = []
        opened = clocks.sample()
        due, looked, last = opened.at, 0.0, opened.at + window
        end = last + 4 * INTERVAL_SECONDS
        while (now := time.monotonic()) < last or (waiting and now < end):
            while due <= now and due < last and idle:
                group = idle.pop()
                waiting[group] = self._move_one(group, chance)
                due += 1 / COMMITS_PER_SECOND
            if now - looked >= LOOK_SECONDS:
                looked = now
                for group in self._arrived(waiting):
                    delays.append(time.monotonic() - waiting.pop(group)[2])
                    idle.insert(0, group)
                replicator.check()
            pause(_TICK_SECONDS, "commits come at an even pace")
        return delay_of(groups, sorted(delays), len(waiting), (opened, clocks.sample()))

    def _move_one(self, group: str, chance: random.Random) -> tuple[TopicPartition, int, float]:
        at = TopicPartition(GROUP_TOPIC, chance.randrange(GROUP_PARTITIONS))
        offset = self._truth.elsewhere(at.partition, self._commits[group][at], chance)
        self._source.commit({group: {at: offset}})
        self._commits[group][at] = offset
        return at, offset, time.monotonic()

    def _arrived(self, waiting: Mapping[str, tuple[TopicPartition, int, float]]) -> list[str]:
        found = self._target.of_one_partition({g: at for g, (at, _, _) in waiting.items()})
        return [
            g
            for g, (at, offset, _) in waiting.items()
            if self._truth.is_exact(at.partition, offset, found[g])
        ]


def delay_of(groups: int, delays: Sequence[float], missing: int, span: tuple[Sample, Sample]) -> SyncDelay:
    """Percentiles of ascending delays; TimeoutError when none was seen."""
    if not delays:
        raise TimeoutError("no committed offset arrived on the target")
    return SyncDelay(
        groups=groups,
        interval_seconds=INTERVAL_SECONDS,
        commits=len(delays) + missing,
        missing=missing,
        p50=percentile(delays, 0.50),
        p99=percentile(delays, 0.99),
        highest=delays[-1],
        foreign_cpu_share=foreign_share(*span),
    )
