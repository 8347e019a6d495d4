"""Pictures for the verdict: one for each row of the table, and any."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from drkit.detect.reasons import Reason
from drkit.detect.risk import Risk
from drkit.detect.seen import Sight, SourceView
from drkit.detect.verdict import AutoFacts, Picture
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
    case(Reason.RUN_HELD, run_held="run r1 at DRAIN, held", failing_over="run r1", moved_ago=1.0),
    case(Reason.FAILING_OVER, failing_over="run r1 at FREEZE", moved_ago=1.0),
    case(Reason.PROMOTED, promoted=True),
    case(Reason.WRONG_CLUSTER, seen=seen(Sight.WRONG)),
    case(Reason.UNCONFIRMED, seen=seen(Sight.FADING)),
    case(Reason.BROKERS_DOWN, seen=seen(Sight.PARTIAL)),
    case(Reason.BROKERS_LOST, seen=seen(Sight.FEW)),
    case(Reason.WRITES_REFUSED, seen=seen(Sight.REFUSING)),
    case(Reason.BLIND, seen=seen(Sight.BLIND)),
    case(Reason.REPLICATION_MOVES, phi=1.0, beat_silence=1.0, moved_ago=1.0),
    case(Reason.REPLICATION_MOVES, moved_ago=2.0),
    case(Reason.NOT_WATCHED_YET, watched_for=3.0, still_seconds=5.0),
    case(Reason.BEATS_UNKNOWN, phi=None, beat_silence=None, moved_ago=None),
    case(Reason.CLOCKS_DISAGREE, beat_ahead=3600.0),
    case(Reason.TARGET_UNREACHABLE, target_answers=False),
    case(Reason.OBSERVERS_DISAGREE, tally=Tally(3, gone=("a", "b"), alive=("c",))),
    case(Reason.NO_QUORUM, tally=Tally(3, gone=("a",))),
    case(Reason.PAUSED, paused="by ann: maintenance"),
    case(Reason.NOT_PROTECTED, unprotected=("RETURNING: 1 topic (orders): b is no failover target",)),
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
        watched_for=draw(st.sampled_from([None, 60.0, 60.0]) | st.floats(0, 10)),
        promoted=draw(st.booleans()),
        target_answers=draw(st.booleans()),
        tally=draw(tallies()),
        paused=draw(st.sampled_from(["", "by ann"])),
        blockers=draw(st.sampled_from([(), ("x",)])),
        unprotected=draw(st.sampled_from([(), (), ("x",)])),
        risk=Risk(draw(st.none() | st.floats(0, 100)), None, exact=False, basis="so"),
        auto=draw(st.none() | auto),
    )
