"""Whether both sides are open while a return is under way, and what to type then. No clusters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from drkit.journal.machine import RETURN
from drkit.pair.view import FenceSeen
from drkit.status.pair.facts import DirectionFacts
from drkit.status.pair.model import PairAlarm, PairState
from tests.support.status.pair_facts import OVER, RUN, TOPIC, back, only, promoted

DIED = replace(OVER, promoted=promoted(planned=False), fences={TOPIC: FenceSeen.GONE})
"""The forward flow after a failover whose fence somebody has taken away since."""
AT = "p does not have the fence that is on record"
RESUME = "drkit reprotect --flow 'p->s' --resume fences it again"
PAY = "drkit reprotect --flow 'p->s' --abort, then: drkit fence pay --flow 'p->s'"


def during(step: str, held: str = "", over: DirectionFacts = DIED, **more: Any) -> DirectionFacts:
    return replace(over, run=RUN._replace(table=RETURN.name, step=step, held=held, **more))


@pytest.mark.parametrize("step", ["CONTACT", "COMPARE", "EXPORT", "DECIDE", "DEMOTE", "BEGIN", "REPLAY"])
def test_a_held_return_does_not_hide_a_fence_that_is_taken_away(step: str) -> None:
    """It is held for hours, and fences nothing in that time."""
    found = only(during(step, held="a decision is missing"), back())
    assert found.state is PairState.FAILING_BACK
    assert found.why_of(PairAlarm.BOTH_OPEN) == f"{AT}; the return f9 is held at {step}: {RESUME}"


@pytest.mark.parametrize(
    ("step", "said"),
    [("", ""), ("LOCK", ""), ("CONTACT", ""), ("COMPARE", AT), ("EXPORT", AT), ("DECIDE", AT), ("DEMOTE", AT),
     ("BEGIN", ""), ("REPLAY", ""), ("OF A LATER DRKIT", "")],
)  # fmt: skip
def test_a_return_at_work_fences_first_and_lifts_in_the_end(step: str, said: str) -> None:
    """A process that was killed leaves such a run, too: its fence is up from CONTACT to BEGIN."""
    assert only(during(step), back()).why_of(PairAlarm.BOTH_OPEN) == said
    off_the_record = replace(DIED, fences={}, fenced_by={"f1": "acl"})
    assert only(during(step, over=off_the_record), back()).alarm is None


def test_a_return_puts_up_no_fence_of_a_switchover() -> None:
    planned = replace(DIED, promoted=promoted())
    why = only(during("DECIDE", "undecided", planned), back()).why_of(PairAlarm.BOTH_OPEN)
    assert why == f"{AT}; the return f9 is held at DECIDE: {PAY}"
    rolling_back = only(during("DECIDE", "p refuses", aborting=True), back())
    assert rolling_back.why_of(PairAlarm.BOTH_OPEN) == f"{AT}; the return f9 is held at DECIDE: {PAY}"


@pytest.mark.parametrize(("step", "is_open"), [("CONTACT", True), ("DECIDE", True), ("BEGIN", False)])
def test_a_fence_that_the_return_itself_has_lifted_is_no_alarm(step: str, *, is_open: bool) -> None:
    """It lifts a fence by size for the copy, and the record of it; clients are kept off as was said."""
    lifted = replace(DIED, fences={}, fenced_by={"f1": "max.message.bytes"})
    why = only(during(step, "held", lifted), back()).why_of(PairAlarm.BOTH_OPEN)
    said = "p answers, and its fence (max.message.bytes) is not on record any more"
    assert why == (f"{said}; the return f9 is held at {step}: {RESUME}" if is_open else "")


def test_a_return_of_the_opposite_flow_answers_an_earlier_promotion() -> None:
    earlier = back(run=RUN._replace(table=RETURN.name, step="CONTACT", held="s moves"))
    found = only(DIED, earlier)
    assert found.why_of(PairAlarm.BOTH_OPEN) == AT
    assert "drkit reprotect --flow 's->p' --resume" in found.why


def test_a_fence_that_is_pending_while_the_return_is_held() -> None:
    pending = replace(DIED, fences={TOPIC: FenceSeen.PENDING})
    said = "p answers, and is not fenced since the failover"
    assert only(during("CONTACT", over=pending), back()).why_of(PairAlarm.BOTH_OPEN) == said
    why = only(during("CONTACT", "p moves", pending), back()).why_of(PairAlarm.BOTH_OPEN)
    assert why == f"{said}; the return f9 is held at CONTACT: {RESUME}"
