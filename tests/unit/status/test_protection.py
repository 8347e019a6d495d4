"""When the target of a flow is no failover target yet, and what its last note of the source proves."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from drkit.clock import monotonic
from drkit.config import FlowSettings
from drkit.detect.risk import Sighting
from drkit.flow_state.records import ReturnRecord, SourceSeenRecord
from drkit.flow_state.state import FlowState
from drkit.kafka.codes import TOPIC_AUTHORIZATION_FAILED
from drkit.kafka.requests import PartitionLeader, TopicMetadata
from drkit.model import TopicPartition
from drkit.monitoring.metrics import FlowFigures
from drkit.pair.promotions import not_noted_since, returned_topics
from drkit.status.facts import is_whole_note, noted_ends, seen_record
from drkit.status.lag.source import EarlierEnds, Ends, UncopiedRange, UncopiedRecords, age_of
from drkit.status.model import Findings, FlowStatus, Loss, PartitionStatus
from drkit.status.pair.model import AlarmReason, PairAlarm, PairState, PairStatus, PairTopic
from drkit.status.protection import not_protected
from drkit.status.source_look import SourceLook, noted_look, partitions_of
from drkit.status.sums import copied_ms
from drkit.watch import senses
from drkit.watch.senses import loss_known

NOW, RPO = 1_000_000, 30.0
AT = TopicPartition("orders", 0)
PAIR = ("p", "s")


def part(records: int | None, number: int = 0, seconds: float | None = None) -> PartitionStatus:
    known = 0.0 if records == 0 else seconds
    return PartitionStatus("orders", "orders", number, 5, 9, 5, records, None, known, exact=False)


def status(
    *partitions: PartitionStatus,
    copied: int | None = None,
    pair: PairStatus | None = None,
    answers: bool = False,
    returned: tuple[str, ...] = ("orders",),
) -> FlowStatus:
    """The flow from the new primary s to the old one p, 8 s after s answered last."""
    known = [p.records for p in partitions if p.records is not None]
    loss = Loss(
        sum(known) if len(known) == len(partitions) else None, None, None, exact=False,
        source_seen_seconds=0.0 if answers else 8.0,
    )  # fmt: skip
    return FlowStatus(
        "s->p", "s", "p", NOW, "replicating", (), loss, None, None, partitions=partitions,
        source_answers=answers, copied_ms=copied, returned_topics=returned, pair=pair,
    )  # fmt: skip


def topic(state: PairState, *alarms: AlarmReason, direction: str = "s->p", active: str = "s") -> PairTopic:
    return PairTopic("orders", "orders", state, direction, active, "so", since_ms=1, alarms=alarms)


@pytest.mark.parametrize(
    ("found", "word"),
    [
        (topic(PairState.RETURNING), "RETURNING"),
        (topic(PairState.DIVERGED), "DIVERGED"),
        (topic(PairState.FAILING_BACK), "FAILING BACK"),
        (topic(PairState.DIVERGED, AlarmReason(PairAlarm.INCOMPLETE, "emptied")), "INCOMPLETE"),
        (topic(PairState.UNPROTECTED, AlarmReason(PairAlarm.INCOMPLETE, "emptied")), "INCOMPLETE"),
        (topic(PairState.PROTECTED), ""),
        (topic(PairState.UNPROTECTED), ""),
        (topic(PairState.RETURNING, direction="p->s", active="p"), ""),
    ],
    ids=lambda x: x if isinstance(x, str) else x.state.value,
)
def test_a_look_at_both_clusters_says_it(found: PairTopic, word: str) -> None:
    """Of a copy that is late and no more, the seconds decide; the other direction is its own flow's."""
    lines = not_protected(status(part(0), pair=PairStatus(PAIR, (found,)), answers=True), RPO)
    assert [line.split(":")[0] for line in lines] == [word] * bool(word)


def test_where_the_pair_cannot_be_read_the_target_alone_says_it() -> None:
    pair = PairStatus(PAIR, (topic(PairState.UNKNOWN),))
    for seconds, holds in ((600.0, True), (2.0, False), (None, True)):
        found = status(part(0), part(40, 1, seconds), pair=pair, answers=True)
        assert bool(not_protected(found, RPO)) is holds


