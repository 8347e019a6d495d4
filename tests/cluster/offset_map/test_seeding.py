"""Beginning a direction after a turn: whole, once, and only where that is safe."""

from __future__ import annotations

from collections.abc import Iterator
import random

import pytest

from drkit.errors import Refused
from drkit.flow_state.lease.run_lease import LeaseLost
from drkit.flow_state.names import map_transactional_id
from drkit.flow_state.records import CutRecord
from drkit.kafka.raw import RawCluster
from drkit.kafka.requests import Append, produce_request
from drkit.kafka.transactions import Transactions
from drkit.kafka.transport import permitted_by
from drkit.local.cluster import LocalCluster
from drkit.offset_map.bucket import MapBucket, pairs
from drkit.offset_map.reading import read_on
from drkit.offset_map.seeding import SeededPartition, write_seeds
from drkit.offset_map.topic import bucket_of, find_map, new_nonce
from drkit.offset_map.writer import MapTaken, MapWriter
from drkit.offsets import History, MapKey, Mark, Pack, SegmentMap
from drkit.offsets.map_codec import decode_record
from drkit.offsets.map_record import Turn
from drkit.wire import Record, encode, stamp
from tests.support.errors import made
from tests.support.flows.compare import read
from tests.support.flows.fixtures import FlowFactory
from tests.support.flows.flow import Flow, partition_states
from tests.support.flows.produce import fill, now_ms, producer, put
from tests.support.flows.turning import Direction, Turning
from tests.support.waiting import eventually

PARTITIONS = 3


@pytest.fixture
def turning(
    source: LocalCluster, target: LocalCluster, flow_factory: FlowFactory, topic_name: str
) -> Iterator[Turning]:
    """A topic that was copied; the other direction has not begun."""
    there, back = flow_factory(source, target), flow_factory(target, source)
    there.create_both(topic_name, PARTITIONS)
    found = Turning(there, back, topic_name)
    fill(there.source, topic_name, 90)
    found.copy()
    yield found
    found.close()


def _at_rest(turning: Turning) -> list[SeededPartition]:
    """The seeds, with the directions turned and nothing written."""
    turning.now.fence()
    seeds = turning.seeds()
    turning.now, turning.other = turning.other, turning.now
    return seeds


def _written(flow: Flow) -> list[Pack | Turn]:
    """The packs and turns that readers of a flow's map see."""
    seen = read(flow.target, flow.map_topic)
    records = [decode_record(s.key, s.value).record for some in seen.values() for s in some]
    return [r for r in records if isinstance(r, Pack | Turn)]


def _more(flow: Flow, topic: str, count: int = 10) -> None:
    out = producer(flow.source)
    for p in range(PARTITIONS):
        for i in range(count):
            put(out, topic, b"more-%d-%d-%d" % (p, i, now_ms()), b"m%d" % i, partition=p)
    assert out.flush(30) == 0


@pytest.mark.wide
def test_repeated_it_writes_nothing_that_is_there(turning: Turning) -> None:
    seeds = _at_rest(turning)
    turning.write(seeds[:1])
    turning.write(seeds)
    flow = turning.now.flow
    assert len(_written(flow)) == 2 * PARTITIONS, "a pack and a turn each"
    assert turning.is_exact()
    _more(flow, turning.topic)
    assert turning.copy().records == PARTITIONS * 10
    turning.write(seeds)
    assert len(_written(flow)) == 2 * PARTITIONS
    assert turning.is_exact()
    cuts = turning.now.state.get(CutRecord, turning.topic)
    assert cuts is not None
    assert cuts.skip_from == {s.partition.source.partition: s.seed.upstream for s in seeds}


