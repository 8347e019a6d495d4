"""A topic in quarantine whose owner has deleted it is begun again, and is drkit's as the first one was."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Self
from uuid import UUID

import pytest

from drkit.errors import Refused
from drkit.kafka.requests import TopicMetadata
from drkit.model import TopicPartition
from drkit.replay import destination as module
from drkit.replay.compare import Same, TailCounts
from drkit.replay.destination import Destination, Quarantine, TopicCopy
from drkit.replay.plan import PartitionPlan, begun_by
from drkit.replay.progress import QuarantineRecord, ReplayProgress
from drkit.replay.run import _moved
from drkit.replay.side import MISSING
from tests.support.errors import coded

SOURCE, NAME = TopicPartition("orders", 0), "orders.divergent.7"
AT = TopicPartition(NAME, 0)
OLD, NEW = UUID(int=2), UUID(int=3)
TAIL: Any = SimpleNamespace(origin=SimpleNamespace(run_id="r1"), topic_id=UUID(int=1), source=SOURCE, term=7)
HALF = ReplayProgress(
    run_id="r1", manifest="ab" * 32, source_topic="orders", source_id=UUID(int=1), partition=0, first=10,
    end=20, topic=NAME, topic_id=OLD, same=Same.NONE, compared_to=0, records=10, next=15, appended=5,
)  # fmt: skip


@pytest.mark.parametrize("topic_id", [MISSING, NEW])
@pytest.mark.parametrize("seen", [HALF, replace(HALF, next=20)])
def test_what_was_put_into_a_deleted_one_is_not_there(topic_id: UUID, seen: ReplayProgress) -> None:
    found = {seen.key: seen}
    assert begun_by(TAIL, Destination(AT, OLD), found) == seen
    assert begun_by(TAIL, Destination(AT, topic_id), found) is None
    assert begun_by(TAIL, Destination(AT, topic_id, cut=0), found) == seen, "a topic of clients"


@pytest.mark.parametrize(("planned", "again"), [(OLD, True), (MISSING, False), (NEW, False)])
def test_one_that_is_deleted_while_a_person_reads_the_plan_is_planned_again(
    planned: UUID, *, again: bool
) -> None:
    plan = PartitionPlan(TAIL, Destination(AT, planned), 0, b"", TailCounts(), {HALF.key: HALF})
    moved = _moved(plan, NEW)
    assert moved.to.topic_id == NEW
    assert (moved.seen == {}) is again


class Kafka:
    """One topic, and what was put on record."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, there: UUID | None, end: int = 0) -> None:
        self.there, self.did = there, list[object]()
        log: Any = SimpleNamespace(cluster=SimpleNamespace(alias="b"))
        export: Any = SimpleNamespace(run_id="r2", tails=(TAIL,))
        self.quarantine = Quarantine(log, export, {"orders": TopicCopy("orders", 1, 1_000)})
        monkeypatch.setattr(module, "describe_topics", lambda *_: self.topics())
        monkeypatch.setattr(module, "ensure_own_topic", lambda *_: self.create())
        monkeypatch.setattr(module, "create_partitions", lambda _, totals: self.grow(totals))
        monkeypatch.setattr(module, "list_offsets", lambda *_: {AT: end})

    def topics(self) -> dict[str, TopicMetadata]:
        return {} if self.there is None else {NAME: TopicMetadata(0, self.there, {0: None}, NAME)}  # type: ignore[dict-item]

    def create(self) -> TopicMetadata:
        self.there = self.there or NEW
        self.did.append("create")
        return self.topics()[NAME]

    def grow(self, totals: dict[str, int]) -> dict[str, Exception]:
        self.did.append(totals)
        return {}

    def of_partition(self, number: int) -> Self:
        tail = SimpleNamespace(source=TopicPartition("orders", number), term=7)
        self.quarantine._export = SimpleNamespace(run_id="r2", tails=(tail,))  # type: ignore[assignment]
        return self

    def made(self, known: QuarantineRecord | None) -> UUID:
        return self.quarantine.create(NAME, "orders", known, self.did.append).topic_id


def test_a_deleted_one_is_on_record_with_its_new_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the next replay would take it for another client's."""
    kafka = Kafka(monkeypatch, None)
    assert kafka.made(QuarantineRecord("r1", NAME, OLD)) == NEW
    assert kafka.did == [QuarantineRecord("r2", NAME), "create", QuarantineRecord("r2", NAME, NEW)]


def test_one_that_is_there_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = Kafka(monkeypatch, OLD, end=9)
    assert kafka.made(QuarantineRecord("r1", NAME, OLD)) == OLD
    assert kafka.did == ["create"]


def test_one_with_fewer_partitions_than_an_export_gets_more(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = Kafka(monkeypatch, OLD, end=9).of_partition(3)
    assert kafka.made(QuarantineRecord("r1", NAME, OLD)) == OLD
    assert kafka.did == ["create", {NAME: 4}]


def test_one_that_died_before_its_id_was_known_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = Kafka(monkeypatch, OLD)
    assert kafka.made(QuarantineRecord("r1", NAME)) == OLD
    assert kafka.did == ["create", QuarantineRecord("r1", NAME, OLD)]


@pytest.mark.parametrize("known", [None, QuarantineRecord("r1", NAME, OLD)])
def test_one_that_a_client_has_created_since_the_plan_gets_nothing(
    monkeypatch: pytest.MonkeyPatch, known: QuarantineRecord | None
) -> None:
    kafka = Kafka(monkeypatch, NEW)
    with pytest.raises(Refused, check=coded("quarantine_topic_foreign")):
        kafka.made(known)
    assert not kafka.did
