"""Cases of sides, runs and commands: histories that break a promise, or only look as if they did."""

from __future__ import annotations

from dataclasses import replace

from drkit.exercise.events import (
    PRIMARY,
    STANDBY,
    Acked,
    CommandEnded,
    Event,
    FaultBegan,
    FaultEnded,
    LogEnd,
    Observed,
    Probed,
    ScenarioEnded,
)
from tests.support.chaos.minimal import (
    ON_PRIMARY,
    ON_STANDBY,
    OPENED,
    PAID,
    TP,
    Cases,
    acked,
    divergence,
    entry,
    failover,
    log,
    returned,
    without_open,
)

ABC = acked("a", "b", "c")
LATE = acked("late", first=3)
KILL = FaultBegan("kill primary", "no process is left")
HEALED = FaultEnded("kill primary")
BACK = entry("LOCK", "intent", table="return", run="return")
OPENED_AGAIN = entry("OPEN", "result", run="2")
HEARD_LATE, SENT_LATER = (
    [replace(e, sent=sent) for e in LATE if isinstance(e, Acked)] for sent in (1.0, 3.0)
)
HOME = failover(planned=True, source=STANDBY, run="2")
REPLAY, DISCARD = (returned(dispositions={"*": word}) for word in ("replay", "discard"))
LEFT_OPEN = failover(proven=False)
NOT_READY = {"error": "the lease of the replicator is old", "code": "no_replicator", "exit_code": 3}
CRASH = {"error": "unexpected AttributeError", "code": "unexpected_error", "exit_code": 1}
DIVERGED = [*acked("a", "b", "c"), OPENED, *log("a")]
END_OF_PRIMARY = LogEnd(PRIMARY, *TP, 0, 3)


def answer(first: int, end: int = 3) -> Event:
    return replace(divergence(first, end), began=1.0)


UNCOPIED = {"topic": "orders", "partition": 0, "lost_from": 0, "end": 9}
BOTH_OPEN = [Probed(cluster, "orders", is_accepted=True) for cluster in (PRIMARY, STANDBY)]


def refused(cluster: str = PRIMARY) -> Event:
    return Probed(cluster, "orders", is_accepted=False, error="refused")