@pytest.mark.wide
def test_killed_before_the_commit_nothing_is_there_and_the_next_try_writes_all(
    turning: Turning, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds, flow = _at_rest(turning), turning.now.flow

    async def killed(_transactions: Transactions, *, commit: bool) -> None:  # noqa: ARG001  as the real one
        raise InterruptedError

    with monkeypatch.context() as patch:
        patch.setattr(Transactions, "end", killed)
        with pytest.raises(InterruptedError):
            turning.write(seeds)
    assert not _written(flow), "the records are there, and their transaction is open"
    turning.write(seeds)
    assert len(_written(flow)) == 2 * PARTITIONS
    _more(flow, turning.topic)
    assert turning.copy().records == PARTITIONS * 10
    assert turning.is_exact()


@pytest.mark.wide
def test_a_map_of_many_segments_is_written_as_a_whole(turning: Turning) -> None:
    """In several records, and in several batches of one transaction."""
    seeds, flow = _at_rest(turning), turning.now.flow
    chance, up, down, triples = random.Random(3), 0, 0, []
    for _ in range(100_000):
        triples.append((up, down, count := chance.randint(1, 1 << 20)))
        up, down = up + count + chance.randint(1, 1 << 20), down + count + chance.randint(1, 1 << 20)
    at, seed = seeds[0][:2]
    last = triples[-1]
    large = seed._replace(segments=SegmentMap.of(triples), copied_end=last[1] + last[2])
    turning.write([SeededPartition(at, large)])
    assert sum(isinstance(record, Pack) for record in _written(flow)) > 10
    number = bucket_of(*at.source, flow.settings.buckets)

    async def read_map(cluster: RawCluster) -> MapBucket:
        bucket = MapBucket(number, flow.map_topic)
        await read_on(cluster, await find_map(cluster, flow.map_topic), bucket)
        return bucket

    state = flow.ask(flow.target, read_map).of(at.source_id, at.target_id, at.source.partition)
    assert state.segments.triples() == triples
    assert state.tail is not None
    assert state.tail.upstream == seed.upstream


@pytest.mark.wide
def test_who_held_a_part_of_the_map_before_writes_nothing_there_any_more(turning: Turning) -> None:
    seeds, flow = _at_rest(turning), turning.now.flow
    at, seed = seeds[0][:2]
    bucket = MapBucket(bucket_of(*at.source, flow.settings.buckets), flow.map_topic)

    async def held(cluster: RawCluster) -> MapWriter:
        topic = await find_map(cluster, flow.map_topic)
        name = map_transactional_id(flow.source.alias, flow.target.alias, bucket.bucket)

        writer = MapWriter(
            Transactions(cluster, name), bucket, new_nonce(),
            lambda _: find_map(cluster, flow.map_topic), lambda: False,
        )  # fmt: skip
        await writer.take()
        await writer.begin(lambda: read_on(cluster, topic, bucket))
        return writer

    earlier = flow.ask(flow.target, held)
    turning.write(seeds)
    mark = Mark(1, History(*flow.producer), 1_000, seed.downstream, seed.copied_end, 0, -1, live=True)
    key = MapKey(at.source_id, at.target_id, at.source.partition)
    attempts = (
        lambda _: earlier.write_pairs(pairs([(key, mark)])),
        lambda _: earlier.write_whole([(key, mark)]),
    )
    for attempt in attempts:
        with pytest.raises(MapTaken):
            flow.ask(flow.target, attempt)
    assert turning.is_exact()


@pytest.mark.wide
def test_a_task_that_was_frozen_during_two_turns_changes_nothing(turning: Turning) -> None:
    turning.turn()
    flow = turning.now.flow
    zombie = flow.start(lease=turning.now.lease(turning.other, once=False, seconds=20.0, grace=300.0))
    before = sum(flow.offsets(flow.target, turning.topic).values())
    _more(flow, turning.topic)
    eventually(lambda: sum(flow.offsets(flow.target, turning.topic).values()) >= before + PARTITIONS * 10)
    zombie.freeze()
    turning.turn()
    turning.turn()
    known = _map_of(flow)
    zombie.resume()
    assert zombie.report()["ended"] in {"fenced", "superseded"}
    assert _map_of(flow) == known
    assert turning.is_exact()


def _map_of(flow: Flow) -> list[tuple[bytes | None, bytes | None]]:
    return [(s.key, s.value) for some in read(flow.target, flow.map_topic).values() for s in some]


@pytest.mark.wide
def test_a_producer_id_that_was_used_is_refused(turning: Turning) -> None:
    turning.turn()
    _more(turning.now.flow, turning.topic)
    turning.copy()
    turning.turn()
    seeds = _at_rest(turning)
    with pytest.raises(Refused) as refused:
        turning.write(seeds)
    assert refused.value.code == "producer_id_not_new"
    turning.now.renew()
    turning.write(seeds)
    assert turning.is_exact()


@pytest.mark.wide
def test_a_copy_that_has_another_end_than_its_seed_is_refused(turning: Turning) -> None:
    seeds = _at_rest(turning)
    flow = turning.now.flow
    put(out := producer(flow.target), turning.topic, b"x", b"foreign-x", partition=1)
    assert out.flush(30) == 0
    with pytest.raises(Refused) as refused:
        turning.write(seeds)
    assert refused.value.code == "seed_end_differs"
    assert "drkit reprotect --abort" in refused.value.hint, "nothing else leads out"
    assert not _written(flow), "also of the partitions that end there"
    assert turning.now.state.get(CutRecord, turning.topic) is None


@pytest.mark.wide
def test_without_the_lease_nothing_is_written(turning: Turning) -> None:
    seeds = _at_rest(turning)
    now = turning.now

    def lost() -> None:
        raise made(LeaseLost, "it is lost, for the test")

    with permitted_by(lost), pytest.raises(LeaseLost):
        write_seeds(now.flow.target, now.flow.settings, now.state, seeds)
    assert not _written(now.flow)
    assert now.state.get(CutRecord, turning.topic) is None


@pytest.mark.wide
def test_another_direction_s_batch_after_the_cut_stops_its_partition_alone(turning: Turning) -> None:
    turning.turn()
    flow = turning.now.flow
    _more(flow, turning.topic)
    _as_opposite(flow, turning.other, turning.topic, partition=1)
    _more(flow, turning.topic)
    for _ in range(2):
        states = partition_states(turning.copy())
        assert [states[turning.topic, p][0] for p in range(PARTITIONS)] == ["live", "stopped", "live"]
        event = flow.events("opposite_wrote")[-1]
        assert event["stopped"]
        assert (event["partition"], event["producer_id"]) == (1, turning.other.flow.producer.id)
    there, here = read(flow.target, turning.topic), read(flow.source, turning.topic)
    for p in range(PARTITIONS):
        copied = [s.content for s in here[p] if p != 1 or s.offset < event["offset"]]
        assert [s.content for s in there[p]] == copied, f"partition {p}: all before the alarm, nothing after"


def _as_opposite(flow: Flow, opposite: Direction, topic: str, partition: int) -> None:
    """Append to a flow's source under a producer id of the flow in the other direction.

    Its live id is fenced there; here another one is on its record.
    """
    opposite.is_new = False
    opposite.renew()
    found = flow.topic(flow.source, topic)
    data = encode([Record(i, now_ms(), b"loop", b"%d" % i, ()) for i in range(3)], 0)
    producer_id, epoch = opposite.flow.producer
    stamp(data, producer_id, epoch, 0, transactional=False)
    request = produce_request([Append(topic, found.topic_id, partition, data)])

    async def send(cluster):
        return await cluster.send(request, found.leaders[partition].node)

    answer = flow.ask(flow.source, send)
    assert not answer.responses[0].partition_responses[0].error_code
