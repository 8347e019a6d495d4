"""`drkit watch` and `drkit failover` give one answer to one picture: for each row, and for any picture."""

from __future__ import annotations

from dataclasses import replace
import json
from types import SimpleNamespace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
import pytest

from drkit.cli.commands.failover import failover
from drkit.config import Settings
from drkit.detect.agents import AgentNote, Hold
from drkit.detect.notes import Notes
from drkit.detect.reasons import ABOUT_THE_PRIMARY, ROW, ROWS, FailoverFacts, Flag, Reason, ReasonRow, against
from drkit.detect.risk import Risk
from drkit.detect.seen import Sight
from drkit.detect.verdict import Picture, VerdictKind, judge
from drkit.detect.votes import Heard, Tally, Vote, VoteRules, tally
from drkit.failover.checks import silent_source_facts as signs
from drkit.failover.checks.out_of_scope import OutOfScope
from drkit.failover.checks.preconditions import GATES, PreconditionInput, refusals
from drkit.failover.checks.survey import ClusterIdentity, Survey
from drkit.failover.core.context import Scope
from drkit.failover.core.read_cache import ReadCache
from drkit.failover.core.request import RunRequest
from drkit.flow_state.codec.record import StateRecord
from drkit.status.model import HeartbeatStatus
from tests.support.detect.pictures import AUTO as AUTO_FACTS
from tests.support.detect.pictures import CASES, LOST, pictures
from tests.support.examples import times

AUTO_ONLY = {Reason.NOT_ACKNOWLEDGED, Reason.NO_FENCE_AGENT, Reason.NOT_FENCED_YET}
EACH = {reason: picture for reason, picture in CASES if reason in ROW}
OVERRULED = {
    Flag.SIGNS_OF_LIFE: {"despite_signs_of_life": "why"},
    Flag.QUORUM: {"without_quorum": "why"},
    Flag.DATA_LOSS: {"accept_data_loss": "why"},
}


def precondition_input(
    facts: FailoverFacts, silent: str = "nothing listens", **given_flags: str
) -> PreconditionInput:
    """What `drkit failover` knows of a primary; ``silent``: why it does not answer."""
    clusters = ClusterIdentity("a", None, "1"), ClusterIdentity("b", "2", "2")
    seen = Survey(1, *clusters, silent, (), {}, "checkpoints", 0.0, {}, facts, None, (), OutOfScope(), ())
    scope = Scope({"orders": "orders"}, (), whole_flow=True)
    request = RunRequest(**given_flags)  # type: ignore[arg-type]
    return PreconditionInput(seen, scope, request, "a->b")


def refused(facts: FailoverFacts, **given_flags: str) -> set[str]:
    """The gates of `drkit failover` that refuse a primary of which these facts are known."""
    return {gate for gate, _ in refusals(precondition_input(facts, **given_flags))}


@pytest.mark.parametrize(("silent", "status"), [("nothing listens", False), ("", True)])
def test_the_copy_of_a_primary_that_is_silent_cannot_catch_up(silent: str, *, status: bool):
    facts = EACH[Reason.LAG_ABOVE_RPO].facts
    (error,) = [e for _, e in refusals(precondition_input(facts, silent)) if e.code == "rpo_exceeded"]
    assert ("drkit status" in error.hint) is status
    assert ("bring a back" in error.hint) is not status
    assert '--accept-data-loss "REASON"' in error.hint


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.reason.value)
def test_each_row_is_one_answer_of_both(row: ReasonRow):
    picture = EACH[row.reason]
    found, facts = judge(picture), picture.facts
    assert (found.kind, found.reason) == (VerdictKind.HOLD, row.reason)
    assert found.primary_lost is (row not in ABOUT_THE_PRIMARY)
    assert row in against(facts)
    assert row.gate in refused(facts)
    assert judge(replace(picture, auto=AUTO_FACTS)).kind is not VerdictKind.LOST, "mode auto waits, too"
    if row.flag is None:
        assert row.gate in refused(facts, **{k: v for f in OVERRULED.values() for k, v in f.items()})
        return
    others = {
        k: v for f, given_flags in OVERRULED.items() if f is not row.flag for k, v in given_flags.items()
    }
    assert row.gate in refused(facts, **others), "no other flag overrules it"
    assert row.gate not in refused(facts, **OVERRULED[row.flag])


