"""Positions of groups: what is skipped and what is repeated, and what only looks like it."""

from __future__ import annotations

import pytest

from drkit.exercise.checks import CHECKS, POSITIONS
from drkit.exercise.events import PRIMARY, STANDBY, Consumed, Event, LookFailed, OffsetCommitted
from drkit.exercise.history import ScenarioHistory
from tests.support.chaos.minimal import (
    ON_PRIMARY,
    ON_STANDBY,
    OPENED,
    TP,
    Cases,
    acked,
    cases_of,
    entry,
    failover,
    log,
    position,
    returned,
)

WRITTEN = [*acked("a", "b", "c"), OPENED]

COPY = log("a", "b", "c")
BACK = entry("LOCK", "intent", table="return", run="return")
OPENED_AGAIN = entry("OPEN", "result", run="2")
HOME = failover(planned=True, source=STANDBY, run="2")


def given(*values: str, cluster: str = PRIMARY, first: int = 0) -> list[Event]:
    return [Consumed(cluster, *TP, first + i, value, "shop") for i, value in enumerate(values)]


def commits(offset: int, cluster: str = PRIMARY) -> Event:
    return OffsetCommitted(cluster, *TP, "shop", offset)


def idle(committed: int, translated: int | None, report: Event | None = None) -> list[Event]:
    """A group that committed on the primary, and its position on the standby."""
    positions = [position("shop", committed, PRIMARY)]
    positions += [] if translated is None else [position("shop", translated)]
    return [*WRITTEN, *COPY, report or failover(), *positions, ON_STANDBY]


def stated(offset: int, *, planned: bool = False) -> Event:
    return failover(groups={"positions": {"shop": {"orders-0": [offset, offset]}}}, planned=planned)


def live(*standby: Event, report: Event | None = None, position_on_standby: int = 3) -> list[Event]:
    """A group that read on the primary to 2, and then on the standby."""
    before = [*acked("a", "b", "c"), *given("a", "b"), commits(2), OPENED]
    end = [report or failover(), position("shop", 2, PRIMARY), position("shop", position_on_standby)]
    return [*before, *standby, *COPY, *end, ON_STANDBY]


REST = [*given("c", cluster=STANDBY, first=2), commits(3, STANDBY)]
NAMED = failover(groups={"repeats": {"shop": 2}})
ALL_AGAIN = [*given("a", "b", "c", cluster=STANDBY), commits(3, STANDBY)]

