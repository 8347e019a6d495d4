"""The table of verdicts: what may never be, whatever the picture, and a picture for each row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
import pytest

from drkit.detect.picture import AutoFacts, Picture
from drkit.detect.reasons import Reason
from drkit.detect.risk import Risk
from drkit.detect.seen import Sight, SourceView
from drkit.detect.verdict import ABOUT_THE_PRIMARY, AGAINST_A_FAILOVER, TABLE, VerdictKind, judge
from drkit.detect.votes import Tally

NAMES = tuple("abcdefg")


def seen(sight: Sight) -> SourceView:
    return SourceView(sight, 90.0 if sight is Sight.GONE else None, ("broker 0: something",), 3, 3)


DECIDED = Tally(3, gone=("a", "b"), abstained_seconds=100.0)
LOST = Picture(
    seen=seen(Sight.GONE), gone_for=10.0, phi=20.0, beat_silence=12.0, moved_ago=12.0, tally=DECIDED,
    risk=Risk(3.0, 0, exact=False, basis="so"),
)  # fmt: skip
AUTO = AutoFacts(agents=1, agents_armed=("dc1",), delay_seconds=25.0)
FINE = replace(LOST, seen=seen(Sight.CLEAR), phi=0.1, beat_silence=0.5, moved_ago=0.5, gone_for=0.0)


def case(reason: Reason, **changes: Any) -> tuple[Reason, Picture]:
    return reason, replace(LOST, **changes)


CASES = [
    case(Reason.CONFIRMED),
    (Reason.WELL, FINE),
    (Reason.BEATS_LATE, replace(FINE, phi=9.0)),
    case(Reason.PROMOTED, promoted=True),
    case(Reason.WRONG_CLUSTER, seen=seen(Sight.WRONG)),
    case(Reason.UNCONFIRMED, seen=seen(Sight.FADING)),
    case(Reason.BROKERS_DOWN, seen=seen(Sight.PARTIAL)),
    case(Reason.BROKERS_LOST, seen=seen(Sight.FEW)),
    case(Reason.WRITES_REFUSED, seen=seen(Sight.REFUSING)),
    case(Reason.BLIND, seen=seen(Sight.BLIND)),
    case(Reason.REPLICATION_MOVES, phi=1.0, beat_silence=1.0, moved_ago=1.0),
    case(Reason.REPLICATION_MOVES, moved_ago=2.0),
    case(Reason.BEATS_UNKNOWN, phi=None, beat_silence=None, moved_ago=None),
    case(Reason.CLOCKS_DISAGREE, beat_ahead=3600.0),
    case(Reason.TARGET_UNREACHABLE, target_answers=False),
    case(Reason.OBSERVERS_DISAGREE, tally=Tally(3, gone=("a", "b"), alive=("c",))),
    case(Reason.NO_QUORUM, tally=Tally(3, gone=("a",))),
    case(Reason.PAUSED, paused="by ann: maintenance"),
    case(Reason.TARGET_NOT_READY, blockers=("3 partitions have no leader",)),
    case(Reason.LAG_UNKNOWN, risk=Risk(None, None, exact=False, basis="not known")),
    case(Reason.LAG_ABOVE_RPO, risk=Risk(31.0, 5, exact=False, basis="so")),
    case(Reason.NOT_ACKNOWLEDGED, auto=replace(AUTO, last_seconds=9000.0, acknowledged=False)),
    case(Reason.NOT_ACKNOWLEDGED, auto=replace(AUTO, last_seconds=100.0)),
    case(Reason.NO_FENCE_AGENT, auto=replace(AUTO, agents=2)),
    case(Reason.NOT_FENCED_YET, auto=AUTO, tally=replace(DECIDED, abstained_seconds=24.0)),
    case(Reason.CONFIRMED, auto=AUTO),
    case(Reason.CONFIRMED, auto=replace(AUTO, agents_fenced=("dc1",)),
         tally=replace(DECIDED, alive=("c",))),
    case(Reason.CONFIRMED, auto=replace(AUTO, agents_fenced=("dc1",)),
         tally=replace(DECIDED, abstained_seconds=1.0)),
]  # fmt: skip


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


def test_everything_that_holds_a_failover_back_is_told():
    found = judge(
        replace(LOST, paused="by ann", blockers=("x",), risk=Risk(None, None, exact=False, basis="?"))
    )
    assert found.name == "HOLD(paused)"
    assert found.obstacles == (Reason.PAUSED, Reason.TARGET_NOT_READY, Reason.LAG_UNKNOWN)
    assert found.primary_lost
    assert not judge(FINE).obstacles


names = st.lists(st.sampled_from(NAMES), unique=True, max_size=7).map(tuple)


@st.composite
def tallies(draw: st.DrawFn) -> Tally:
    votes = draw(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["gone", "alive", "unsure"])))
    by = {
        says: tuple(sorted(n for n, s in votes.items() if s == says)) for says in ("gone", "alive", "unsure")
    }
    return Tally(draw(st.integers(1, 7)), **by, abstained_seconds=draw(st.none() | st.floats(0, 60)))


@st.composite
def pictures(draw: st.DrawFn) -> Picture:
    sight = draw(st.sampled_from(sorted(Sight)))
    auto = st.builds(
        AutoFacts, st.none() | st.floats(0, 9999), st.booleans(), st.just(3600.0), st.integers(1, 3), names,
        names, st.just(25.0),
    )  # fmt: skip
    return Picture(
        seen=seen(sight),
        gone_for=draw(st.floats(0, 100)),
        phi=draw(st.none() | st.floats(0, 50)),
        beat_silence=draw(st.floats(0, 100)),
        beat_ahead=draw(st.sampled_from([0.0, 0.0, 3600.0])),
        moved_ago=draw(st.none() | st.floats(0, 100)),
        promoted=draw(st.booleans()),
        target_answers=draw(st.booleans()),
        tally=draw(tallies()),
        paused=draw(st.sampled_from(["", "by ann"])),
        blockers=draw(st.sampled_from([(), ("x",)])),
        risk=Risk(draw(st.none() | st.floats(0, 100)), None, exact=False, basis="so"),
        auto=draw(st.none() | auto),
    )


@given(pictures())
def test_lost_only_when_nothing_speaks_against_it(p: Picture):
    found = judge(p)
    assert (found.kind is VerdictKind.LOST) == (found.primary_lost and not found.obstacles)
    if not found.primary_lost:
        return
    assert p.seen.sight is Sight.GONE
    assert p.target_answers
    assert not p.promoted
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


@settings(max_examples=500)
@given(pictures(), st.sampled_from(range(len(WORSE))))
def test_more_evidence_against_the_primary_never_lowers_the_verdict(p: Picture, which: int):
    before, after = judge(p), judge(WORSE[which](p))
    assert after.kind >= before.kind, (before, after)
    assert after.primary_lost or not before.primary_lost


@given(pictures())
def test_no_row_raises_while_it_tells(p: Picture):
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
