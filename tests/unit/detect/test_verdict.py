"""The table of verdicts: what may never be, whatever the picture, and a picture for each row."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
import pytest

from drkit.detect.reasons import Reason
from drkit.detect.risk import Risk
from drkit.detect.seen import Sight, SourceView
from drkit.detect.verdict import (
    ABOUT_THE_PRIMARY,
    AGAINST_A_FAILOVER,
    TABLE,
    AutoFacts,
    Picture,
    VerdictKind,
    judge,
)
from drkit.detect.votes import Tally
from tests.support.detect.pictures import (
    AUTO,
    CASES,
    DECIDED,
    FINE,
    LOST,
    pictures,
    seen,
)
from tests.support.examples import times


@pytest.mark.parametrize(("reason", "picture"), CASES, ids=lambda c: c.value if isinstance(c, Reason) else "")
def test_each_row_has_its_picture(reason: Reason, picture: Picture):
    found = judge(picture)
    assert found.reason is reason
    assert found.kind is next(r.kind for r in TABLE if r.reason is reason)
    assert found.next
    assert found.evidence or reason is Reason.UNCONFIRMED
    assert found.as_dict()["verdict"] == found.kind.name


def test_no_row_is_forgotten():
    assert {reason for reason, _ in CASES} == set(Reason)
    assert len({r.reason for r in TABLE}) == len(TABLE)


def test_everything_that_holds_a_failover_back_is_reported():
    found = judge(
        replace(LOST, paused="by ann", blockers=("x",), risk=Risk(None, None, exact=False, basis="?"))
    )
    assert found.name == "HOLD(paused)"
    assert found.obstacles == (Reason.PAUSED, Reason.TARGET_NOT_READY, Reason.LAG_UNKNOWN)
    assert found.primary_lost
    assert not judge(FINE).obstacles


@given(pictures())
def test_lost_only_when_nothing_speaks_against_it(p: Picture):
    found = judge(p)
    assert (found.kind is VerdictKind.LOST) == (found.primary_lost and not found.obstacles)
    if not found.primary_lost:
        return
    assert p.seen.sight is Sight.GONE
    assert p.target_answers
    assert not p.promoted
    # Never before a copy that moves would have been seen moving.
    assert p.watched_for is None or p.watched_for >= p.still_seconds
    # Never while replication moves.
    assert p.moved_ago is None or p.moved_ago >= p.still_seconds
    assert p.phi is not None
    assert p.phi >= p.threshold
    # Never from one observer's view where there are others, never by two alone, never against one who sees
    # it.
    assert not p.tally.alive or p.fenced
    assert 2 * len(p.tally.gone) > p.tally.observers
    assert p.tally.observers != 2
    assert p.tally.observers == 1 or len(p.tally.gone) >= 2


def test_a_watch_that_has_only_begun_says_so_and_not_that_replication_moves():
    """The first line of the night's runbook said that clients probably work on a primary that was dead."""
    fresh = replace(LOST, phi=736.0, beat_silence=33.1, moved_ago=33.1, watched_for=3.0, still_seconds=5.0)
    found = judge(fresh)
    assert (found.name, found.primary_lost) == ("HOLD(not_watched_yet)", False)
    assert found.next == "wait: confirm_seconds"
    assert any(line.startswith("not watched long enough: for 3.0 s") for line in found.evidence)
    assert not fresh.moves
    assert judge(replace(fresh, watched_for=5.0)).kind is VerdictKind.LOST
    assert judge(replace(fresh, moved_ago=0.5)).reason is Reason.REPLICATION_MOVES, "what is seen counts"
    sees = replace(fresh, tally=Tally(3, gone=("a", "b"), alive=("c",)))
    assert judge(sees).reason is Reason.OBSERVERS_DISAGREE


@given(pictures())
def test_mode_auto_asks_for_more(p: Picture):
    if p.auto is None or judge(p).kind is not VerdictKind.LOST:
        return
    assert p.auto.acknowledged
    assert p.auto.last_seconds is None or p.auto.last_seconds >= p.auto.window_seconds
    assert len(p.auto.agents_armed) >= p.auto.agents
    waited = p.tally.abstained_seconds
    assert len(p.auto.agents_fenced) >= p.auto.agents or (
        waited is not None and waited >= p.auto.delay_seconds
    )
    assert judge(replace(p, auto=None)).kind is VerdictKind.LOST


WORSE = [
    lambda p: replace(p, phi=None if p.phi is None else p.phi + 5),
    lambda p: replace(p, moved_ago=None if p.moved_ago is None else p.moved_ago + 5),
    lambda p: replace(p, tally=_turned(p.tally, "alive")),
    lambda p: replace(p, tally=_turned(p.tally, "unsure")),
    *(lambda p, s=s: replace(p, seen=_worse(p.seen, s))
      for s in (Sight.FADING, Sight.PARTIAL, Sight.FEW, Sight.GONE)),
]  # fmt: skip
ORDER = (Sight.CLEAR, Sight.FADING, Sight.PARTIAL, Sight.FEW, Sight.GONE)


def _worse(before: SourceView, sight: Sight) -> SourceView:
    if before.sight not in ORDER or ORDER.index(before.sight) > ORDER.index(sight):
        return before
    return seen(sight)


def _turned(tally: Tally, which: str) -> Tally:
    """One vote of a kind says "gone" instead."""
    voters = getattr(tally, which)
    if not voters:
        return tally
    return replace(tally, gone=tuple(sorted({*tally.gone, voters[0]})), **{which: voters[1:]})


@settings(max_examples=times(4))
@given(pictures(), st.sampled_from(range(len(WORSE))))
def test_more_evidence_against_the_primary_never_lowers_the_verdict(p: Picture, which: int):
    before, after = judge(p), judge(WORSE[which](p))
    assert after.kind >= before.kind, (before, after)
    assert after.primary_lost or not before.primary_lost


@given(pictures())
def test_no_row_raises_while_it_explains(p: Picture):
    for row in TABLE:
        assert all(isinstance(line, str) for line in row.evidence(p))
    assert len(ABOUT_THE_PRIMARY) + len(AGAINST_A_FAILOVER) + 1 == len(TABLE)


@pytest.mark.parametrize(
    ("auto", "waited", "dead_for"),
    [
        (None, 100.0, None),
        (AUTO, None, None),
        (AUTO, 23.9, None),
        (AUTO, 24.0, 0.0),
        (AUTO, 30.0, 6.0),
        (replace(AUTO, agents_armed=()), 30.0, None),
        (replace(AUTO, agents=2), 30.0, None),
        (replace(AUTO, agents_fenced=("dc1",)), 1.0, 0.0),
        (replace(AUTO, agents_fenced=("dc1",)), 60.0, 36.0),
        (replace(AUTO, agents=0), 30.0, None),
    ],
)
def test_only_fence_agents_prove_that_a_silent_primary_takes_nothing(
    auto: AutoFacts | None, waited: float | None, dead_for: float | None
):
    assert replace(LOST, auto=auto, tally=replace(DECIDED, abstained_seconds=waited)).dead_for == dead_for
