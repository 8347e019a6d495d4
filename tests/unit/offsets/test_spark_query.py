"""Which offsets of a query decide what it reads, and that its next batch holds the same records there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.model import TopicPartition
from drkit.offsets import Unavailable
from drkit.offsets.spark_query import FirstOffsets, LoggedBatch, NewLog, QueryLog, Use, kafka_text, renew
from drkit.offsets.translation import Exact, PartitionPosition, Translation
from tests.support.offsets.segments import place, runs

AT = TopicPartition("orders", 0)
THERE = TopicPartition("a.orders", 0)
OTHER = '{"logOffset":4}'


def batch(*offsets: int | str | None, version: str = "v1") -> LoggedBatch:
    """Sources in order; a number is a Kafka source's offset in the one partition."""
    texts = [kafka_text({AT: o}) if isinstance(o, int) else o for o in offsets]
    return LoggedBatch(version, "{}", {str(i): text for i, text in enumerate(texts)})


def log(
    offsets: Mapping[int, LoggedBatch], committed: int | None = None, first: int | None = None
) -> QueryLog:
    begun = {} if first is None else {"0": FirstOffsets(b"\0v1\n", {AT: first})}
    return QueryLog(offsets, committed, begun)


def table(answers: Mapping[int, Translation]) -> object:
    """Offsets of the one partition by a table."""
    return lambda at, offset: (TopicPartition(f"a.{at.topic}", at.partition), answers[offset])


def shifted(at: TopicPartition, offset: int) -> tuple[TopicPartition, Translation]:
    return TopicPartition(f"a.{at.topic}", at.partition), Exact(offset - 3)


def uses(new: NewLog) -> list[tuple[Use, int, int | None]]:
    return [(p.use, p.offset, p.to_offset) for p in new.positions]


def ends(new: NewLog) -> dict[int, str | None]:
    return {n: LoggedBatch.parse(data).sources["0"] for n, data in sorted(new.offsets.items())}


def test_a_committed_batch_ends_where_the_query_reads_on() -> None:
    some = log({7: batch(10), 8: batch(20), 9: batch(30)}, committed=9, first=5)
    assert not some.open
    new = renew(some, shifted)
    assert uses(new) == [(Use.NEXT, 30, 27), (Use.PAST, 20, 17)]
    assert ends(new) == {n: f'{{"a.orders":{{"0":{10 * (n - 6) - 3}}}}}' for n in (7, 8, 9)}
    assert new.first == {"0": b'\0v1\n{"a.orders":{"0":2}}'}


@pytest.mark.parametrize("committed", [8, None])
def test_a_batch_that_was_only_planned_keeps_both_its_ends(committed: int | None) -> None:
    some = log({8: batch(20), 9: batch(30)}, committed, first=5)
    assert some.open
    assert uses(renew(some, shifted)) == [(Use.START, 20, 17), (Use.END, 30, 27)]


def test_the_first_batch_begins_at_the_first_offsets() -> None:
    new = renew(log({0: batch(30)}, None, first=5), shifted)
    assert uses(new) == [(Use.START, 5, 2), (Use.END, 30, 27)]


def test_without_a_batch_the_first_offsets_are_all_there_is() -> None:
    assert uses(renew(log({}, None, first=5), shifted)) == [(Use.NEXT, 5, 2)]
    assert not renew(log({}), shifted).positions


def test_a_source_that_had_nothing_yet_begins_at_its_first_offsets() -> None:
    some = log({3: batch(None), 4: batch(None)}, 4, first=5)
    assert uses(renew(some, shifted)) == [(Use.NEXT, 5, 2)]
    assert uses(renew(replace(some, committed=3), shifted)) == [(Use.START, 5, 2)]


def test_numbers_may_be_missing_with_asynchronous_progress() -> None:
    some = log({2: batch(10), 5: batch(20), 9: batch(30)}, committed=5)
    assert uses(renew(some, shifted)) == [(Use.START, 20, 17), (Use.END, 30, 27)]


def test_sources_of_other_kinds_and_kept_ones_stay() -> None:
    some = log({0: batch(10, OTHER, 11, None, version="v2")}, committed=0)
    assert some.kafka_sources() == {"0", "2"}
    new = renew(some, shifted, keep=["2"])
    assert uses(new) == [(Use.NEXT, 10, 7)]
    assert LoggedBatch.parse(new.offsets[0]).sources == {
        "0": '{"a.orders":{"0":7}}', "1": OTHER, "2": kafka_text({AT: 11}), "3": None
    }  # fmt: skip