def test_every_flag_is_an_option_that_is_journalled():
    options = {o for p in failover.params for o in p.opts}
    assert options >= {flag.value for flag in Flag}
    for flag in Flag:
        asked = RunRequest(**OVERRULED[flag])  # type: ignore[arg-type]
        assert RunRequest.from_json(asked.to_json()) == asked
    assert {row.gate for row in ROWS} <= GATES.keys()
    assert set(EACH) == set(ROW)


@settings(max_examples=times(4))
@given(pictures())
def test_whatever_holds_watch_is_refused_by_failover_and_the_other_way_round(p: Picture):
    # A failover looks by itself at whether heartbeats still arrive, for as long as that takes.
    p = replace(p, seen=LOST.seen, promoted=False, watched_for=60.0)
    found, rows = judge(p), against(p.facts)
    assert bool(rows) == bool(refused(p.facts))
    if found.kind is VerdictKind.LOST or found.reason in AUTO_ONLY:
        assert not rows, "failover refuses what watch proposes"
    else:
        assert ROW[found.reason] in rows, "watch holds for what failover passes over"
        assert {ROW[o] for o in found.obstacles if o in ROW} <= set(rows)
    flags = {k: v for row in rows if row.flag for k, v in OVERRULED[row.flag].items()}
    assert refused(p.facts, **flags) == {row.gate for row in rows if row.flag is None}


# -- what failover sees by itself ----------------------------------------------------------------------

NOW = 100_000
BASE: dict[str, Any] = {
    "clusters": {n: {"bootstrap_servers": f"{n}:9092"} for n in ("a", "b", "third")},
    "flows": [{"source": "a", "target": "b", "topics": ["orders"]}],
}
AUTO: dict[str, Any] = {
    "failover": {"mode": "auto"},
    "watch": {"observers": 3, "third": "third"},
    "fence_agent": {"agents": 1, "command": ["true"]},
}


def context(**tables: Any) -> Any:
    found = Settings.model_validate({**BASE, **tables})
    return SimpleNamespace(settings=found, wall=lambda: NOW, source_refuses=False)


def vote(observer: str, sight: Sight, at_ms: int = NOW - 2000) -> Vote:
    return Vote(observer, "r", 1, at_ms, sight)


def notes(*found: StateRecord) -> Notes:
    board = Notes()
    for note in found:
        name = note.observer if isinstance(note, Vote) else note.agent  # type: ignore[attr-defined]
        board.take(f"{note.KEY}{name}".encode(), note.encode())
    return board


@pytest.mark.parametrize(
    ("seen", "alive"),
    [
        (vote("there", Sight.CLEAR), True),
        (vote("there", Sight.FEW), True),
        (vote("there", Sight.GONE), False),
        (vote("there", Sight.CLEAR, NOW - 20_000), False),
        (vote("there", Sight.CLEAR, NOW + 1500), True),
        (vote("there", Sight.CLEAR, NOW + 3_600_000), False),
    ],
    ids=["works", "few work", "gone", "old", "within the margin", "from the future"],
)
def test_an_observer_that_sees_it_is_a_sign_of_life(seen: Vote, *, alive: bool):
    for boards in ((notes(seen),), (Notes(), notes(seen))):  # on the target, on the third cluster
        found, fenced = signs.counted(context(), boards)
        assert (bool(found.alive), fenced) == (alive, False)


@pytest.mark.parametrize(
    ("at_ms", "counts"), [(NOW - 2000, True), (NOW - 60_000, False), (NOW + 9000, False)]
)
def test_a_fence_agent_that_has_fenced_ends_it_as_for_watch(at_ms: int, *, counts: bool):
    agent = AgentNote("x", "r", 1, Hold.LEASED, at_ms, fenced=True)
    board = (notes(vote("there", Sight.CLEAR), agent),)
    assert signs.counted(context(**AUTO), board)[1] is counts
    assert not signs.counted(context(), board)[1], "a person decides: no agent is asked for"


def test_where_observers_are_missing_this_machine_counts_and_is_not_enough_alone():
    assert signs.counted(context(), (Notes(),))[0].is_decided
    three = context(watch={"observers": 3})
    assert not signs.counted(three, (Notes(),))[0].is_decided
    assert signs.counted(three, (notes(vote("x", Sight.GONE), vote("y", Sight.GONE)),))[0].is_decided
    assert not signs.counted(three, (notes(vote("x", Sight.GONE), vote("y", Sight.GONE, 1)),))[0].alive
    blind = context()
    blind.source_refuses = True
    assert not signs.counted(blind, (Notes(),))[0].is_decided, "refused credentials are no death"


