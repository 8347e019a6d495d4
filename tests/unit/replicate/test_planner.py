"""Buckets and tasks: whole, complete, and evenly spread."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from drkit.copy_task.core.assignment import PartitionAssignment
from drkit.flow_state.records import CutRecord, WrittenRecord
from drkit.kafka.requests import PartitionLeader, TopicMetadata
from drkit.model import TopicPartition
from drkit.offset_map.topic import bucket_of
from drkit.replicate.planner import PlacedPartition, Rates, assign, placed_of
from drkit.topic_sync.rules import CopiedTopic, TopicSyncResult

BUCKETS = 16
ID = "00000000-0000-0000-0000-000000000001"


def placed(topic: str, partition: int, leader: int = 0, buckets: int = BUCKETS) -> PlacedPartition:
    bucket = bucket_of(topic, partition, buckets)
    return PlacedPartition(PartitionAssignment(topic, ID, topic, ID, partition, bucket), leader)


partitions = st.lists(
    st.builds(
        placed, st.sampled_from(["orders", "payments", "a.b-c_d"]), st.integers(0, 40), st.integers(-1, 4)
    ),
    unique_by=lambda p: (p.lease.source_topic, p.lease.partition),
    max_size=80,
)


@given(partitions, st.integers(1, 9))
def test_every_partition_is_leased_once_and_a_bucket_has_one_owner(
    all_of_them: list[PlacedPartition], tasks: int
):
    """P19: tasks divide the partitions; each has one owner."""
    plan = assign(all_of_them, tasks)

    assert Counter(x for task in plan for x in task) == Counter(p.lease for p in all_of_them)
    owners: dict[int, set[int]] = {}
    for number, task in enumerate(plan):
        for lease in task:
            owners.setdefault(lease.bucket, set()).add(number)
    assert all(len(o) == 1 for o in owners.values())


@given(partitions, st.integers(1, 9))
def test_no_task_is_idle_while_there_are_buckets_for_it(all_of_them: list[PlacedPartition], tasks: int):
    """P19: more tasks take a share of the work each."""
    plan = assign(all_of_them, tasks)

    assert all(plan)
    assert len(plan) == min(tasks, len({p.lease.bucket for p in all_of_them}))


@given(partitions, st.integers(1, 9), st.randoms())
def test_the_plan_does_not_depend_on_the_order_of_discovery(
    all_of_them: list[PlacedPartition], tasks: int, random
):
    shuffled = list(all_of_them)
    random.shuffle(shuffled)

    assert assign(all_of_them, tasks) == assign(shuffled, tasks)


@given(partitions, st.integers(1, 9), st.dictionaries(st.integers(0, 40), st.floats(0, 1e9)))
def test_no_task_carries_more_than_the_rest_and_its_heaviest_bucket(
    all_of_them: list[PlacedPartition], tasks: int, speeds: dict[int, float]
):
    rates = Rates({TopicPartition("orders", p): s for p, s in speeds.items()})

    def weight(leases: tuple[PartitionAssignment, ...]) -> float:
        return sum(rates.weight(TopicPartition(x.source_topic, x.partition)) for x in leases)

    plan = assign(all_of_them, tasks, rates)
    if not plan:
        return
    loads = [weight(task) for task in plan]
    buckets: Counter[int] = Counter()
    for task in plan:
        for lease in task:
            buckets[lease.bucket] += weight((lease,))  # type: ignore[assignment]
    # The guarantee of longest-first scheduling, with the hundredth that counts as equal.
    slack = 0.011 * sum(loads) * len(plan)
    assert max(loads) <= sum(loads) / len(plan) + max(buckets.values()) + slack


def test_a_fast_partition_does_not_share_its_task_when_others_can_take_the_rest():
    all_of_them = [placed("orders", p) for p in range(16)]
    rates = Rates()
    rates.learn(TopicPartition("orders", 3), records=1_000_000, size=1 << 30, seconds=10)

    plan = assign(all_of_them, 2, rates)

    fast = next(t for t in plan if any(x.partition == 3 for x in t))
    assert {x.bucket for x in fast} == {bucket_of("orders", 3, BUCKETS)}


def test_every_task_fetches_from_all_brokers_when_loads_are_equal():
    by_bucket = {bucket_of("orders", p, BUCKETS): p for p in range(200)}
    chosen = [placed("orders", p, leader=i % 2) for i, (_, p) in enumerate(sorted(by_bucket.items()))][:8]
    leader = {p.lease: p.leader for p in chosen}

    plan = assign(chosen, 2)

    assert [len(t) for t in plan] == [4, 4]
    assert all(Counter(leader[x] for x in task) == {0: 2, 1: 2} for task in plan)


def test_a_bucket_is_the_crc_of_topic_and_partition():
    # Fixed for ever: transactional ids and the offset map's partitions hang on it.
    assert bucket_of("orders", 0, 1 << 32) == 1_995_288_530
    assert {bucket_of("orders", p, 4) for p in range(50)} == {0, 1, 2, 3}


def test_rates_follow_what_is_measured_and_forget_what_is_gone():
    rates = Rates()
    at = TopicPartition("orders", 0)
    idle = rates.weight(at)
    rates.learn(at, records=0, size=10_000, seconds=1)
    rates.learn(at, records=0, size=20_000, seconds=1)
    assert rates.weight(at) == idle + 15_000
    rates.learn(at, records=5, size=5, seconds=0)
    assert rates.weight(at) == idle + 15_000
    rates.forget_all_but([])
    assert rates.weight(at) == idle


def test_a_topic_that_began_at_a_cut_is_leased_with_it() -> None:
    """The cut of an earlier topic of the same name counts no more."""
    ids = UUID(int=1), UUID(int=2)
    topic = TopicMetadata(0, ids[0], {p: PartitionLeader(3, 0) for p in range(2)}, "orders")
    found = TopicSyncResult(
        copied={"orders": CopiedTopic(topic, "orders", str(ids[1]), compacted=False, max_message_bytes=1)}
    )

    def cuts(source_id: UUID, target_id: UUID) -> list[int | None]:
        cut = {"orders": CutRecord(source_id, target_id, {1: 7})}
        return [p.lease.skip_from for p in placed_of(found, BUCKETS, cut)]

    assert cuts(*ids) == [None, 7]
    assert cuts(UUID(int=9), ids[1]) == cuts(ids[0], UUID(int=9)) == [None, None]
    assert [p.lease.skip_from for p in placed_of(found, BUCKETS, {})] == [None, None]


def test_what_was_emptied_and_what_is_copied_again_goes_with_the_lease() -> None:
    ids = UUID(int=1), UUID(int=2)
    topic = TopicMetadata(0, ids[0], {p: PartitionLeader(3, 0) for p in range(3)}, "orders")
    found = TopicSyncResult(
        copied={"orders": CopiedTopic(topic, "orders", str(ids[1]), compacted=False, max_message_bytes=1)}
    )

    def leases(*ids: UUID) -> list[tuple[int | None, int | None, int, bool]]:
        cut = {"orders": CutRecord(ids[0], ids[1], {0: 7, 1: 7, 2: 7}, {0: 90, 1: 80}, {0: 2})}
        some = [p.lease for p in placed_of(found, BUCKETS, cut)]
        return [(x.skip_from, x.began_at, x.emptied_to, x.returning) for x in some]

    assert leases(*ids) == [(7, 2, 90, True), (7, 7, 80, True), (7, 7, 0, True)]
    assert leases(UUID(int=9), ids[1]) == [(None, None, 0, False)] * 3


def test_what_somebody_else_wrote_since_a_turn_goes_with_the_lease() -> None:
    """Also of a partition that is younger than the turn; a topic that never turned has no such thing."""
    ids = UUID(int=1), UUID(int=2)
    topic = TopicMetadata(0, ids[0], {p: PartitionLeader(3, 0) for p in range(3)}, "orders")
    found = TopicSyncResult(
        copied={"orders": CopiedTopic(topic, "orders", str(ids[1]), compacted=False, max_message_bytes=1)}
    )
    cut = {"orders": CutRecord(*ids, {0: 7, 1: 7})}
    written = {TopicPartition("orders", 1): WrittenRecord(*ids, 70, -1, 1, 7)}
    leases = [p.lease for p in placed_of(found, BUCKETS, cut, written)]
    assert [(x.returning, x.written_at) for x in leases] == [(True, None), (True, 70), (True, None)]
    assert not any(p.lease.returning for p in placed_of(found, BUCKETS, {}))