@pytest.mark.parametrize(
    ("partitions", "copied", "holds"),
    [
        ((part(0), part(0, 1)), None, False),
        ((part(0), part(40, 1)), NOW - 8_000 - 600_000, True),
        ((part(0), part(40, 1)), NOW - 8_000 - 2_000, False),
        ((part(0), part(40, 1)), None, True),
        ((part(0), part(None, 1)), NOW - 8_000, True),
    ],
    ids=["all of it", "old records are missing", "in step", "of unknown age", "an end is unknown"],
)
def test_the_target_alone_says_it(
    partitions: tuple[PartitionStatus, ...], copied: int | None, *, holds: bool
) -> None:
    """The source is silent: what it had is known by the last note of its ends."""
    lines = not_protected(status(*partitions, copied=copied), RPO)
    assert bool(lines) is holds
    assert not holds or lines[0].endswith("1 of 2 partitions")
    assert not not_protected(status(*partitions, copied=copied, returned=()), RPO), "it never came back"


def _held(now: FlowStatus, at_both: tuple[str, ...] | None) -> tuple[str, ...]:
    """What holds a watch, by the newest look and by the last one at both clusters."""
    made: Any = object.__new__(senses.Senses)
    made._unprotected, made._rpo_seconds = at_both, RPO
    return made._not_whole(now)  # type: ignore[no-any-return]


@pytest.mark.parametrize("answers", [True, False], ids=["the primary is up", "it is lost"])
def test_a_watch_holds_until_the_first_note_since_a_turn(*, answers: bool) -> None:
    """A failover refuses then: an automatic one that begins ends at its gate."""
    pair = PairStatus(PAIR, (topic(PairState.UNPROTECTED),))
    turned = replace(status(part(0), pair=pair, answers=answers), not_noted_topics=("orders",))
    assert _held(turned, ()) == ("what s has of 1 topic (orders) is not noted on p since the turn",)
    assert _held(turned, ("else",))[0] == "else"
    noted = replace(turned, not_noted_topics=())
    assert _held(noted, ()) == (), "the note came after the last look at both; what is late only is no hold"
    assert _held(replace(turned, target_answers=False, not_noted_topics=()), ("else",)) == ("else",)


def test_only_topics_of_a_turn_wait_for_a_note() -> None:
    assert _held(status(part(0), answers=True, pair=PairStatus(PAIR, ()), returned=()), ()) == ()


def test_a_note_from_before_a_return_says_nothing_of_its_topics() -> None:
    """A copy that had all of the noted ends may have been emptied since."""
    state = FlowState()
    note = seen_record({AT: Ends(0, 9), TopicPartition("other", 0): Ends(0, 4)}, NOW, NOW - 5)
    state.take(note.key().encode(), note.encode())
    assert noted_ends(state).keys() == {AT, TopicPartition("other", 0)}
    back = ReturnRecord("run1", "run2", NOW + 1)
    state.take(back.key("orders").encode(), back.encode())
    assert returned_topics(state) == ("orders",)
    assert noted_ends(state).keys() == {TopicPartition("other", 0)}


def test_a_note_counts_for_the_turns_that_its_writer_knew() -> None:
    """The run of a turn and the replicator have clocks of their own: no time says which of both was first."""
    state = FlowState()
    back = ReturnRecord("run1", "run2", NOW)
    state.take(back.key("orders").encode(), back.encode())
    assert not_noted_since(state) == {"orders"}, "there is no note"
    knowing = state.readable(ReturnRecord)
    for note, late in (
        (seen_record({AT: Ends(0, 9)}, NOW + 60_000, NOW), True),
        (seen_record({AT: Ends(0, 9)}, NOW - 60_000, NOW, knowing), False),
    ):
        assert SourceSeenRecord.decode(note.encode()) == note
        state.take(note.key().encode(), note.encode())
        assert bool(not_noted_since(state)) == late
        assert (bool(noted_ends(state)), is_whole_note(state)) == (not late, not late)
    again = ReturnRecord("run1", "run3", NOW)
    state.take(again.key("orders").encode(), again.encode())
    assert not_noted_since(state) == {"orders"}, "another turn since"
    note = seen_record({AT: Ends(0, 9)}, NOW, NOW, state.readable(ReturnRecord))
    state.take(note.key().encode(), note.encode())
    assert not_noted_since(state) == set()
    state.take(again.key("other").encode(), again.encode())
    assert not_noted_since(state) == {"orders", "other"}, "the turn has begun one more"
    newest = ReturnRecord("run4", "run5", NOW)
    state.take(newest.key("other").encode(), newest.encode())
    assert not_noted_since(state) == {"other"}


