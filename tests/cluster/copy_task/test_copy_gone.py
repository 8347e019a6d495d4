"""Topics that are deleted or return with fewer records: each is named, and the other topics continue."""

from __future__ import annotations

import pytest

from drkit.local.cluster import LocalCluster
from drkit.model import SourceOffset
from tests.support.circles import in_soak
from tests.support.flows.compare import check_copy, read, same_records
from tests.support.flows.fixtures import FlowFactory
from tests.support.flows.flow import DAY_MS, Flow, partition_states
from tests.support.flows.kept_folder import KeptFolder
from tests.support.flows.produce import Load, aged, fill, fill_transactions
from tests.support.shared_clusters import ModuleClusters
from tests.support.waiting import eventually


@pytest.mark.wide
@pytest.mark.parametrize(
    ("side", "recreated"),
    [in_soak("source", False), ("source", True), ("target", False), in_soak("target", True)],
    ids=["source-deleted", "source-recreated", "target-deleted", "target-recreated"],
)
def test_topic_deleted_while_copying(flow: Flow, topic_name: str, side: str, recreated: bool) -> None:  # noqa: FBT001 - a parameter of the test
    other = flow.create_both(f"{topic_name}-other")
    flow.create_both(topic_name, 2)
    fill(flow.source, topic_name, 1000)
    cluster = getattr(flow, side)
    with Load(flow.source, [other], per_second=2000):
        task = flow.start(topic_name, other, once=False, seconds=6)
        eventually(lambda: sum(flow.offsets(flow.target, topic_name).values()) == 1000)
        flow.delete(cluster, topic_name)
        if recreated:
            flow.create(cluster, topic_name, 2, {})
        fill(flow.source, other, 2000)
        if recreated or side == "target":
            fill(flow.source, topic_name, 500)
        states = partition_states(task.report())
    assert {states[topic_name, p][0] for p in (0, 1)} == {"stopped"}
    assert states[other, 0][0] == "live"
    # A task that looks between the two moments sees it deleted.
    kinds = {"target_deleted"} if side == "target" else {"source_deleted", "source_recreated"}
    events = [e for e in flow.events() if e["kind"] in kinds]
    assert {(e["topic"], e["partition"]) for e in events} == {(topic_name, 0), (topic_name, 1)}
    assert all(e["old_id"] != e["new_id"] for e in events if "new_id" in e)
    flow.copy(other)
    check_copy(flow, other)


@pytest.mark.parametrize("age_ms", [0, in_soak(2 * DAY_MS)], ids=["live", "bulk"])
def test_a_recreated_source_is_appended_after_the_records_of_the_old_one(
    flow: Flow, topic_name: str, age_ms: int
) -> None:
    """The target's leader remembers the old sequence numbers; the map of the new topic is empty."""
    flow.create_both(topic_name)
    fill(flow.source, topic_name, 900, timestamp=aged(age_ms))
    flow.copy(topic_name)
    old = read(flow.source, topic_name)[0]
    flow.delete(flow.source, topic_name)
    flow.create(flow.source, topic_name, 1, {})
    fill(flow.source, topic_name, 240, timestamp=aged(age_ms), first=900)
    new = read(flow.source, topic_name)[0]
    flow.copy(topic_name)
    same_records([*old, *new], read(flow.target, topic_name)[0], topic_name)
    fill(flow.source, topic_name, 100, first=1140)
    flow.copy(topic_name)
    same_records([*old, *read(flow.source, topic_name)[0]], read(flow.target, topic_name)[0], topic_name)


@pytest.mark.parametrize(
    ("policy", "age_ms"),
    [in_soak("continue", 0), ("continue", 2 * DAY_MS), ("stop", 0), in_soak("stop", 2 * DAY_MS)],
    ids=["continue-live", "continue-bulk", "stop-live", "stop-bulk"],
)
def test_retention_outran_the_copier(
    flow_factory: FlowFactory,
    source: LocalCluster,
    target: LocalCluster,
    topic_name: str,
    policy: str,
    age_ms: int,
) -> None:
    flow = flow_factory(source, target, on_source_gap=policy)
    flow.create_both(topic_name, 2, retention_ms="-1")
    fill(flow.source, topic_name, 1000, timestamp=aged(age_ms))
    flow.copy(topic_name)
    copied = flow.offsets(flow.source, topic_name)
    before = read(flow.source, topic_name)
    fill(flow.source, topic_name, 1000, first=1000, timestamp=aged(age_ms))
    flow.delete_records(topic_name, 0, copied[0] + 100)
    report = flow.copy(topic_name, seconds=15)
    states = partition_states(report)
    (event,) = flow.events("source_gap")
    assert (event["partition"], event["from_offset"], event["to_offset"], event["lost_offsets"]) == (
        0,
        copied[0],
        copied[0] + 100,
        100,
    )
    if policy == "stop":
        assert event["stopped"]
        assert states[topic_name, 0][0] == "stopped"
        assert states[topic_name, 1][0] != "stopped"
        assert flow.offsets(flow.target, topic_name)[0] >= copied[0]
        assert len(read(flow.target, topic_name)[0]) == copied[0]
        check_copy(flow, topic_name, skip=[0], uncommitted=not age_ms)
        return
    assert report.ended == "once"
    assert flow.starts(flow.source, topic_name)[0] == copied[0] + 100
    fill(flow.source, topic_name, 100, timestamp=aged(age_ms))
    flow.copy(topic_name)
    check_copy(
        flow,
        topic_name,
        uncommitted=not age_ms,
        expected=lambda p, seen: before[p][: copied[p]] + [s for s in seen if s.offset >= copied[p]],
    )


