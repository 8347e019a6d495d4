"""Verification of real copies: equal ones, damaged ones, growing ones, and those that cannot be judged."""

from __future__ import annotations

from collections.abc import Callable
import json
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
import pytest

from drkit.kafka.admin import Cluster
from drkit.kafka.requests import describe_producers
from drkit.model import TopicPartition
from drkit.offset_map.topic import bucket_of
from drkit.offsets import History, Intent, MapKey, encode_intent
from drkit.offsets.map_record import Mode
from drkit.verify import snapshot as verify_snapshot
from drkit.verify.ranges import cut
from drkit.verify.report import FlowReport, VerifyVerdict
from tests.support.circles import in_soak
from tests.support.flows.compare import Seen, read
from tests.support.flows.flow import Flow
from tests.support.flows.produce import Load, fill, fill_transactions, producer
from tests.support.flows.verified import own, verified
from tests.support.spark.here import drkit_here
from tests.support.waiting import eventually

RECORDS = 40


def found(report: FlowReport) -> list[tuple[int, str, int | None, int | None]]:
    return [
        (p.partition, f.kind.value, f.source_offset, f.target_offset)
        for p in report.partitions
        for f in p.findings
    ]


@pytest.mark.wide
def test_equal_with_transactions_and_what_waits(flow: Flow, topic_name: str) -> None:
    own(flow)
    flow.create_both(topic_name, 3)
    fill(flow.source, topic_name, 2000)
    assert fill_transactions(flow.source, [topic_name], 2000, seed=5, most=60) > 0
    flow.copy(topic_name)
    report = verified(flow, topic_name)
    assert report.verdict is VerifyVerdict.EQUAL, report.as_dict(5)
    committed = sum(len(r) for r in read(flow.source, topic_name).values())
    assert report.counts.equal == report.counts.target_records == committed
    assert sum(p.waiting for p in report.partitions) == 0
    fill(flow.source, topic_name, 30)
    report = verified(flow, topic_name)
    assert report.verdict is VerifyVerdict.EQUAL
    assert sum(p.waiting for p in report.partitions) == 30


@pytest.mark.wide
def test_many_ranges_say_the_same(flow: Flow, topic_name: str) -> None:
    own(flow)
    flow.create_both(topic_name, 2)
    fill(flow.source, topic_name, 110_000)
    fill_transactions(flow.source, [topic_name], 10_000, seed=6, most=100)
    flow.copy(topic_name)
    source, target = Cluster.connect(flow.source), Cluster.connect(flow.target)
    views = verify_snapshot.take(flow.settings, source, target, [topic_name]).views
    ranges = cut(views, 8)
    assert len(ranges) > 2
    whole = verified(flow, topic_name, slots=8)
    assert whole.verdict is VerifyVerdict.EQUAL
    assert whole.counts.equal == sum(len(r) for r in read(flow.target, topic_name).values())


def copied_by_hand(flow: Flow, topic: str, damage: dict[int, Callable[[list[Seen]], list[Seen]]]) -> int:
    """Write a copy and its map as a faulty replicator would; returns its producer id.

    :param damage: partition → what went wrong there
    """
    out = Producer(
        {"bootstrap.servers": flow.target.bootstrap_servers, "linger.ms": 5, "enable.idempotence": True}
    )
    for partition, records in read(flow.source, topic).items():
        spoiled = damage[partition](list(records))
        for r in spoiled:
            # librdkafka wants a list, and none at all for no headers
            headers: dict[str, Any] = {"headers": list(r.headers)} if r.headers else {}
            out.produce(topic, r.value, r.key, partition, timestamp=r.timestamp, **headers)
        key = MapKey(
            flow.topic(flow.source, topic).topic_id, flow.topic(flow.target, topic).topic_id, partition
        )
        claim = Intent(Mode.BULK, 1, History(*flow.producer), 0, 0, 0, 0, ((0, len(records)),))
        map_key, value = encode_intent(key, claim)
        out.produce(flow.map_topic, value, map_key, bucket_of(topic, partition, flow.settings.buckets))
    assert out.flush(30) == 0
    at, node = TopicPartition(topic, 0), flow.topic(flow.target, topic).leaders[0].node
    ((_, known),) = flow.ask(flow.target, describe_producers, node, [at]).values()
    (producer_id,) = known
    return int(producer_id)