def test_history_that_is_unknown_is_left_out() -> None:
    unknown = Unavailable("copied by another replicator")
    answers = {o: unknown if o in {1, 5} else Exact(o) for o in range(10)}
    some = log({n: batch(n) for n in range(10)}, committed=9, first=1)
    new = renew(some, table(answers))  # type: ignore[arg-type]
    assert sorted(new.offsets) == [6, 7, 8, 9]
    assert sorted(new.left_out) == [0, 1, 2, 3, 4, 5]
    assert new.first_left_out == ["0"]
    assert not new.refused(accept_loss=False)


@pytest.mark.parametrize("bad", [8, 9])
def test_the_last_two_batches_are_needed(bad: int) -> None:
    answers = {o: Unavailable("no") if o == bad else Exact(o) for o in range(10)}
    some = log({n: batch(n) for n in range(10)}, committed=9)
    refused = renew(some, table(answers)).refused(accept_loss=True)  # type: ignore[arg-type]
    assert [(p.topic, p.partition, p.offset, p.refused) for p in refused] == [("orders", 0, bad, "no")]


@pytest.mark.parametrize("special", [-1, -2])
def test_earliest_and_latest_are_no_positions(special: int) -> None:
    refused = renew(log({0: batch(special)}, 0), shifted).refused(accept_loss=True)
    assert "no position" in refused[0].refused


def test_records_that_are_gone_need_a_word() -> None:
    behind = Exact(50, "behind retention: the target begins at 50", skipped=30)
    beyond = Exact(60, "after the last copied record", reached=False)
    answers = {20: behind, 70: beyond, 71: beyond}
    opened = log({1: batch(20), 2: batch(70)}, committed=1)
    new = renew(opened, table(answers))  # type: ignore[arg-type]
    assert [p.use for p in new.refused(accept_loss=False)] == [Use.START, Use.END]
    assert new.refused(accept_loss=True) == []
    # Read already, though lost there: nothing is missed.
    new = renew(log({1: batch(20), 2: batch(70)}, committed=2), table(answers))  # type: ignore[arg-type]
    assert new.refused(accept_loss=False) == []
    # The planned batch has nothing of this partition.
    new = renew(log({1: batch(70), 2: batch(70)}, committed=1), table(answers))  # type: ignore[arg-type]
    assert new.refused(accept_loss=False) == []


@given(runs, st.integers(0, 3), st.data())
def test_the_next_batch_holds_the_same_records(
    shape: list[tuple[int, int, int]], hole: int, data: st.DataObject
) -> None:
    """P31: what a batch was planned with is what it gets there."""
    at, pairs = place(shape, hole)
    assert at.frontier is not None
    start = data.draw(st.integers(0, at.frontier))
    end = data.draw(st.integers(start, at.frontier))
    new = renew(log({1: batch(start), 2: batch(end)}, committed=1), lambda p, o: (p, at.forward(o)))
    assert not new.refused(accept_loss=False)
    begins, ends_at = (p.to_offset for p in new.positions)
    assert begins is not None
    assert ends_at is not None
    assert begins <= ends_at
    assert [u for u, d in pairs if begins <= d < ends_at] == [u for u, _ in pairs if start <= u < end]


@given(runs, st.integers(0, 3), st.integers(1, 9))
def test_when_the_source_is_gone_only_a_whole_batch_runs_again(
    shape: list[tuple[int, int, int]], hole: int, ahead: int
) -> None:
    at, _ = place(shape, hole)
    assert at.frontier is not None
    gone: PartitionPosition = replace(at, frozen=True, source_end=None)
    planned = log({1: batch(0), 2: batch(at.frontier + ahead)}, committed=1)
    new = renew(planned, lambda p, o: (p, gone.forward(o)))
    assert [p.use for p in new.refused(accept_loss=False)] == [Use.END]
    assert not new.refused(accept_loss=True)
    never = PartitionPosition(frozen=True)
    new = renew(planned, lambda p, o: (p, never.forward(o)))
    assert [p.use for p in new.refused(accept_loss=False)] == [Use.END]