BROKEN: Cases = {
    "one open side": {
        "acknowledged after OPEN": [OPENED, *LATE, divergence(0, 9), failover(), ON_STANDBY],
        "no divergence names it": [OPENED, *LATE, divergence(4, 9), LEFT_OPEN, ON_STANDBY],
        "the end is unknown": [OPENED, *LATE, divergence(0, None), LEFT_OPEN, ON_STANDBY],
        "its fence was paid": [OPENED, PAID, *LATE, divergence(0, 9), LEFT_OPEN, ON_STANDBY],
        "sent after its fence was paid": [OPENED, PAID, *SENT_LATER, divergence(0, 9), LEFT_OPEN, ON_STANDBY],
        "the old side is open": [OPENED, Probed(PRIMARY, "orders", is_accepted=True), failover(), ON_STANDBY],
        "the new side is closed": [OPENED, refused(cluster=STANDBY), failover(), ON_STANDBY],
        "no failover, and closed": [refused(), ON_PRIMARY],
    },
    "journal follows the table": {
        "a step without entries": [without_open(failover())],
        "an entry that was made": [entry("OPEN", "intent", "another effect"), OPENED, failover()],
    },
    "decided and stated": {
        "no divergence names a lost record": [*DIVERGED, answer(2), END_OF_PRIMARY, failover(lost_from=1)],
        "divergence goes beyond the log": [*DIVERGED, answer(1, 9), END_OF_PRIMARY, failover(lost_from=1)],
        "no loss": [OPENED, failover(loss=None)],
        "an exact loss of a primary that is not fenced": [
            OPENED,
            failover(proven=False, loss={"exact": True, "statement": "0 records"}),
        ],
        "a sum of other parts": [
            OPENED,
            failover(
                loss={"statement": "2 records", "records": 2, "partitions": [{**UNCOPIED, "records": 1}]}
            ),
        ],
        "no statement": [OPENED, failover(loss={"statement": ""})],
        "no decision": [OPENED, failover(decision=None)],
        "a switchover with a loss": [
            OPENED,
            failover(planned=True, loss={"statement": "1 record", "records": 1}),
        ],
        "a switchover of unknown loss": [
            OPENED,
            failover(planned=True, loss={"statement": "?", "records": None}),
        ],
        "a switchover whose loss was not counted": [
            OPENED,
            failover(planned=True, loss={"statement": "?", "records": 0, "exact": False}),
        ],
        "a group is not named": [OPENED, failover(groups={"asked": ["shop"]})],
    },
    "commands ended as documented": {
        "another code": [CommandEnded(["failover"], 1, [0, 3])],
        "killed": [CommandEnded(["failover"], None, [0])],
        "no reason": [CommandEnded(["failover"], 3, [3])],
        "a crash with an expected exit code": [CommandEnded(["failover"], 1, [1], error=CRASH)],
        "no answer and no error": [CommandEnded(["divergence"], 1, [1])],
        "a crash where an error is expected": [CommandEnded(["failover"], 1, ["open_refused"], error=CRASH)],
        "no answer": [CommandEnded(["failover"], 0, [0])],
        "the error, with another exit code": [
            CommandEnded(["failover"], 0, ["target_not_ready"], error=NOT_READY)
        ],
        "it worked, and a refusal is expected": [CommandEnded(["failover"], 0, ["no_replicator"])],
        "a wrong command line": [CommandEnded(["failover"], 2, [0], error={"code": "flow_unknown"})],
        "another failure": [CommandEnded(["failover"], 1, [0], error={"code": "open_refused"})],
    },
    "no living primary is called lost": {
        "it answers": [Observed("UP", "well"), Observed("LOST", "confirmed")],
        "its link alone is cut": [FaultBegan("cut operator", "refused"), Observed("LOST", "confirmed")],
        "it is up again": [KILL, HEALED, *[Observed("LOST", "confirmed")] * 2],
    },
    "nothing left behind": {
        "a fence": [ScenarioEnded(PRIMARY, ["PendingFence of primary->standby"])],
        "a run": [replace(failover(), state="held"), ON_STANDBY],
    },
}
HOLDS: Cases = {
    "one open side": {
        "before OPEN": [*LATE, OPENED, refused(), failover(), ON_STANDBY],
        "named": [OPENED, *LATE, divergence(3, 4), PAID, LEFT_OPEN, ON_STANDBY],
        "copied, and its line is late": [OPENED, *LATE, *log("late"), LEFT_OPEN, ON_STANDBY],
        "heard of late": [OPENED, PAID, *HEARD_LATE, divergence(0, 9), LEFT_OPEN, ON_STANDBY],
        "named in an uncopied topic": [
            OPENED,
            *LATE,
            CommandEnded(["divergence"], 0, [0], answer={"partitions": [], "uncopied": [UNCOPIED]}),
            LEFT_OPEN,
            ON_STANDBY,
        ],
        "the payment failed": [
            OPENED,
            CommandEnded(["fence", "pay"], 1, [1]),
            *LATE,
            divergence(3, 4),
            LEFT_OPEN,
            ON_STANDBY,
        ],
        "only a dry run": [
            OPENED,
            CommandEnded(["fence", "pay", "--dry-run"], 0, [0], answer={"notes": []}),
            *LATE,
            divergence(3, 4),
            LEFT_OPEN,
            ON_STANDBY,
        ],
        "opened again by the way home": [
            OPENED,
            BACK,
            OPENED_AGAIN,
            *LATE,
            Probed(PRIMARY, "orders", is_accepted=True),
            failover(),
            returned(),
            HOME,
            ON_PRIMARY,
        ],
        "a failover that was refused": [*BOTH_OPEN, replace(failover(), state="refused"), ON_PRIMARY],
        "a standby without a fence": [OPENED, BACK, *BOTH_OPEN, failover(), returned(), ON_STANDBY],
    },
    "journal follows the table": {
        "entries": [failover()],
    },
    "decided and stated": {
        "accepted": [OPENED, failover()],
        "divergence names what is lost": [*DIVERGED, answer(1), END_OF_PRIMARY, failover(lost_from=1)],
        "of an older disk it cannot": [
            *DIVERGED,
            FaultBegan("age primary", "the disk is older"),
            answer(2),
            END_OF_PRIMARY,
            failover(lost_from=1),
        ],
        "decided by an observer": [OPENED, failover(decision={"by": "observer", "mode": "auto"})],
        "a switchover": [OPENED, failover(planned=True)],
        "groups": [
            OPENED,
            failover(
                groups={
                    "asked": ["a", "b", "c"],
                    "positions": {"a": {"orders-0": [1, 1]}},
                    "unavailable": {"b": {"orders-0": "unknown"}},
                },
                outside={"groups": {"c": "left out"}},
            ),
        ],
    },
    "commands ended as documented": {
        "killed, as expected": [CommandEnded(["failover"], None, [None])],
        "refused": [CommandEnded(["failover"], 3, [0, 3], error=NOT_READY)],
        "failed, with an answer": [CommandEnded(["divergence"], 1, [1], answer={"clean": False})],
        "another refusal": [CommandEnded(["failover"], 3, ["target_not_ready"], error=NOT_READY)],
        "a refusal that is not expected": [CommandEnded(["failover"], 3, [0], error=NOT_READY)],
        "no cluster answers": [CommandEnded(["failover"], 1, [0], error={"code": "journal_unreachable"})],
    },
    "no living primary is called lost": {
        "it is slow": [Observed("DEGRADED", "slow")],
        "it is dead": [Observed("UP", "well"), KILL, Observed("LOST", "confirmed")],
        "it was killed twice": [KILL, KILL, Observed("LOST", "confirmed")],
        "the look began before it was up again": [KILL, HEALED, Observed("LOST", "confirmed")],
    },
    "nothing left behind": {
        "nothing": [ON_STANDBY],
        "runs that are over": [replace(failover(), state="aborted"), failover(run="2"), ON_STANDBY],
    },
}
NOTHING_EXAMINED: Cases = {
    "one open side": {
        "the active side is unknown": [OPENED, *BOTH_OPEN, failover()],
    },
    "decided and stated": {
        "a failover that was aborted": [replace(failover(loss=None), state="aborted")],
    },
    "nothing left behind": {
        "no end": [*ABC],
    },
}
