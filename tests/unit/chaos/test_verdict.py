"""The verdict, the faults that were in force, and the negative controls."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drkit.exercise.checks import (
    ACKNOWLEDGED,
    CHECKS,
    GIVEN_UP,
    OLDER_WRITER,
    ONE_SIDE,
    POSITIONS,
    SAME_SIDES,
    CheckResult,
)
from drkit.exercise.events import (
    PRIMARY,
    STANDBY,
    Acked,
    ClientStopped,
    CommandEnded,
    Consumed,
    Event,
    FaultBegan,
    FaultEnded,
    FinalPosition,
    JournalEntered,
    LogEnd,
    LookFailed,
    NotAcked,
    Observed,
    OffsetCommitted,
    Probed,
    Read,
    RunReported,
    ScenarioEnded,
)
from drkit.exercise.history import ScenarioHistory
from drkit.exercise.verdict import RequiredFault, coverage, judge, negative_controls
from tests.support.chaos.in_force import in_force
from tests.support.chaos.minimal import (
    ON_STANDBY,
    OPENED,
    TP,
    acked,
    entry,
    failover,
    log,
    position,
    returned,
)

KILL = FaultBegan("kill primary", "no process is left", lasts=True)
INSTANT = replace(KILL, lasts=False)
HEALED = FaultEnded("kill primary")
SILENT = "client till did nothing before it was stopped"
STOPPED: list[Event] = [
    NotAcked(PRIMARY, "orders", "z", "_TIMED_OUT", is_refused=False, by="till", seconds=70),
    ClientStopped("till", "following writer", seconds=100),
]
OPEN = [entry("OPEN", "intent"), entry("OPEN", "intent", "an effect"), entry("OPEN", "result", "an effect")]
RUN = [
    *acked("a", "b", "x", transaction="committed"),
    *acked("y", first=3, transaction="aborted"),
    KILL,
    *OPEN,
    OPENED,
    HEALED,
    *acked("c", cluster=STANDBY, first=3),
    *log("a", "b", "x", cluster=PRIMARY),
    *log("a", "b", "x", "c"),
    failover(groups={"positions": {"audit": {"payments-0": [7, 5]}}}),
    position("billing", 1, PRIMARY),
    position("billing", 1),
    Probed(STANDBY, "orders", is_accepted=True),
    ON_STANDBY,
]
"""A failover that keeps every promise."""
RETURNED = [*acked("a"), OPENED, *log("a", cluster=PRIMARY), *log("a"), failover(), returned()]


def without(kind: type[Event], events: list[Event] = RUN) -> list[Event]:
    return [e for e in events if not isinstance(e, kind)]


# -- faults and steps ---------------------------------------------------------------------------------------

IN_FORCE: dict[str, list[Event]] = {
    "it begins in the step": [entry("OPEN", "intent"), KILL, entry("OPEN", "result"), HEALED],
    "it ends in the step": [KILL, entry("OPEN", "intent"), HEALED, entry("OPEN", "result")],
    "all the time": [KILL, entry("OPEN", "intent"), entry("OPEN", "result"), HEALED],
    "never ended": [KILL, entry("OPEN", "intent"), entry("OPEN", "result")],
    "an instant": [entry("OPEN", "intent"), INSTANT, entry("OPEN", "result")],
    "in an effect": [*OPEN[:2], KILL, OPEN[2], entry("OPEN", "result")],
    "after an effect": [*OPEN, KILL, entry("OPEN", "result")],
    "the orchestrator is dead": [entry("OPEN", "intent"), KILL],
    "another run writes": [entry("OPEN", "intent"), entry("LOCK", "intent", run="2"), KILL],
    "the second time": [KILL, HEALED, entry("OPEN", "intent"), KILL, entry("OPEN", "result")],
}
NOT_IN_FORCE: dict[str, list[Event]] = {
    "never": [entry("OPEN", "intent"), entry("OPEN", "result")],
    "before": [KILL, HEALED, entry("OPEN", "intent"), entry("OPEN", "result")],
    "an instant before": [INSTANT, entry("OPEN", "intent"), entry("OPEN", "result")],
    "after": [entry("OPEN", "intent"), entry("OPEN", "result"), KILL, HEALED],
    "held": [entry("OPEN", "intent"), entry("OPEN", "held"), KILL],
    "after another orchestrator took over": [entry("OPEN", "intent"), entry("", "hold"), KILL],
    "an effect alone": [entry("OPEN", "intent", "an effect"), KILL],
    "another fault": [entry("OPEN", "intent"), FaultBegan("kill standby", ""), entry("OPEN", "result")],
    "the end of another fault": [INSTANT, FaultEnded("kill standby"), entry("OPEN", "intent")],
    "an undo": [entry("OPEN", "undo"), KILL],
}


@pytest.mark.parametrize("case", IN_FORCE)
def test_a_fault_is_in_force(case: str):
    history = ScenarioHistory(IN_FORCE[case])
    assert in_force(history, RequiredFault("kill primary", "OPEN"))
    assert ("kill primary", "failover", "OPEN") in coverage(history)
    assert ("kill primary", "return", "OPEN") not in coverage(history)


@pytest.mark.parametrize("case", NOT_IN_FORCE)
def test_a_fault_is_not_in_force(case: str):
    assert not in_force(ScenarioHistory(NOT_IN_FORCE[case]), RequiredFault("kill primary", "OPEN"))


def test_a_fault_at_a_look_of_an_observer():
    wanted, lost, up = RequiredFault("kill primary", "LOST"), Observed("LOST", ""), Observed("UP", "")
    assert in_force(ScenarioHistory([up, KILL, lost, HEALED]), wanted)
    assert not in_force(ScenarioHistory([lost, KILL, up]), wanted), "that look was before"
    assert not in_force(ScenarioHistory([KILL, up, HEALED, lost]), wanted)
    assert coverage(ScenarioHistory([up, KILL, lost, HEALED])) == {("kill primary", "detection", "LOST")}


def test_the_steps_of_both_tables():
    events: list[Event] = [KILL]
    events += [
        entry(*e, table=t, run=t)
        for t in ("failover", "return")
        for e in (("LOCK", "intent"), ("LOCK", "result"))
    ]
    events += [HEALED, entry("FENCE", "intent")]
    steps = {("kill primary", table, "LOCK") for table in ("failover", "return")}
    assert coverage(ScenarioHistory(events)) == steps


# -- the verdict --------------------------------------------------------------------------------------------


def test_a_run_that_keeps_every_promise():
    verdict = judge(ScenarioHistory(RUN), [RequiredFault("kill primary", "OPEN")])
    assert (verdict.word, verdict.reasons) == ("pass", [])
    assert {c.name: c.examined for c in verdict.checked}[ACKNOWLEDGED] == 4


def test_an_offence_fails_whatever_else_is_unknown():
    events: list[Event] = [*RUN, Probed(PRIMARY, "orders", is_accepted=True), LookFailed("logs", "no answer")]
    verdict = judge(ScenarioHistory(events), [RequiredFault("kill standby", "OPEN")])
    assert (verdict.word, len(verdict.reasons)) == ("fail", 1)
    assert verdict.reasons[0].startswith(ONE_SIDE)


INCONCLUSIVE: dict[str, tuple[list[Event], str]] = {
    "no end": (without(ScenarioEnded), "the run has no end"),
    "a failed look": ([*RUN, LookFailed("logs", "no answer")], "not read: logs: no answer"),
    "no log of a partition": (
        [Acked(PRIMARY, "orders", 1, 0, "z"), *RUN],
        "orders-1 on standby was not read",
    ),
    "no probe": (without(Probed), f"nothing was examined: {ONE_SIDE}"),
    "no position": (without(FinalPosition), f"nothing was examined: {POSITIONS}"),
    "no writer after OPEN": (
        [e for e in RUN if not (isinstance(e, Acked) and e.cluster == STANDBY)],
        f"nothing was examined: {OLDER_WRITER}",
    ),
    "a run without a report": (
        [entry("LOCK", "intent", run="2"), *RUN],
        "no report of run 2",
    ),
    "a refusal that was not expected": (
        [*RUN, CommandEnded(["failover"], 3, [0], error={"code": "no_replicator"})],
        "ended otherwise than expected: drkit failover: exit code 3, no_replicator",
    ),
    "a writer that did nothing lately": ([*RUN, *STOPPED], SILENT),
    "a writer that never did anything": ([*RUN, STOPPED[1]], SILENT),
    "a reader that never did anything": (
        [*RUN, ClientStopped("shop", "following consumer")],
        "client shop did nothing before it was stopped",
    ),
    "a partition that only one side has": (
        [*RUN, LogEnd(PRIMARY, "orders", 7, 0, 0)],
        "orders-7 on standby was not read",
    ),
    "no group was translated": (
        [e if not isinstance(e, RunReported) else failover() for e in RUN],
        "failover run: each position has the same offset on both sides, so none was translated",
    ),
    "a group without a position": (
        [
            e
            if not isinstance(e, RunReported)
            else replace(e, report={**e.report, "groups": {**e.report["groups"], "kept": ["billing"]}})
            for e in RUN
        ],
        "failover run excuses itself from group billing",
    ),
    "an idle group is behind": (
        [*RETURNED, position("billing", 1), position("billing", 0, PRIMARY), ON_STANDBY],
        "group billing repeats a on primary, orders-0",
    ),
    "an idle group has no position on the standby": (
        [*RETURNED, position("billing", 1), ON_STANDBY],
        "group billing repeats a on primary, orders-0",
    ),
    "a stated position is old": (
        [
            OffsetCommitted(PRIMARY, "payments", 0, "audit", 8, seconds=1),
            *(replace(e, seconds=20) if isinstance(e, FaultBegan | JournalEntered) else e for e in RUN),
        ],
        "group audit had committed 8 in payments-0 long before, 7 is stated",
    ),
    "no entries": (without(JournalEntered), "failover run is done, and no entry has the end of OPEN"),
}


@pytest.mark.parametrize("case", INCONCLUSIVE)
def test_what_is_unknown_is_inconclusive(case: str):
    events, reason = INCONCLUSIVE[case]
    verdict = judge(ScenarioHistory(events), [])
    assert verdict.word == "inconclusive"
    assert reason in verdict.reasons


def test_a_fault_that_was_not_in_force_is_inconclusive():
    verdict = judge(
        ScenarioHistory(RUN), [RequiredFault("kill primary", "OPEN"), RequiredFault("kill primary", "FENCE")]
    )
    assert (verdict.word, verdict.reasons) == ("inconclusive", ["was not in force: kill primary at FENCE"])


REFUSED = NotAcked(PRIMARY, "orders", "w", "_TIMED_OUT", is_refused=False, by="till", seconds=92)


@pytest.mark.parametrize(
    ("kind", "last"),
    [("following writer", Acked(PRIMARY, *TP, 8, "w", by="till", seconds=92)), ("writer", REFUSED)],
    ids=["acknowledged", "refused"],
)
def test_a_writer_that_tried_lately_is_at_work(kind: str, last: Event):
    stopped = ClientStopped("till", kind, seconds=100)
    assert SILENT not in judge(ScenarioHistory([*RUN, STOPPED[0], last, stopped]), []).reasons


def test_a_writer_that_follows_has_to_succeed():
    assert SILENT in judge(ScenarioHistory([*RUN, REFUSED, STOPPED[1]]), []).reasons


def test_without_an_end_nothing_is_accused():
    events = [e for e in RUN if not isinstance(e, RunReported | ScenarioEnded)]
    events += [*acked("lost", first=7), LogEnd(PRIMARY, *TP, 0, 8)]
    assert judge(ScenarioHistory(events), []).word == "inconclusive"


@pytest.mark.parametrize("kind", ["member", "hanging transaction", "observer"])
def test_other_clients_need_not_write(kind: str):
    assert SILENT not in judge(ScenarioHistory([*RUN, ClientStopped("till", kind, seconds=100)]), []).reasons


def test_a_return_has_needs_of_its_own():
    events = [e for e in RUN if not (isinstance(e, Read | LogEnd) and e.cluster == PRIMARY)]
    events += [entry("LOCK", "intent", table="return", run="return"), returned()]
    reasons = judge(ScenarioHistory(events), []).reasons
    needs = [f"nothing was examined: {name}" for name in (SAME_SIDES, GIVEN_UP)]
    assert {*reasons} >= {*needs, "orders-0 on primary was not read"}


def test_without_a_failover_the_needs_are_few():
    events: list[Event] = [*acked("a"), *log("a", cluster=PRIMARY), *log("a")]
    events.append(replace(failover(), state="refused"))
    events += [Probed(PRIMARY, "orders", is_accepted=True), ScenarioEnded(PRIMARY, [])]
    assert judge(ScenarioHistory(events), []).word == "pass"
    assert judge(ScenarioHistory([]), []).word == "inconclusive"


# -- negative controls --------------------------------------------------------------------------------------


def test_every_control_is_found():
    events = [replace(e, envelope="a key") if isinstance(e, Acked | Read) else e for e in RUN]
    controls = negative_controls(ScenarioHistory(events))
    assert controls == dict.fromkeys(
        (
            "a copied record dropped",
            "a copied record repeated",
            "a foreign record",
            "a record out of order",
            "a position one later",
            "a position one earlier",
            "an aborted record shown",
            "another record at an offset",
            "another key of a record",
            "a living primary called lost",
            "a run left open",
            "OPEN without entries",
            "no loss stated",
            "a record of the old primary added",
            "a record acknowledged after OPEN",
        ),
        True,
    )


def test_controls_of_a_group_at_work():
    work = [Consumed(STANDBY, *TP, 0, "a", "billing"), OffsetCommitted(STANDBY, *TP, "billing", 1)]
    opened = RUN.index(OPENED) + 1
    controls = negative_controls(ScenarioHistory([*RUN[:opened], *work, *RUN[opened:]]))
    assert controls["a position one later"]
    assert controls["a position one earlier"]


def test_a_control_without_events_is_left_out():
    assert negative_controls(ScenarioHistory([])) == {}
    events = without(RunReported, without(FinalPosition))
    events = [e for e in events if not (isinstance(e, Acked) and e.transaction == "aborted")]
    assert negative_controls(ScenarioHistory(events)).keys() == {
        "a copied record dropped",
        "a copied record repeated",
        "a foreign record",
        "a record out of order",
        "another record at an offset",
        "a living primary called lost",
        "a record of the standby dropped",
        "a run left open",
    }


def test_a_blind_check_is_seen(monkeypatch: pytest.MonkeyPatch):
    for name in CHECKS:
        monkeypatch.setitem(CHECKS, name, lambda _: CheckResult("blind", 1, []))
    controls = negative_controls(ScenarioHistory(RUN))
    assert controls
    assert not any(controls.values())