def _changed(**fields: Any) -> Callable[[list[Seen]], list[Seen]]:
    return lambda rs: [*rs[:7], rs[7]._replace(**fields), *rs[8:]]


@pytest.mark.wide
def test_every_seeded_defect_is_found_and_named(flow: Flow, topic_name: str) -> None:
    own(flow)
    damage: list[Callable[[list[Seen]], list[Seen]]] = [
        lambda rs: rs,
        _changed(value=b"changed"),
        _changed(timestamp=1_600_000_000_000),
        _changed(headers=(("trace", b"2"),)),
        lambda rs: [*rs[:7], rs[8], rs[7], *rs[9:]],  # swapped
        lambda rs: [*rs[:7], *rs[8:], rs[0]],  # lost, and one too many at the end
        lambda rs: [*rs[:8], rs[7], *rs[8:]],  # twice
        lambda rs: rs[:-1],  # the last one lost
    ]
    flow.create_both(topic_name, len(damage))
    out = producer(flow.source)
    for partition in range(len(damage)):
        for i in range(RECORDS):
            out.produce(topic_name, b"v%d" % i, b"k%d" % i, partition, headers=[("trace", b"1")])
    assert out.flush(30) == 0
    own(flow, copied_by_hand(flow, topic_name, dict(enumerate(damage))))
    report = verified(flow, topic_name)
    assert report.verdict is VerifyVerdict.DIFFERENT
    named = [f for f in found(report) if f[1] != "misplaced"]
    assert named == [
        (1, "different", 7, 7),
        (2, "different", 7, 7),
        (3, "different", 7, 7),
        (4, "out_of_order", 8, 7),
        (4, "out_of_order", 7, 8),
        (5, "missing", 7, 7),
        (5, "extra", RECORDS - 1, RECORDS - 1),
        (6, "extra", 8, 8),
    ]
    fields = [f.fields for p in report.partitions for f in p.findings if f.fields]
    assert fields == [("value",), ("timestamp",), ("headers",)]
    moved = {p.partition: p.counts.misplaced for p in report.partitions if p.counts.misplaced}
    assert moved == {5: RECORDS - 8, 6: RECORDS - 8}
    assert len(report.as_dict(3)["differences"]) == 3
    # The map says that it was there: the target has lost its end, and the replicator would copy it again.
    assert [p.waiting for p in report.partitions] == [0] * 7 + [1]
    assert "once reached offset 40 and ends at 39 now" in report.notes[0]


@pytest.mark.wide
def test_a_lost_end_is_not_judged_by_records_of_others(flow: Flow, topic_name: str) -> None:
    """The map says 40 records, the target holds 39, and the last of them is of no producer of the flow."""
    own(flow)
    flow.create_both(topic_name)
    fill(flow.source, topic_name, RECORDS)
    producer_id = copied_by_hand(flow, topic_name, {0: lambda rs: rs[:-1]})
    report = verified(flow, topic_name)
    # Nothing that the map names is left: what is there belongs to others.
    assert report.verdict is VerifyVerdict.DIFFERENT
    assert (report.counts.equal, report.counts.extra) == (0, RECORDS - 1)
    own(flow, producer_id)
    report = verified(flow, topic_name)
    assert (report.verdict, report.counts.equal) == (VerifyVerdict.EQUAL, RECORDS - 1)
    assert [p.waiting for p in report.partitions] == [1]


@pytest.mark.wide
def test_foreign_records_after_and_between(flow: Flow, topic_name: str) -> None:
    own(flow)
    flow.create_both(topic_name)
    fill(flow.source, topic_name, 100)
    flow.copy(topic_name)
    fill(flow.target, topic_name, 2, first=5000)
    assert found(verified(flow, topic_name)) == [(0, "extra", None, 100), (0, "extra", None, 101)]
    fill(flow.source, topic_name, 50, first=100)
    flow.copy(topic_name)
    report = verified(flow, topic_name)
    assert found(report) == [(0, "extra", None, 100), (0, "extra", None, 101)]
    assert report.counts.equal == 150


