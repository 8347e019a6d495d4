"""The part of a session about consumer groups: rounds, delays, the map, and what they cost the copy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import product
from typing import Final

from tests.bench import offset_map, throughput
from tests.bench.clocks import Clocks
from tests.bench.groups import (
    LOOK_SECONDS,
    ROUND_SECONDS,
    WAIT_SECONDS,
    GroupBench,
    Moving,
    Rounds,
    everywhere,
    filters_of,
    names,
)
from tests.bench.load import fill
from tests.bench.peers.drkit import Drkit
from tests.bench.peers.replicator import Flow, Running, running
from tests.bench.positions import (
    GROUP_PARTITIONS,
    GROUP_TOPIC,
    GroupOffsets,
    Truth,
    fill_transactions,
    record_offsets,
)
from tests.bench.results import CostRun
from tests.bench.scenarios import (
    COST,
    COST_GROUPS,
    COST_SHARES,
    GROUP_COUNTS,
    MAP_PARTITIONS,
    PARTITIONS,
)
from tests.bench.session import FAILURES, Session
from tests.bench.topics import EndOffsets, Topics
from tests.bench.waiting import pause_until, until

QUICK_SHARE: Final = 10
"""By how much the map is smaller in quick mode."""
PAUSE: Final = (
    f"checkpoint_interval_seconds = {ROUND_SECONDS}\nsync_group_offsets_interval_seconds = {ROUND_SECONDS}\n"
)
COST_AGE_SECONDS: Final = 30.0
"""Of drkit when it gets the topic to copy, so that it is as warm without checkpoints as with them."""
WITHOUT: Final = "emit_checkpoints = false\nsync_group_offsets = false\n"


class GroupSession:
    """Measures on the clusters of a session; what it finds goes into the session's results."""

    def __init__(self, session: Session) -> None:
        self._session, self._plan = session, session.plan
        self._from, self._to = session.source.bootstrap(), session.target.bootstrap()
        self._records: dict[int, list[int]] = {}

    def rounds(self) -> None:
        """Checkpoint rounds of more and more groups, then the delay of single commits among all of them."""
        counts = GROUP_COUNTS[:1] if self._plan.quick else GROUP_COUNTS
        self._session.wipe()
        self._prepare(counts[-1])
        with GroupOffsets(self._from) as source, GroupOffsets(self._to) as target:
            for count in counts:
                with self._guarded(f"rounds of {count} groups"):
                    self._rounds_of(count, source, target)
            with self._guarded("delay of group offsets"):
                self._delay(counts[-1], source, target)
        self._session.wipe()

    def _prepare(self, groups: int) -> None:
        """Records in transactions, and groups that have committed somewhere in every partition."""
        self._session.tell(f"writing offsets of {groups:,} groups")
        Topics(self._from).create(GROUP_TOPIC, GROUP_PARTITIONS)
        fill_transactions(self._from)
        records = record_offsets(self._from)
        with GroupOffsets(self._from) as source:
            source.commit(everywhere(names(groups), Truth(records, records), {}, seed=0))

    @contextmanager
    def _bench(
        self, flow: Flow, count: int, source: GroupOffsets, target: GroupOffsets
    ) -> Iterator[tuple[GroupBench, Rounds, Running, Clocks]]:
        """A replicator that has brought every position to the target."""
        with running(Drkit(), flow) as replicator, Rounds(self._to, replicator) as rounds:
            rounds.settled(count * GROUP_PARTITIONS)
            truth = Truth(record_offsets(self._from), record_offsets(self._to))
            bench = GroupBench(source, target, truth, source.committed(names(count)))
            yield bench, rounds, replicator, Clocks(replicator.tree, self._session.broker_pids())

    def _rounds_of(self, count: int, source: GroupOffsets, target: GroupOffsets) -> None:
        flow = self._flow(GROUP_TOPIC, count, f"groups-{count}", PAUSE)
        with self._bench(flow, count, source, target) as (bench, rounds, _, clocks):
            for number in range(1, self._plan.rounds + 1):
                found = bench.one_round(rounds, clocks, count, number)
                self._session.results.rounds.append(found)
                self._session.tell(
                    f"    {count} groups, round {number}: {found.seconds:.1f} s, "
                    f"{found.cpu_seconds:.1f} CPU s, at rest {found.rest_seconds:.1f} s, {found.wrong} wrong"
                )

    def _delay(self, count: int, source: GroupOffsets, target: GroupOffsets) -> None:
        flow = self._flow(GROUP_TOPIC, count, "delay")
        with self._bench(flow, count, source, target) as (bench, _, replicator, clocks):
            found = bench.delay(replicator, clocks, count, self._plan.delay_seconds)
        self._session.results.delays.append(found)
        self._session.tell(
            f"    delay: p50 {found.p50:.1f} s, p99 {found.p99:.1f} s, {found.missing} missing"
        )

    def offset_map(self) -> None:
        """The memory and the speed of a large map."""
        segments = offset_map.SEGMENTS // (QUICK_SHARE if self._plan.quick else 1)
        for partitions in MAP_PARTITIONS:
            with self._guarded(f"map of {segments} segments"):
                Topics(self._to).create(offset_map.TOPIC, partitions)
                offset_map.write_map(self._to, segments, partitions)
                found = offset_map.measure(self._to, segments, partitions)
                self._session.results.maps.append(found)
                self._session.tell(
                    f"map of {segments:,} segments in {partitions}: {found.resident_bytes / 2**20:.0f} MiB, "
                    f"peak {found.peak_bytes / 2**20:.0f} MiB, lookup {found.forward_us:.2f} µs"
                )
            self._session.wipe()

    def cost(self) -> None:
        """The same copy with and without checkpoint work, in turn, while few and while all groups commit.

        The first copy finds brokers whose code is not compiled yet: it is not measured. What is left of that
        falls on both sides, as they take turns in going first.
        """
        records = COST.quick_records if self._plan.quick else COST.records
        self._session.wipe()
        self._prepare(COST_GROUPS)
        self._session.tell(f"writing {records:,} records to copy beside checkpoints")
        Topics(self._from).create(COST.topic)
        expected = fill(self._from, COST, records)
        self._records = record_offsets(self._from)
        self._cost_run(0, COST_SHARES[0], expected, checkpoints=True)
        for number in range(1, self._plan.rounds + 1):
            for share, first in product(COST_SHARES, (True, False)):
                self._session.wipe(COST.topic, GROUP_TOPIC)
                run = self._cost_run(number, share, expected, checkpoints=first is (number % 2 == 1))
                self._session.results.costs.append(run)
        self._session.wipe()

    def _cost_run(self, number: int, share: float, expected: int, *, checkpoints: bool) -> CostRun:
        """drkit comes to rest on the groups' topic first; the one to be measured is added to its file."""
        name = f"cost-{number}-{share:.0%}-{'with' if checkpoints else 'without'}"
        flow = self._flow(GROUP_TOPIC, COST_GROUPS, name, "" if checkpoints else WITHOUT)
        try:
            with ExitStack() as stack:
                replicator = stack.enter_context(running(Drkit(), flow))
                self._rest(replicator, checkpoints=checkpoints)
                pause_until(replicator.started_at + COST_AGE_SECONDS, "its JVM is warm")
                stack.enter_context(Moving(self._from, COST_GROUPS, share, len(self._records[0])))
                Drkit().prepare(replace(flow, topic=f"{GROUP_TOPIC},{COST.topic}"))
                ends = EndOffsets(self._to, COST.topic)
                result = throughput.measure(replicator, ends, expected, self._session.broker_pids())
        except FAILURES as error:
            return CostRun(checkpoints, COST_GROUPS, number, None, str(error), share)
        self._session.tell(f"    {name}: {result.per_second:,.0f} records/s")
        return CostRun(checkpoints, COST_GROUPS, number, result, share=share)

    def _rest(self, replicator: Running, *, checkpoints: bool) -> None:
        """Wait until nothing is left of the start: everything copied, every offset written once."""
        ends = EndOffsets(self._to, GROUP_TOPIC)
        copied = sum(len(self._records[p]) for p in range(PARTITIONS))
        until(
            lambda: ends.appended() >= copied and ends.visible() >= copied, WAIT_SECONDS,
            "a copy of the groups' topic", every=LOOK_SECONDS, check=replicator.check,
        )  # fmt: skip
        if checkpoints:
            with Rounds(self._to, replicator) as rounds:
                rounds.at_rest(COST_GROUPS * GROUP_PARTITIONS)

    def _flow(self, topics: str, groups: int, name: str, settings: str = "") -> Flow:
        patterns = ", ".join(f'"{pattern}"' for pattern in filters_of(groups))
        more = f"groups = [{patterns}]\n{settings}"
        return Flow(self._from, self._to, topics, "", self._session.folder / name, settings=more)

    @contextmanager
    def _guarded(self, what: str) -> Iterator[None]:
        """A figure that cannot be had costs no other."""
        try:
            yield
        except FAILURES as error:
            self._session.results.failures.append(f"{what}: no figure, {str(error).splitlines()[0]}")
            self._session.tell(f"    {what}: failed: {error}")


PARTS: Final[dict[str, Callable[[GroupSession], None]]] = {
    "groups": GroupSession.rounds,
    "map": GroupSession.offset_map,
    "checkpoints": GroupSession.cost,
}
"""What ``--only`` may name, beside the peers' scenarios."""