def test_the_note_of_an_earlier_release_is_compared_by_time() -> None:
    state = FlowState()
    back = ReturnRecord("run1", "run2", NOW)
    state.take(back.key("orders").encode(), back.encode())
    for at_ms, late in ((NOW, {"orders"}), (NOW + 1, set())):
        note = SourceSeenRecord(at_ms, {}, NOW)
        assert b"returns" not in note.encode()
        state.take(note.key().encode(), note.encode())
        assert not_noted_since(state) == late


def test_the_note_reads_back_with_the_age_of_what_was_missing() -> None:
    noted = seen_record({AT: Ends(0, 9)}, NOW, NOW - 600_000)
    found = SourceSeenRecord.decode(noted.encode())
    assert (found, found.copied_ms) == (noted, NOW - 600_000)
    earlier = SourceSeenRecord.decode(seen_record({AT: Ends(0, 9)}, NOW).encode())
    assert (earlier.copied_ms, earlier.ends) == (None, {AT: Ends(0, 9)})
    assert b"copied_ms" not in seen_record({}, NOW).encode()


def test_a_look_without_some_leaders_shows_nothing() -> None:
    """The partitions whose leader is away are not among the ends, and may be far behind."""
    flow = FlowSettings(source="p", target="s", topics_exclude="left", naming="identity")
    leader = PartitionLeader(1, 0)
    known = {n: TopicMetadata(0, UUID(int=1), {0: leader}) for n in ("orders", "left")}
    look, second = SourceLook(known, {AT: Ends(0, 9)}), TopicPartition("orders", 1)
    copies = [AT, second, TopicPartition("gone", 0), TopicPartition("left", 0)]
    assert partitions_of(copies, flow, look) == [AT], "of the others, one is deleted, one not selected now"
    more = look._replace(topics={"orders": TopicMetadata(0, UUID(int=1), {0: leader, 1: leader})})
    assert partitions_of([AT], flow, more) == [AT, second]
    assert (more.no_end_of(AT), more.no_end_of(second)) == ("", "it has no leader on the source that answers")
    hidden = SourceLook({"orders": TopicMetadata(TOPIC_AUTHORIZATION_FAILED, UUID(int=0), {})}, {})
    assert partitions_of(copies, flow, hidden) == [AT, second]
    assert hidden.no_end_of(second) == "drkit may not see the topic on the source"
    assert partitions_of([TopicPartition("orders", -1)], flow, hidden) == [AT], "the copy is gone, too"
    loss = Loss(0, 0, 2.0, exact=True, source_seen_seconds=0.0)
    assert copied_ms(Findings(NOW, NOW), loss) == NOW - 2000
    no_end = replace(part(None), source_end=None)
    assert copied_ms(Findings(NOW, NOW, partitions=[no_end]), loss) is None
    assert copied_ms(Findings(NOW, NOW, source_error="gone", noted_copied_ms=7), loss) == 7


