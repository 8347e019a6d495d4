"""A switchover under load, and what holds after it."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, Producer

from drkit.failover.core.context import RunRequest
from drkit.failover.loss.divergence import divergence
from drkit.failover.loss.findings import Divergence
from drkit.kafka.admin import Cluster
from drkit.model import TopicPartition
from drkit.repoint import endpoint_of
from drkit.repoint.file import EndpointFile
from tests.support.failover.followers import Reader, Transactor, Writer
from tests.support.failover.python_clients import Follower, Restarted
from tests.support.failover.story import FailOver, all_at_once
from tests.support.failover.truth import Load, check_position, values
from tests.support.failover.world import World
from tests.support.flows.compare import Seen
from tests.support.waiting import eventually

PARTITIONS = 3


@dataclass
class Switchover:
    """What happened."""

    topic: str
    groups: dict[str, dict[TopicPartition, int]]
    report: dict[str, Any]
    stubborn: Load
    """Producers that do not follow."""
    writers: list[Writer]
    transactor: Transactor
    reader: Reader
    members: list[Follower | Restarted]
    """Of groups with one static member, of the consumer protocol, and of a client that is restarted."""
    theirs: dict[int, list[Seen]]
    ours: dict[int, list[Seen]]
    committed: dict[str, dict[TopicPartition, int]]
    """What the target kept of groups without members when it was over."""
    late: KafkaError | None
    """The error of a producer that comes to the old primary afterwards."""
    diverged: Divergence


def told(world: World, folder: Path, fail_over: FailOver = all_at_once) -> Switchover:
    """A switchover under load: applications work on the primary, and are moved."""
    topic, file = world.name("orders"), folder / "endpoint.json"
    world.create(world.source, topic, PARTITIONS, {"retention.ms": "-1"})
    cluster_id = Cluster.connect(world.source).cluster_id
    EndpointFile(file).tell(endpoint_of(world.source, term=0, cluster_id=cluster_id))
    world.failover_fields |= {"repoint": [{"kind": "file", "path": str(file)}], "drain_seconds": 30.0}
    world.failover_fields["fence"] = {"transaction_wait_seconds": 0.5}
    world.replicate()
    writers = [Writer("plain", topic, file), Writer("idempotent", topic, file, enable_idempotence=True)]
    transactor, reader = Transactor("tx", topic, file), Reader(world.name("live"), topic, file)
    members = _members(world, topic, file)
    load = Load(world.source, [topic], per_second=300)
    with ExitStack() as stack, load, writers[0], writers[1], transactor, reader:
        for member in members:
            stack.enter_context(member)
        eventually(lambda: all(m.committed for m in members), what="members at work")
        eventually(lambda: load.count > 200 and len(transactor.committed) > 100, what="load")
        ends = world.offsets(world.source, topic)
        groups = {
            world.name("start"): {TopicPartition(topic, p): 0 for p in ends},
            world.name("middle"): {TopicPartition(topic, p): e // 2 for p, e in ends.items()},
            world.name("one"): {TopicPartition(topic, 0): ends[0]},
        }
        for group, offsets in groups.items():
            world.commit(world.source, group, offsets)
        eventually(lambda: reader.processed and all(map(world._synced, groups)), what="groups at work")
        report = fail_over(world, RunRequest(planned=True))
        committed = {g: _kept(world, g) for g in groups}
        before = [len(w.acked) for w in writers], len(transactor.committed)
        eventually(
            lambda: all(len(w.acked) > n + 50 for w, n in zip(writers, before[0], strict=True))
            and len(transactor.committed) > before[1] + 25,
            30, f"all clients at work on the new primary: {transactor.again} {transactor.trouble}",
        )  # fmt: skip
        late = _written(world, topic)
        load.__exit__()
        for writer in (*writers, transactor):
            writer.finish()
        _read_to_the_end(world, topic, [reader.processed, *(m.got for m in members)])
    with world.desk() as desk:
        diverged = divergence(desk.context_outside_run())
    return Switchover(
        topic, groups, report, load, writers, transactor, reader, members, world.records(world.source, topic),
        world.records(world.target, topic), committed, late, diverged,
    )  # fmt: skip


def _read_to_the_end(world: World, topic: str, given: list[list[Any]]) -> None:
    eventually(
        lambda: min(map(len, given)) >= _number(world, topic),
        30,
        lambda: f"the readers at the end, {_number(world, topic)}: {[len(got) for got in given]}",
    )


def _members(world: World, topic: str, file: Path) -> list[Follower | Restarted]:
    return [
        Follower("static", world.name("static"), [topic], file, group_instance_id="one"),
        Follower("consumer protocol", world.name("protocol"), [topic], file, group_protocol="consumer"),
        Restarted("restarted", world.name("restarted"), [topic], file),
    ]


def _kept(world: World, group: str) -> dict[TopicPartition, int]:
    return {at: c.offset for at, c in world.committed(world.target, group).items()}


def _number(world: World, topic: str) -> int:
    return sum(map(len, world.records(world.target, topic).values()))


def _written(world: World, topic: str) -> KafkaError | None:
    heard: list[KafkaError | None] = []
    out = Producer({"bootstrap.servers": world.source.bootstrap_servers, "log_level": 0})
    out.produce(topic, b"late", partition=0, on_delivery=lambda error, _: heard.append(error))
    out.flush(20)
    return heard[0]


def it_says_that_nothing_is_lost(done: Switchover) -> None:
    loss = done.report["loss"]
    assert done.report["state"] == "done"
    assert done.report["fence"]["proven"]
    assert (loss["drained"], loss["exact"], loss["records"]) == (True, True, 0)
    assert loss["statement"].startswith("nothing is lost")
    assert done.diverged.is_clean, done.diverged.statement()


def nothing_is_lost_and_nothing_repeated(done: Switchover) -> None:
    assert not [t for w in (*done.writers, done.transactor, done.reader) for t in w.trouble]
    assert not [e for w in done.writers for e in w.failed]
    acked = Counter(r.value for r in done.stubborn.acked[done.topic])
    for writer in done.writers:
        assert len(writer.acked) == writer.written
        acked.update(writer.acked)
    acked.update(done.transactor.committed)
    there = Counter(v for records in done.ours.values() for v in values(records))
    assert there == acked


def the_copy_is_the_old_log_and_new_records_come_after_it(done: Switchover) -> None:
    for p, records in done.theirs.items():
        assert values(done.ours[p])[: len(records)] == values(records)
        for writer in done.writers:
            for side, there in (("old", records), ("new", done.ours[p][len(records) :])):
                mine = [int(v.split()[1]) for v in values(there) if v.startswith(writer.name.encode())]
                turns = [(mine[max(0, i - 3) : i + 4]) for i in range(1, len(mine)) if mine[i] < mine[i - 1]]
                assert not turns, f"{writer.name} in {p} on the {side} side: {turns}; {writer.switches}"


def no_transaction_is_cut(done: Switchover) -> None:
    old = {v for records in done.theirs.values() for v in values(records)}
    numbers = [int(v.split()[1]) for v in done.transactor.committed]
    assert numbers == list(range(len(numbers)))
    for first in range(0, len(numbers), 5):
        whole = [b"tx %d" % i in old for i in range(first, first + 5)]
        assert len(set(whole)) == 1, f"transaction {first // 5} is on both clusters"
    assert not any(p["open_transaction"] for p in done.report["loss"]["partitions"])


def old_producers_are_refused(done: Switchover) -> None:
    assert done.late is not None
    assert done.late.code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert done.stubborn.refused
    assert {e.code() for e in done.stubborn.refused} == {KafkaError.MSG_SIZE_TOO_LARGE}


def all_clients_followed_and_nothing_was_in_doubt(done: Switchover) -> None:
    for who in (*done.writers, done.transactor, done.reader):
        assert len(who.switches) == 1, who
        assert who.switches[0].uncertain == 0
    assert any(w.switches[0].resent for w in done.writers), "some had been refused, and waited"


def a_group_at_work_processes_every_record_once(done: Switchover) -> None:
    assert Counter(done.reader.processed) == Counter(v for r in done.ours.values() for v in values(r))


def groups_at_different_lags_read_on_at_their_next_record(done: Switchover) -> None:
    for group, offsets in done.groups.items():
        assert done.committed[group].keys() == offsets.keys()
        for at, upstream in offsets.items():
            theirs, ours = done.theirs[at.partition], done.ours[at.partition]
            rest = check_position(at, upstream, done.committed[group][at], theirs, ours)
            assert len(rest) == len(ours) - sum(s.offset < upstream for s in theirs), (group, at)
