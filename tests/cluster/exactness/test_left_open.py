"""Transactions of drkit's own that miss markers: a broker that shut down left them out, or lost them."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent import futures
from typing import Any, NamedTuple

import pytest

from drkit.copy_task.target import bulk
from drkit.flow_state.copied_topics import CopiedPartition
from drkit.kafka.raw import Future, RawCluster
from drkit.kafka.transactions import ProducerIdentity, Transactions
from drkit.model import TopicPartition
from drkit.offset_map.left_open import is_in_map
from drkit.offset_map.locate import Located, PartitionLocator
from drkit.offsets import History, Intent, PartitionMap, Unavailable
from drkit.offsets.map_record import Mode
from drkit.offsets.resolution import Resolution
from drkit.offsets.translation import Exact, PartitionPosition
from tests.support.circles import in_wide
from tests.support.exactness.truth import Truth
from tests.support.failover.open_transaction import all_before_implicit_adding
from tests.support.flows.earlier_task import DATA, MAP, UNVERIFIED, EarlierTask
from tests.support.flows.exactness import ids_of, places
from tests.support.flows.flow import Flow
from tests.support.flows.produce import aged, fill

SOURCE = None
TARGET = {"properties": UNVERIFIED}
OLD = aged(3 * 365 * 86_400_000)
COPIED, OPEN, LATER = 10, 5, 7
HANGS_SECONDS = 3.0


class Readers(NamedTuple):
    """Answers of one moment about partition 0: to `drkit status`, and to translations."""

    status: Located
    position: PartitionPosition | Unavailable

    @classmethod
    def ask(cls, flow: Flow, topic: str) -> Readers:
        tp, own = TopicPartition(topic, 0), frozenset({flow.producer.id})
        copy = CopiedPartition(tp, tp, *ids_of(flow, topic))

        async def locate(target: RawCluster) -> Located:
            locator = PartitionLocator(target, flow.map_topic)
            return (await locator.locate([copy], own, is_copying=False))[tp]

        return cls(flow.ask(flow.target, locate), places(flow, topic)[0])

    def status_upstream(self) -> int | None:
        assert isinstance(self.status.answer, Resolution)
        assert not self.status.dropped
        return self.status.answer.upstream

    def exact(self, offsets: Iterable[int]) -> list[tuple[int, int, int, int]]:
        """Return exact answers as `Truth.asked` holds them."""
        assert isinstance(self.position, PartitionPosition)
        answers = {u: self.position.forward(u) for u in offsets}
        return [(0, 0, u, a.offset) for u, a in answers.items() if isinstance(a, Exact)]


@pytest.mark.wide
@pytest.mark.parametrize(
    ("known", "committed"),
    [
        (set(), [False, False]),
        in_wide({MAP}, [True]),
        in_wide({DATA}, [True]),
        in_wide({DATA, MAP}, []),
    ],
    ids=["both-open", "data-open", "map-open", "all-ended"],
)
def test_the_next_task_ends_them(flow: Flow, topic_name: str, known: set[str], committed: list[bool]) -> None:
    flow.create_both(topic_name, retention_ms="-1")
    truth = Truth(flow, topic_name)
    fill(flow.source, topic_name, COPIED, timestamp=OLD, linger_ms=200)
    flow.copy(topic_name)
    fill(flow.source, topic_name, OPEN, first=100, timestamp=OLD, linger_ms=200)
    EarlierTask(flow, flow.settings, topic_name, COPIED).works(known)
    fill(flow.source, topic_name, LATER, first=200, timestamp=OLD)
    flow.copy(topic_name)
    truth.is_exact(more_than=COPIED + OPEN + LATER - 1)
    assert [e["committed"] for e in flow.events("transaction_ended")] == committed


def answered(answers: dict[Any, Future], completed: Future, response: Any) -> None:
    for future in answers.values():  # of one partition; that version names no topic id
        future.success(response.responses[0].partition_responses[0])
    completed.success(None)


@pytest.mark.parametrize("missing", ["data", "map"])
def test_an_abort_takes_back_nothing_of_the_transaction_before_it(
    flow: Flow, topic_name: str, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A marker ends everything that a producer has open on a partition, also of an earlier transaction.

    Until the task writes the missing marker, readers name no wrong position.
    """
    flow.settings = flow.settings.model_copy(update={"bulk_commit_bytes": 1, "merge_below_bytes": 0})
    flow.create_both(topic_name, retention_ms="-1")
    truth, commits = Truth(flow, topic_name), list[bool]()
    readers, pool = list[futures.Future[Readers]](), futures.ThreadPoolExecutor(1)
    add, end = Transactions.add, Transactions.end

    async def added(self: Transactions, partitions: Iterable[TopicPartition]) -> None:
        hidden = topic_name if missing == "data" else flow.map_topic
        await add(self, [tp for tp in partitions if commits or tp.topic != hidden])

    async def ended(self: Transactions, *, commit: bool) -> None:
        await end(self, commit=commit)
        commits.append(commit)

    async def moved(*_: object) -> bool:
        return len(commits) == 1  # until the second one is broken

    async def began(self: Transactions) -> ProducerIdentity:
        if len(commits) == 1:  # its marker is missing
            commits.append(False)
            readers.append(pool.submit(Readers.ask, flow, topic_name))
            await self.cluster.loop.sleep(HANGS_SECONDS)
            assert readers[0].done() == (missing == "data"), "positions wait for the map"
        return await begin(self)

    begin = Transactions.begin_epoch
    for name, patch in (("add", added), ("end", ended), ("begin_epoch", began)):
        monkeypatch.setattr(Transactions, name, patch)
    all_before_implicit_adding(monkeypatch)
    monkeypatch.setattr(bulk.BulkAppender, "_answered", staticmethod(answered))
    monkeypatch.setattr(bulk, "moved", moved)
    for number in range(5):
        fill(flow.source, topic_name, COPIED, first=number * COPIED, timestamp=OLD, linger_ms=200)
    flow.copy(topic_name)
    assert len(commits) > 2
    answers = readers[0].result()
    assert answers.status_upstream() == (COPIED if missing == "data" else None)
    truth.asked += answers.exact(range(5 * COPIED))
    known = truth.is_exact(more_than=5 * COPIED - 1)["exact before"]
    assert known in ([1] if missing == "data" else range(COPIED + 1, 5 * COPIED + 2, COPIED)), "or later"
    assert [e["committed"] for e in flow.events("transaction_ended")] == [True]


@pytest.mark.wide
def test_what_a_later_transaction_copied_elsewhere_says_nothing_of_an_open_one() -> None:
    """The first one's abort marker is lost with all of the second one; the map knows the second one alone."""
    history = History(77, 0)
    state = PartitionMap()
    state.apply(Intent(Mode.BULK, 1, history, 0, 0, 0, 0, ((0, 100),), 0))
    state.apply(Intent(Mode.BULK, 2, history, 0, 150, 100, 0, ((100, 30),), 0))
    assert [is_in_map(state, at) for at in (0, 101, 150, 180)] == [True, False, True, False]