@given(
    st.dictionaries(
        st.sampled_from("abc"), st.tuples(st.sampled_from(sorted(Sight)), st.integers(-20_000, 20_000))
    )
)
def test_votes_count_for_failover_as_for_watch(said: dict[str, tuple[Sight, int]]):
    votes = [vote(name, sight, NOW + ms) for name, (sight, ms) in said.items()]
    found, _ = signs.counted(context(watch={"observers": 3}), (notes(*votes),))
    own = vote("this machine", Sight.GONE, NOW)
    heard = [Heard(v, 0.0, NOW, live=True) for v in votes]
    there = tally(own, heard, 0.0, VoteRules(5.0, 2.0, 3), votes=False)
    assert (found.alive, found.is_decided, found.ignored) == (there.alive, there.is_decided, there.ignored)


class Tail:
    """Heartbeats that arrive at these times, 0.3 s after they were written by a clock that is off."""

    topic = "heartbeats"

    def __init__(self, now: list[float], arrive: list[float], off: float) -> None:
        self._now, self._arrive, self._off, self._began = now, arrive, off, now[0]

    def _come(self) -> list[float]:
        return [t for t in self._arrive if t <= self._now[0]]

    @property
    def ahead_seconds(self) -> float:
        return self._off if self._off > 2 else 0.0

    @property
    def newest_ms(self) -> int | None:
        counted = [t for t in self._come() if not self.ahead_seconds]
        return round((max(counted) - 0.3 + self._off) * 1000) if counted else None

    @property
    def arrivals(self) -> int:
        return sum(t > self._began for t in self._come())

    def newest(self) -> HeartbeatStatus | None:
        ms = self.newest_ms
        return None if ms is None else HeartbeatStatus(max(0.0, self._now[0] - ms / 1000))

    read = newest


def looked(now: list[float], tail: Tail, kept: ReadCache | None = None) -> FailoverFacts:
    """One look of a failover at a silent primary."""
    kept = kept or ReadCache()

    def run(_sleep: Any, seconds: float) -> None:
        now[0] += seconds

    found = context()
    there = SimpleNamespace(
        settings=found.settings, flow=found.settings.flows[0], wall=lambda: round(now[0] * 1000), run=run,
        clock=lambda: now[0], kept=kept, tell=lambda _: None, source_refuses=False, source_error="silent",
        loop=SimpleNamespace(sleep=None), beats=tail,
    )  # fmt: skip
    risk = Risk(0.0, 0, exact=False, basis="")
    return signs.facts_of(there, Notes(), risk, (), silent=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("off", [0.0, 3600.0, -4.0], ids=["right", "an hour ahead", "4 s slow"])
def test_heartbeats_that_arrive_are_a_sign_of_life_whatever_their_clock_says(off: float):
    """A clock that jumped on the replicator's host once hid that replication moves."""
    assert looked([100.0], Tail([100.0], [], off)).no_heartbeat or off > 2
    now = [100.0]
    found = looked(now, Tail(now, [90.0 + n for n in range(60)], off))
    assert found.moving
    assert bool(found.clocks) is (off > 2)
    dead = [100.0]
    quiet = looked(dead, Tail(dead, [99.0, 99.5, 100.2], off))
    assert not quiet.moving, "they were on their way when it died"


def test_a_clock_that_is_minutes_slow_shows_at_the_next_look():
    now, kept = [100.0], ReadCache()
    tail = Tail(now, [90.0 + n for n in range(60)], -300.0)
    assert not looked(now, tail, kept).moving
    now[0] += 3.0
    assert looked(now, tail, kept).moving == ("heartbeats were copied since the last look",)


@pytest.mark.parametrize("picture", EACH.values(), ids=list(EACH))
def test_facts_are_read_back_from_the_journal_as_they_were_written(picture: Picture):
    found = picture.facts.to_json()
    assert json.loads(json.dumps(found)) == found


def test_a_picture_without_observers_is_shown_in_full():
    assert replace(LOST, tally=Tally(3)).facts.undecided
    assert not LOST.facts.undecided
