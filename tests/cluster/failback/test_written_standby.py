"""A client that was never cut off writes to the old primary after its return: no switchover to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient
import pytest

from drkit.errors import Refused
from drkit.failover.core.context import Context
from drkit.failover.core.request import RunRequest
from drkit.failover.core.step import StepResult
from drkit.failover.failback import refuse_stopped, ways_of
from drkit.failover.runs import all_steps
from drkit.failover.steps.drain import DrainStep
from drkit.flow_state.records import CutRecord, GenerationRecord, WrittenRecord
from drkit.flow_state.topic import StateTopic
from drkit.journal.machine import StepName
from drkit.kafka.clients import confluent_config
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from drkit.status.model import FlowStatus
from drkit.status.pair.model import PairState
from drkit.status.paired import PairedCollector
from tests.support.errors import coded
from tests.support.failback.pair import CUT, Pair, Side
from tests.support.flows.produce import fill, producer, put
from tests.support.waiting import eventually

PLANNED = RunRequest(planned=True, clients_cut=CUT)
SAID = coded("foreign_writes")


def _returned(pair: Pair, topics: Sequence[str]) -> Side:
    """The direction back, which copies."""
    side = pair.now
    for topic in topics:
        side.create(side.source, topic, 2, {"retention.ms": "-1"})
        fill(side.source, topic, 40)
    side.replicate()
    side.copied(topics)
    assert pair.switch()["state"] == "done"
    assert pair.reprotect()["state"] == "done"
    back = pair.now
    for topic in topics:
        fill(back.source, topic, 20, first=100)
    back.replicate()
    back.copied(topics)
    return back


def _stray(side: Side, topic: str) -> int:
    """A record of the client on the passive side; returns its offset."""
    offset = side.offsets(side.target, topic)[0]
    out = producer(side.target)
    put(out, topic, b"stray", b"stray", partition=0)
    assert out.flush(30) == 0
    return offset


def _refused(side: Side, topics: Sequence[str] = ()) -> Refused:
    with side.desk() as desk, pytest.raises(Refused) as refused:
        desk.begin([], PLANNED, topics=topics)
    return refused.value


def _look(side: Side, flow: int) -> FlowStatus:
    settings = side.settings
    collector = PairedCollector(settings, settings.flows[flow], groups=False)
    try:
        return collector.look()
    finally:
        collector.close()


def _states(status: FlowStatus) -> dict[str, PairState]:
    assert status.pair is not None
    return {t.topic: t.state for t in status.pair.topics}


def _known(side: Side) -> dict[str, WrittenRecord]:
    with StateTopic(side.target, side.source.alias) as state:
        state.load()
        return dict(state.all(WrittenRecord))


@pytest.mark.wide
def test_it_is_named_until_a_person_decides(pair: Pair) -> None:
    """On an idle partition, then found by a task, then with the record gone and drkit started again."""
    orders, quiet = pair.now.name("orders"), pair.now.name("quiet")
    side = _returned(pair, [orders, quiet])
    at = _stray(side, orders)

    found = _refused(side)  # nothing is copied: no task has looked there
    assert (SAID(found), f"{orders}-0 at {at}" in found.evidence) == (True, True), found
    assert not _known(side)

    fill(side.source, orders, 40, first=200)
    fill(side.source, quiet, 40, first=200)
    eventually(lambda: _known(side), what="the stop")
    assert list(_known(side)) == [f"{orders}/0"]
    side.copied([quiet])
    for number in (0, 1):
        status = _look(side, number)
        assert _states(status) == {orders: PairState.UNPROTECTED, quiet: PairState.PROTECTED}
        why = {t.topic: t.why for t in status.pair.topics}[orders]  # type: ignore[union-attr]
        assert f"{orders}-0 at offset {at}" in why
        codes = [f.code for f in status.faults]
        assert "unprotected" in codes
        assert ("returning_side_written" in codes) is (number == 0), "the flow that has stopped"
    assert SAID(_refused(side))
    with side.opposite.desk() as desk, pytest.raises(Refused, check=SAID):
        desk.begin_return(RunRequest(clients_cut=CUT))  # not that everything is copied
    ways = ways_of(side.settings, side.opposite.settings.flows[0])
    with pytest.raises(Refused, check=SAID):
        refuse_stopped(side.settings, ways)
    refuse_stopped(side.settings, ways._replace(topics=frozenset([quiet])))

    ends = side.offsets(side.target, orders)
    side.stop_replicating()
    admin = AdminClient(confluent_config(side.target))
    for future in admin.delete_records([ConfluentPartition(orders, 0, ends[0])]).values():
        future.result(30)
    side.replicate()
    fill(side.source, orders, 40, first=300)
    fill(side.source, quiet, 40, first=300)
    side.copied([quiet])
    eventually(
        lambda: len(side.records(side.target, orders)[1]) == len(side.records(side.source, orders)[1]),
        what="the other partition",
    )
    assert side.offsets(side.target, orders)[0] == ends[0], "nothing was copied after it"
    assert SAID(_refused(side)), "also where retention has removed it"

    with side.desk() as desk:
        assert desk.begin([], PLANNED, topics=[quiet])["state"] == "done", "what is not hit moves"


@pytest.fixture(scope="module")
def returned(
    source: LocalCluster, target: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    """A pair that has turned, with a topic for each switchover that the tests below begin."""
    pair = Pair(source, target, tmp_path_factory.mktemp("journal"))
    try:
        _returned(pair, [pair.now.name(name) for name in ("open", "late", "later")])
        yield pair
    finally:
        pair.close()


class OpenTransaction(DrainStep):
    """While the copy drains, a transaction of the client is open on the standby."""

    def __init__(self, side: Side, topic: str) -> None:
        self._topic = topic
        self.out = producer(side.target, transactional_id=side.name("stray"))

    def run(self, context: Context) -> StepResult:
        self.out.init_transactions(30)
        self.out.begin_transaction()
        put(self.out, self._topic, b"stray", b"stray", partition=0)
        assert self.out.flush(30) == 0
        return super().run(context)


@pytest.mark.wide
def test_a_transaction_that_is_open_while_the_copy_drains_counts(returned: Pair) -> None:
    side = returned.now
    topic = side.name("open")
    drain = OpenTransaction(side, topic)
    with side.desk(steps={**all_steps(), StepName.DRAIN: drain}) as desk, pytest.raises(Refused, check=SAID):
        desk.begin([], PLANNED, topics=[topic])
    drain.out.commit_transaction(30)
    with side.desk() as desk:
        assert desk.abort("for the test")["state"] == "aborted"
    assert SAID(_refused(side))


class LateStep(DrainStep):
    """A client writes to the standby when the switchover is already under way."""

    def __init__(self, side: Side, topic: str) -> None:
        self._side, self._topic = side, topic

    def run(self, context: Context) -> StepResult:
        _stray(self._side, self._topic)
        return super().run(context)


@pytest.mark.soak
def test_a_switchover_under_way_is_held_and_a_later_return_refuses_it(returned: Pair) -> None:
    """The record came after the first look of a switchover, or after the last. Nothing is copied any more."""
    side = returned.now
    late, later = side.name("late"), side.name("later")
    steps = {**all_steps(), StepName.DRAIN: LateStep(side, late)}
    with side.desk(steps=steps) as desk, pytest.raises(Refused) as held:
        desk.begin([], PLANNED, topics=[late])
    assert SAID(held.value)
    with side.desk() as desk:
        desk.abort("for the test")

    with side.desk() as desk:
        assert desk.begin([], PLANNED, topics=[later])["state"] == "done"
    side.stop_replicating()
    with StateTopic(side.target, side.source.alias) as state:
        state.load()
        ids, cut = state.all(GenerationRecord)[later], state.all(CutRecord)[later]
        found = WrittenRecord(ids.source_id, ids.target_id, 5, -1, 1, cut.skip_from[0])
        state.put(found, WrittenRecord.name_of(TopicPartition(later, 0)))
    with pytest.raises(Refused) as refused:
        returned.reprotect()
    assert refused.value.code == "decision_missing"
    assert f"{later}-0: it does not have 1 record of the new primary" in refused.value.evidence