@pytest.mark.parametrize("transactions", [in_soak(False), in_soak(True)], ids=["plain", "transactions"])
def test_a_target_that_lost_its_tail(
    module_cluster: ModuleClusters,
    source: LocalCluster,
    flow_factory: FlowFactory,
    topic_name: str,
    transactions: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """What an unclean election leaves behind: the partition ends before what the map confirms."""
    target = module_cluster("forgets")
    flow = flow_factory(source, target)
    flow.create_both(topic_name, 2)
    folder = KeptFolder(target.broker(0), f"{topic_name}-0")

    def more(first: int) -> None:
        if transactions:
            fill_transactions(flow.source, [topic_name], 500, seed=first, most=40)
        fill(flow.source, topic_name, 500, first=first)
        flow.copy(topic_name)

    more(0)
    target.broker(0).terminate()
    folder.keep()
    target.restart()
    kept = flow.offsets(flow.target, topic_name)[0]
    more(500)
    more(1000)
    target.broker(0).kill()
    folder.put_back()
    target.restart()
    assert flow.offsets(flow.target, topic_name)[0] == kept
    more(1500)
    check_copy(flow, topic_name)
    (event,) = flow.events("target_truncated")
    assert (event["partition"], event["target_end"]) == (0, kept)
    assert event["copied_up_to"] > kept
    more(2000)
    check_copy(flow, topic_name)


@pytest.mark.soak
def test_a_target_partition_that_lost_everything(
    module_cluster: ModuleClusters, source: LocalCluster, flow_factory: FlowFactory, topic_name: str
) -> None:
    target = module_cluster("forgets")
    flow = flow_factory(source, target)
    flow.create_both(topic_name)
    folder = KeptFolder(target.broker(0), f"{topic_name}-0")
    target.broker(0).terminate()
    folder.keep()
    target.restart()
    fill(flow.source, topic_name, 500)
    flow.copy(topic_name)
    target.broker(0).kill()
    folder.put_back()
    target.restart()
    assert flow.offsets(flow.target, topic_name)[0] == 0
    for turn in range(3):
        task = flow.start(topic_name, once=False)
        eventually(lambda: len(read(flow.target, topic_name)[0]) == flow.offsets(flow.source, topic_name)[0])
        task.kill()
        fill(flow.source, topic_name, 300, first=500 + 300 * turn)
    flow.copy(topic_name)
    check_copy(flow, topic_name)
    assert flow.events("target_truncated")


@pytest.mark.wide
@pytest.mark.parametrize("refilled", [in_soak(50), 600], ids=["shorter", "longer"])
def test_a_source_that_lost_its_tail(
    module_cluster: ModuleClusters,
    target: LocalCluster,
    flow_factory: FlowFactory,
    topic_name: str,
    refilled: int,
) -> None:
    """The source's history is another one from some offset on: named, and followed from there."""
    source = module_cluster("forgets")
    flow = flow_factory(source, target)
    flow.create_both(topic_name)
    folder = KeptFolder(source.broker(0), f"{topic_name}-0")
    fill(flow.source, topic_name, 600)
    flow.copy(topic_name)
    source.broker(0).terminate()
    folder.keep()
    source.restart()
    fill(flow.source, topic_name, 400, first=600)
    flow.copy(topic_name)
    lost = read(flow.source, topic_name)[0][600:]
    source.broker(0).kill()
    folder.put_back()
    source.restart()
    fill(flow.source, topic_name, refilled, first=5000)
    for turn in range(2):
        flow.copy(topic_name, once=False, seconds=4)
        on_source, on_target = read(flow.source, topic_name)[0], read(flow.target, topic_name)[0]
        wanted = [s.content for s in on_source]
        assert [s.content for s in on_target] == wanted[:600] + [s.content for s in lost] + wanted[600:]
        segments, end = flow.settled(topic_name)[0]
        for i, record in enumerate(on_source):
            place = segments.translate(SourceOffset(record.offset), end)
            assert place == on_target[i if i < 600 else i + 400].offset, (
                f"turn {turn}, source {record.offset}"
            )
        fill(flow.source, topic_name, 100, first=9000 + 100 * turn)
    event = flow.events("source_diverged")[0]
    assert (event["copied_up_to"], event["source_history_ends"]) == (1000, 600)