@pytest.mark.wide
def test_what_the_source_has_deleted_since(flow: Flow, topic_name: str) -> None:
    own(flow)
    flow.create_both(topic_name)
    fill(flow.source, topic_name, 100)
    flow.copy(topic_name)
    flow.delete_records(topic_name, 0, 30)
    report = verified(flow, topic_name)
    assert report.verdict is VerifyVerdict.EQUAL
    assert (report.counts.deleted_at_source, report.counts.equal) == (30, 70)


@pytest.mark.wide
def test_a_copy_the_map_knows_nothing_of(flow: Flow, topic_name: str) -> None:
    own(flow)
    flow.create_both(topic_name, 2)
    fill(flow.target, topic_name, 10)
    report = verified(flow, topic_name)
    assert report.verdict is VerifyVerdict.UNDECIDED
    assert all("the offset map knows nothing" in reason for _, _, reason in report.unclear)


@pytest.mark.wide
def test_a_topic_that_is_not_on_the_target_yet(flow: Flow, topic_name: str) -> None:
    own(flow)
    flow.create(flow.source, topic_name, 2, {})
    fill(flow.source, topic_name, 10)
    report = verified(flow, topic_name)
    assert report.verdict is VerifyVerdict.EQUAL
    assert report.absent == {topic_name: 10}
    assert report.as_dict(1)["not_yet_copied_offsets"] == 10


@pytest.mark.wide
@pytest.mark.parametrize("transactions", [in_soak(False), True])
def test_beside_a_running_replicator(flow: Flow, topic_name: str, *, transactions: bool) -> None:
    own(flow)
    flow.create_both(topic_name, 2)
    with Load(flow.source, [topic_name], per_second=3000, transactions=transactions):
        process = flow.start(topic_name, once=False, seconds=120)
        copied = 0
        for _ in range(4):
            eventually(lambda: sum(flow.offsets(flow.target, topic_name).values()) > copied + 1500)  # noqa: B023  called at once
            report = verified(flow, topic_name)
            assert report.verdict is VerifyVerdict.EQUAL, report.as_dict(5)
            assert report.counts.equal > copied
            copied = report.counts.equal
        process.kill()
    report = verified(flow, topic_name)
    assert report.verdict is VerifyVerdict.EQUAL, report.as_dict(5)
    assert report.counts.equal >= copied


def test_the_command(flow: Flow, topic_name: str, tmp_path: Path) -> None:
    """P23: it reaches both clusters as the roles of the flow say."""
    own(flow)
    flow.create_both(topic_name, 2)
    fill(flow.source, topic_name, 5000)
    flow.copy(topic_name)
    config = tmp_path / "drkit.toml"
    # Nothing listens where the clusters' own tables point to: only the roles know the way.
    config.write_text(
        "".join(
            f'[clusters.{c.alias}]\nbootstrap_servers = "127.0.0.1:1"\n' for c in (flow.source, flow.target)
        )
        + f'[[flows]]\nsource = "{flow.source.alias}"\ntarget = "{flow.target.alias}"\nbuckets = 4\n'
        + "".join(
            f'{role} = {{ "bootstrap.servers" = "{cluster.bootstrap_servers}" }}\n'
            for cluster, roles in (
                (flow.source, ("source_admin", "source_consumer")),
                (flow.target, ("target_admin", "target_producer")),
            )
            for role in roles
        )
    )

    def run(*more: str) -> tuple[int, dict[str, Any], str]:
        done = drkit_here("verify", "--config", str(config), "--json", "--topic", topic_name, *more)
        return done.returncode, json.loads(done.stdout or "{}"), done.stderr

    code, answer, talk = run("--master", "local[2]")
    assert (code, answer["verdict"], answer["equal"]) == (0, "equal", 5000), talk
    assert answer["peak_task_memory_mib"] < 300
    fill(flow.target, topic_name, 1)
    code, answer, talk = run("--from-checked", "--max-differences", "5")
    assert (code, answer["verdict"], answer["source_records"]) == (1, "different", 0), talk
    assert [d["difference"] for d in answer["differences"]] == ["extra"]
    code, _, talk = run("--topic", "no-such-topic")
    assert code == 2
    assert "no-such-topic" in talk
