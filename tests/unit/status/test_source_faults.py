"""What a flow's status says by the record of the fence on its source: a command that is not refused. Pure."""

from __future__ import annotations

from dataclasses import replace

from drkit.flow_state.source_fence.entries import FenceLog, FenceMark, FenceRecord
from drkit.pair.view import FenceSeen
from drkit.status.faults import ABORTED_AT_SOURCE, with_source_record
from drkit.status.pair.facts import DirectionFacts
from drkit.status.pair.journal import RunUnderWay
from tests.support.status.pair_facts import status

TOPICS = frozenset({"orders"})
ABORT = "drkit failover --abort --flow 'p->s'"
RESUME = "drkit failover --resume --accept-data-loss \"REASON\" --flow 'p->s'"


def fault(*, target_answers: bool, may_be_open: bool, has_opened: bool = False) -> str:
    """The text of the fault of a run that was aborted at the source."""
    log = FenceLog()
    log.records["r1"] = FenceRecord(
        "r1", 1, 5, FenceMark.ABORTED, TOPICS, lifted=True, may_be_open=may_be_open
    )
    run = RunUnderWay("r1", "failover", TOPICS, "OPEN" if has_opened else "DRAIN", has_opened=has_opened)
    seen = replace(status("replicating"), target_answers=target_answers)
    facts = DirectionFacts("p", "s", run=run if target_answers else None)
    [found] = with_source_record(seen, log, facts).faults
    assert found.code == ABORTED_AT_SOURCE
    return found.text


def test_a_run_that_may_be_aborted_is_ended_by_its_abort() -> None:
    for opens in (False, True):
        assert fault(target_answers=True, may_be_open=opens).endswith(f": {ABORT}")
    assert fault(target_answers=False, may_be_open=False).endswith(f"when the target is back: {ABORT}")


def test_a_run_whose_open_has_begun_is_continued_by_a_person_who_says_why() -> None:
    """The abort refuses it: there is no way back."""
    text = fault(target_answers=True, may_be_open=True, has_opened=True)
    assert text.endswith(f"to continue it: {RESUME}")
    assert "--abort" not in text


def test_while_the_target_is_away_both_are_named_where_it_may_be_open() -> None:
    text = fault(target_answers=False, may_be_open=True)
    assert text.endswith(f"when the target is back: {ABORT}; where OPEN had begun: {RESUME}")


def test_a_fence_that_the_source_alone_has_on_record_is_named_with_the_command_that_lifts_it() -> None:
    log, known = FenceLog(), DirectionFacts("p", "s")
    log.records["r1"] = FenceRecord("r1", 1, 5, FenceMark.OPENING, TOPICS)
    [found] = with_source_record(status("replicating"), log, known).faults
    assert found.code == "both_closed"
    lift = "drkit fence lift --flow 'p->s' --accept-divergence"
    assert found.text.endswith(f'{lift} "REASON"'), found.text
    run = RunUnderWay("r1", "failover", TOPICS, "DRAIN")
    for told in (
        replace(known, run=run, copies={"orders": "orders"}),
        replace(known, fenced_by={"r1": "acl"}),
        replace(known, fences={"orders": FenceSeen.STANDS}),
        replace(known, unread="it is damaged"),
        replace(known, runs_unknown="it does not answer"),
    ):
        assert with_source_record(status("replicating"), log, told).faults == ()


def test_a_run_whose_state_was_deleted_is_named_with_its_abort() -> None:
    log, run = FenceLog(), RunUnderWay("r1", "failover", TOPICS, "DRAIN")
    log.records["r1"] = FenceRecord("r1", 1, 5, FenceMark.RAISED, TOPICS)
    facts = DirectionFacts("p", "s", run=run, fenced_by={"r1": "acl"})
    [found] = with_source_record(status("replicating"), log, facts).faults
    assert found.code == "both_closed"
    assert found.text.endswith(f"start drkit replicate, which makes its state again, then: {ABORT}")
    opened = replace(facts, run=run._replace(has_opened=True))
    assert with_source_record(status("replicating"), log, opened).faults == ()