def test_a_whole_note_names_all_that_a_silent_source_had() -> None:
    """A topic that was deselected or deleted once, or a partition that the copy alone has, has no end in it.

    Its loss counted as unknown, and no automatic failover followed for as long as the copy was there.
    """
    flow = FlowSettings(source="p", target="s", topics_exclude="left", naming="identity")
    copies = [AT, TopicPartition("orders", 1), TopicPartition("left", 0), TopicPartition("deleted", -1)]
    state = FlowState()
    for copied, found in ((NOW - 5, [AT]), (None, [AT, TopicPartition("orders", 1)])):
        note = seen_record({AT: Ends(0, 9)}, NOW, copied)
        state.take(note.key().encode(), note.encode())
        assert partitions_of(copies, flow, noted_look(state, "gone")) == found
    note = seen_record({AT: Ends(0, 9)}, NOW, NOW - 5)
    state.take(note.key().encode(), note.encode())
    back = ReturnRecord("run1", "run2", NOW + 1)
    state.take(back.key("orders").encode(), back.encode())
    look = noted_look(state, "gone")
    assert (look.copied_ms, partitions_of(copies, flow, look)) == (None, copies[:2]), "copied again since"


@pytest.mark.parametrize("oldest", [None, NOW + 3_600_000], ids=["not read", "from the future"])
def test_where_the_oldest_record_has_no_age_earlier_looks_say_how_old_it_is(oldest: int | None) -> None:
    """In a busy flow of many partitions nothing else says until when everything was copied."""
    earlier, waits = EarlierEnds(), {AT: UncopiedRecords(7, None, oldest, exact=False)}
    assert age_of(oldest, NOW) is None
    assert age_of(NOW + 1500, NOW) == 0, "two clocks differ by a little"
    gap = [UncopiedRange(AT, 20, 27)]

    def seen(at_ms: int, end: int, *, mark: int | None = None) -> int | None:
        return earlier.dated(at_ms, at_ms, {AT: Ends(0, end, mark)}, gap, waits)[AT].oldest_ms

    assert seen(NOW, 12) is None, "there was no look before"
    assert seen(NOW + 5000, 19, mark=22) == NOW, "an open transaction held records back, which are behind 20"
    assert seen(NOW + 10_000, 27) == NOW
    assert seen(NOW + 31_000, 27) is None, "that is too long ago"
    assert seen(NOW - 1, 27) is None, "the clock has jumped back"


def test_the_note_bounds_the_loss_of_a_watch() -> None:
    seen = Sighting(NOW, NOW - 6000, None, NOW - 5500)
    for copied, seconds in ((None, None), (NOW - 600_000, 595.0)):
        found = loss_known(status(part(1_000_000), copied=copied), seen, silent=True)
        assert found.risk(5.0).seconds == seconds


def test_a_watch_that_saw_everything_copied_does_not_bound_what_the_standby_has_lost_since() -> None:
    seen = Sighting(NOW, NOW - 6000, None, NOW - 5500, copied_ms=NOW - 1000)
    for dropped, seconds in ((0, 1.0), (7, None)):
        found = loss_known(status(replace(part(7), dropped=dropped), copied=None), seen, silent=True)
        assert found.risk(None).seconds == seconds


def test_a_later_look_replaces_an_earlier_one() -> None:
    """A partition that was copied once is emptied in a return: the earlier look would hide that."""
    made: Any = object.__new__(senses.Senses)
    made._copied, made._unprotected, made._rpo_seconds = None, None, RPO
    found: Any = status(part(0), answers=True, pair=PairStatus(PAIR, (topic(PairState.PROTECTED),)))
    for seconds, copied in ((0.0, 100.0), (60.0, 50.0), (None, 50.0)):
        loss = found.loss.__class__(0, 0, seconds, exact=True, source_seen_seconds=0.0)
        at = None if seconds is None else NOW
        looked = FlowStatus(
            found.flow, "s", "p", NOW, "replicating", (), loss, None, None, pair=found.pair, copied_ms=at
        )
        made.watch = SimpleNamespace(figures=FlowFigures(looked, monotonic()))
        made._take_look(100.0 if seconds is None or not seconds else 110.0)
        assert made._copied == pytest.approx(copied, abs=0.5)
        assert made._unprotected == ()
    waited = replace(looked, loss=replace(loss, seconds=0.0), copied_ms=NOW)
    made.watch = SimpleNamespace(figures=FlowFigures(waited, monotonic() - 20))
    made._take_look(110.0)
    assert made._copied == pytest.approx(90.0, abs=0.5), "as of its begin: its end waited for a link"