REPLAYED = [
    *acked("a", "b"),
    *given("a", "b"),
    commits(2),
    OPENED,
    BACK,
    *given("b", cluster=STANDBY, first=1),
    commits(2, STANDBY),
]
"""The tail of the primary is read there, and again after its replay."""
AFTER_REPLAY = [
    *log("a", "b"),
    failover(lost_from=1, planned=False, groups={"positions": {"shop": {"orders-0": [2, 1]}}}),
    returned(dispositions={"orders": "replay"}),
    position("shop", 2),
    ON_STANDBY,
]
STANDBY_LOGS = [*log("a", "b", cluster=PRIMARY), *log("a", "b")]
BROKEN: Cases = {
    "idle": {
        "skips": idle(1, 2),
        "repeats": idle(2, 1),
        "repeats, and another group is named": idle(2, 1, failover(groups={"repeats": {"billing": 1}})),
        "not where the report has it": idle(2, 2, stated(1)),
        "skips on a standby": [*STANDBY_LOGS, position("shop", 1, PRIMARY), position("shop", 2), ON_PRIMARY],
        "repeats by a checkpoint, and was never at work": idle(2, 1, stated(1)),
        "no position": idle(2, None),
        "after the end": idle(3, 4),
        "skips after a return": [
            *WRITTEN,
            BACK,
            *COPY,
            *log("a", "b", "c", cluster=PRIMARY, start=3),
            stated(1),
            returned(),
            position("shop", 3, PRIMARY),
            position("shop", 2),
            ON_STANDBY,
        ],
        "skips on the way home": [
            *WRITTEN,
            BACK,
            OPENED_AGAIN,
            *log("a", "b", "c", cluster=PRIMARY),
            stated(1),
            returned(),
            HOME,
            position("shop", 2, PRIMARY),
            ON_PRIMARY,
        ],
    },
    "at work": {
        "skips": [
            *live(*given("c", cluster=STANDBY, first=2), commits(4, STANDBY), position_on_standby=4),
            *acked("d", cluster=STANDBY, first=3),
            *log("d", start=3),
        ],
        "skips the first one": live(commits(3, STANDBY)),
        "skips what it was given and had not committed": [
            *acked("a", "b", "c"),
            *given("a", "b", "c"),
            commits(2),
            OPENED,
            *COPY,
            failover(),
            position("shop", 2, PRIMARY),
            position("shop", 3),
            ON_STANDBY,
        ],
        "is given one again": live(*ALL_AGAIN),
        "is given one again after a switchover": live(*ALL_AGAIN, report=stated(0, planned=True)),
        "is given one again, before the translated position": live(*ALL_AGAIN, report=stated(1)),
        "is given one again on the same side": live(*REST, *given("c", cluster=STANDBY, first=2)),
        "moved back": live(*REST, position_on_standby=2),
        "skips without a failover": [
            *acked("a", "b"),
            *given("a"),
            commits(2),
            *log("a", "b", cluster=PRIMARY),
            position("shop", 2, PRIMARY),
            ON_PRIMARY,
        ],
        "is given a replayed record again and again": [
            *REPLAYED,
            *given("b", cluster=STANDBY, first=1),
            commits(2, STANDBY),
            *AFTER_REPLAY,
        ],
    },
}
HOLDS: Cases = {
    "idle": {
        "exact": idle(1, 1),
        "behind on a standby": [
            *STANDBY_LOGS,
            position("shop", 2, PRIMARY),
            position("shop", 1),
            ON_PRIMARY,
        ],
        "behind an aborted record": [
            *acked("a", "b"),
            OPENED,
            *log("a"),
            *log("b", start=2),
            failover(),
            position("shop", 1, PRIMARY),
            position("shop", 2),
            ON_STANDBY,
        ],
        "after the copied end": idle(9, 3),
        "repeats, named": idle(2, 1, NAMED),
        "kept its own position": idle(2, 1, failover(groups={"kept": ["shop"]})),
        "no position, named": idle(2, None, failover(groups={"unavailable": {"shop": {"orders-0": "?"}}})),
        "no position, left out": idle(2, None, failover(outside={"groups": {"shop": "left out"}})),
        "no position, of another topic": [
            *idle(2, None, failover(topics={"payments": "payments"})),
            position("billing", 1),
        ],
        "the positions were not read": [*idle(2, None), LookFailed("positions", "no answer")],
        "read a tail": [
            *acked("a", "b", "c"),
            OPENED,
            *log("a"),
            failover(lost_from=1),
            position("shop", 3, PRIMARY),
            position("shop", 1),
            ON_STANDBY,
        ],
        "read a tail that was replayed": [
            *acked("a", "b", "c"),
            OPENED,
            BACK,
            *log("a", "b", "c"),
            failover(lost_from=1, groups={"positions": {"shop": {"orders-0": [3, 1]}}}),
            returned(dispositions={"*": "replay"}),
            position("shop", 1),
            ON_STANDBY,
        ],
        "its old position on a partition that was emptied": [
            *WRITTEN,
            BACK,
            *COPY,
            *log("a", "b", "c", cluster=PRIMARY, start=3),
            stated(2),
            returned(),
            position("shop", 2, PRIMARY),
            position("shop", 2),
            ON_STANDBY,
        ],
    },
    "at work": {
        "goes on": live(*REST),
        "is given one again, which is named": live(
            *ALL_AGAIN, report=failover(groups={"repeats": {"shop": 2}})
        ),
        "is given one again since the checkpoint": live(*ALL_AGAIN, report=stated(0)),
        "is given one again, and had not committed": live(
            *given("c", first=2), OPENED, *given("c", cluster=STANDBY, first=2), commits(3, STANDBY)
        ),
        "read more than it committed": live(*given("c", cluster=STANDBY, first=2), position_on_standby=2),
        "began in the middle": [
            *acked("a", "b"),
            *given("b", first=1),
            commits(2),
            *log("a", "b", cluster=PRIMARY),
            position("shop", 2, PRIMARY),
            ON_PRIMARY,
        ],
        "is given a replayed record again": [*REPLAYED, *AFTER_REPLAY],
    },
}


@pytest.mark.parametrize(("group", "case"), cases_of(BROKEN))
def test_what_breaks_the_promise(group: str, case: str):
    checked = CHECKS[POSITIONS](ScenarioHistory(BROKEN[group][case]))
    assert len(checked.offences) >= 1
    assert len(checked.offences) <= checked.examined


@pytest.mark.parametrize(("group", "case"), cases_of(HOLDS))
def test_what_only_looks_like_it(group: str, case: str):
    checked = CHECKS[POSITIONS](ScenarioHistory(HOLDS[group][case]))
    assert checked.offences == []
    assert checked.examined > 0


def test_without_positions_nothing_is_examined():
    events = [*WRITTEN, *COPY, failover(), ON_STANDBY]
    assert CHECKS[POSITIONS](ScenarioHistory(events)).examined == 0


def test_a_log_that_was_not_read_accuses_nobody():
    events = [*WRITTEN, failover(), position("shop", 9, PRIMARY)]
    assert CHECKS[POSITIONS](ScenarioHistory([*events, position("shop", 9), ON_STANDBY])).offences == []
