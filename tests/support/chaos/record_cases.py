"""Cases of records: histories that break a promise, and histories that only look as if they did."""

from __future__ import annotations

from drkit.exercise.events import (
    PRIMARY,
    STANDBY,
    Acked,
    ClientStopped,
    Consumed,
    Event,
    FaultBegan,
    FaultEnded,
    LogEnd,
    NotAcked,
    Read,
)
from tests.support.chaos.minimal import (
    ON_PRIMARY,
    ON_STANDBY,
    OPENED,
    TP,
    Cases,
    acked,
    divergence,
    entry,
    failover,
    log,
    returned,
)

ABC = acked("a", "b", "c")
UNKNOWN = [NotAcked(PRIMARY, "orders", "x", "_TIMED_OUT", is_refused=False)]
LATE = acked("late", first=3)
AFTER = acked("d", cluster=STANDBY, first=3)
BACK = entry("LOCK", "intent", table="return", run="return")
OPENED_AGAIN = entry("OPEN", "result", run="2")
HOME = failover(planned=True, source=STANDBY, run="2")
ONE = {"topic": "orders", "partition": 0, "lost_from": 1, "records": 1, "held_back": 0}
LOST_NONE, LOST_ONE, LOST_TWO = (log(*"abc"[:n], cluster=PRIMARY) for n in (1, 2, 3))
AT_1 = failover(lost_from=1)
EXACT = failover(loss={"exact": True, "statement": "1 record", "partitions": [ONE]})
REPLAY, DISCARD = (returned(dispositions={"*": word}) for word in ("replay", "discard"))


def restarted(fault: str = "kill primary") -> list[Event]:
    return [FaultBegan(fault, "no process is left", lasts=True), FaultEnded(fault)]


DECIDED = [*acked("a", transaction="committed"), *acked("b", first=1)]
TAKEN_BACK = [*DECIDED, *restarted()]
"""The log of the primary will have nothing at offset 0."""
HOLE = [Read(PRIMARY, *TP, 1, "b"), LogEnd(PRIMARY, *TP, 0, 2)]
STOPPED, KILLED = (
    [*acked("till 1"), ClientStopped("", "writer", was_killed=killed)] for killed in (False, True)
)
MOVED = [OPENED, *log("b"), failover(lost_from=2), ON_STANDBY]

BROKEN: Cases = {
    "acknowledged or stated as lost": {
        "lost, and gone from its cluster": [*ABC, OPENED, *LOST_ONE, *log("a"), AT_1, ON_STANDBY],
        "stated as lost, and there": [*ABC, OPENED, *log("a", "b"), failover(lost_from=1), ON_STANDBY],
        "named as divergent, and there": [
            *ABC,
            OPENED,
            *log("a", "b"),
            failover(lost_from=2),
            divergence(1, 3),
            ON_STANDBY,
        ],
        "its own cluster shows it": [*TAKEN_BACK, *log("a", "b", cluster=PRIMARY), *MOVED],
        "its own cluster was never started again": [*TAKEN_BACK[:-1], *HOLE, *MOVED],
        "its own cluster was started again before": [*restarted(), *DECIDED, *HOLE, *MOVED],
        "the other cluster was started again": [*DECIDED, *restarted("kill standby"), *HOLE, *MOVED],
        "its own cluster was frozen": [*DECIDED, *restarted("freeze primary"), *HOLE, *MOVED],
        "the next transaction was decided before the kill": [
            *DECIDED,
            Acked(PRIMARY, *TP, 2, "c", "committed", sent=2.0),
            *restarted(),
            *HOLE,
            *MOVED,
        ],
        "its log has another record of the transaction": [
            *acked("a", "b", transaction="committed"),
            *restarted(),
            *HOLE,
            *MOVED,
        ],
        "its own log begins later": [*TAKEN_BACK, *log("b", cluster=PRIMARY, start=1), *MOVED],
        "its own log ends earlier": [
            *acked("b"),
            *acked("a", first=1, transaction="committed"),
            *restarted(),
            *log("b", cluster=PRIMARY),
            *MOVED,
        ],
        "its own log was not read": [*TAKEN_BACK, *MOVED],
        "its own log has another record there": [*TAKEN_BACK, *log("x", "b", cluster=PRIMARY), *MOVED],
        "a reader was given it": [*TAKEN_BACK, Consumed(PRIMARY, *TP, 0, "a", "shop"), *HOLE, *MOVED],
        "it was in no transaction": [*acked("a"), *TAKEN_BACK[1:], *HOLE, *MOVED],
        "its own cluster has an older disk": [
            *TAKEN_BACK,
            FaultBegan("age primary", "the disk is older"),
            *HOLE,
            *MOVED,
        ],
        "its own cluster was emptied by a return": [
            *TAKEN_BACK,
            BACK,
            *HOLE,
            *MOVED[:-1],
            returned(),
            ON_STANDBY,
        ],
        "missing, no failover": [*ABC, *log("a", "b", cluster=PRIMARY), ON_PRIMARY],
        "missing before lost_from": [*ABC, OPENED, *log("a", "c"), failover(lost_from=2), ON_STANDBY],
        "the loss is unknown": [*ABC, OPENED, *log("a", "b"), failover(lost_from=None), ON_STANDBY],
        "a switchover loses nothing": [
            *ABC,
            OPENED,
            *log("a", "b"),
            failover(lost_from=2, planned=True),
            ON_STANDBY,
        ],
        "lost on the new primary, not on the old one": [
            *ABC,
            OPENED,
            *AFTER,
            *log("a", "b", "c"),
            failover(lost_from=3),
            ON_STANDBY,
        ],
        "after OPEN, and no divergence names it": [
            *ABC,
            OPENED,
            *LATE,
            divergence(3, 3),
            *log("a", "b", "c"),
            failover(lost_from=3, proven=False),
            ON_STANDBY,
        ],
        "more are lost than stated": [*ABC, OPENED, *LOST_TWO, *log("a"), EXACT, ON_STANDBY],
        "fewer are lost than stated": [*ABC, OPENED, *LOST_NONE, *log("a"), EXACT, ON_STANDBY],
        "committed in a transaction": [
            *acked("a", transaction="committed"),
            *log(cluster=PRIMARY),
            ON_PRIMARY,
        ],
    },
    "once, in order": {
        "twice": [*ABC, *log("a", "b", "c", "b"), ON_STANDBY],
        "twice, of unknown fate": [*UNKNOWN, *log("x", "x"), ON_STANDBY],
        "a value that a client never sent": [*STOPPED, *log("till 1", "till 2"), ON_STANDBY],
        "a value of another topic": [*STOPPED, Read(STANDBY, "payments", 0, 0, "till 1"), ON_STANDBY],
        "a foreign record": [*ABC, *log("a", "b", "c", "shop 7"), ON_STANDBY],
        "in two partitions": [*ABC, *log("a", "b", "c"), Read(STANDBY, "orders", 1, 0, "a"), ON_STANDBY],
        "swapped": [*ABC, *log("a", "c", "b"), ON_STANDBY],
        "a tail comes later, and no return replayed it": [
            *ABC,
            OPENED,
            *AFTER,
            *log("a", "c", "d", "b"),
            failover(lost_from=1),
            ON_STANDBY,
        ],
        "a replay out of order": [
            *ABC,
            OPENED,
            BACK,
            *log("a", "c", "b"),
            failover(lost_from=1),
            REPLAY,
            ON_STANDBY,
        ],
    },
    "nothing by an older writer after OPEN": {
        "a zombie copied on": [
            *ABC,
            OPENED,
            *AFTER,
            *log("a", "b", "d", "c"),
            failover(lost_from=2),
            ON_STANDBY,
        ],
        "a tail was discarded, and is there": [
            *ABC,
            OPENED,
            *AFTER,
            BACK,
            *log("a", "b", "d", "c"),
            failover(lost_from=2),
            DISCARD,
            ON_STANDBY,
        ],
    },
    "nothing aborted is seen": {
        "read": [*acked("a", transaction="aborted"), *log("a")],
        "consumed": [*acked("a", transaction="aborted"), Consumed(STANDBY, *TP, 0, "a", "shop")],
        "its own cluster shows it, and was never started again": [
            *acked("a", transaction="aborted"),
            *log("a", cluster=PRIMARY),
            *log("a"),
        ],
        "its own cluster shows it, and was started again before": [
            *restarted(),
            *acked("a", transaction="aborted"),
            *log("a", cluster=PRIMARY),
        ],
        "at another offset of its own cluster": [
            *acked("a", transaction="aborted"),
            *restarted(),
            Consumed(PRIMARY, *TP, 1, "a", "shop"),
        ],
    },
    "same for every reader": {
        "an older disk of the other side": [
            Consumed(STANDBY, *TP, 0, "b", "shop"),
            FaultBegan("age primary", "the disk is older"),
            *log("a"),
        ],
        "two values": [*log("a"), Consumed(STANDBY, *TP, 0, "b", "shop")],
        "another key": [Acked(PRIMARY, *TP, 0, "a", envelope="1"), Read(STANDBY, *TP, 7, "a", envelope="2")],
        "two groups": [Consumed(PRIMARY, *TP, 0, "a", "shop"), Consumed(PRIMARY, *TP, 0, "b", "billing")],
    },
}
HOLDS: Cases = {
    "acknowledged or stated as lost": {
        "Kafka took it back": [*TAKEN_BACK, *HOLE, *MOVED],
        "Kafka took it back from a full disk": [*DECIDED, *restarted("fill primary"), *HOLE, *MOVED],
        "Kafka took all of the transaction back": [
            *acked("a", "b", transaction="committed"),
            *acked("c", first=2),
            *restarted(),
            Read(PRIMARY, *TP, 2, "c"),
            LogEnd(PRIMARY, *TP, 0, 3),
            OPENED,
            *log("c"),
            failover(lost_from=3),
            ON_STANDBY,
        ],
        "Kafka took it back, and no failover": [*TAKEN_BACK, *HOLE, ON_PRIMARY],
        "Kafka took it back after OPEN": [
            OPENED,
            *TAKEN_BACK,
            *HOLE,
            *log("b"),
            failover(lost_from=2),
            ON_STANDBY,
        ],
        "Kafka took one of the lost back": [
            *TAKEN_BACK,
            *HOLE,
            OPENED,
            *log(),
            failover(loss={"exact": True, "statement": "1 record", "partitions": [{**ONE, "lost_from": 0}]}),
            ON_STANDBY,
        ],
        "stated": [*ABC, OPENED, *log("a"), failover(lost_from=1), ON_STANDBY],
        "named as divergent": [*ABC, OPENED, *log("a"), failover(lost_from=1), divergence(1, 3), ON_STANDBY],
        "as many are lost as stated": [*ABC[:2], OPENED, *LOST_ONE, *log("a"), EXACT, ON_STANDBY],
        "aborted": [
            *acked("x", transaction="aborted"),
            *ABC,
            *log("a", "b", "c", cluster=PRIMARY),
            ON_PRIMARY,
        ],
        "named by the divergence": [
            *ABC,
            OPENED,
            *LATE,
            divergence(3, 4),
            *log("a", "b", "c"),
            failover(lost_from=3, proven=False),
            ON_STANDBY,
        ],
        "lost to the first of two failovers": [
            *ABC,
            OPENED,
            *log("a", cluster=PRIMARY),
            failover(lost_from=1),
            OPENED_AGAIN,
            HOME,
            ON_PRIMARY,
        ],
        "trimmed at home": [
            *ABC,
            OPENED,
            *AFTER,
            BACK,
            *log("d", cluster=PRIMARY, start=3),
            failover(lost_from=3),
            returned(methods={"orders": "trim"}),
            OPENED_AGAIN,
            HOME,
            ON_PRIMARY,
        ],
    },
    "once, in order": {
        "of unknown fate": [*UNKNOWN, *ABC, *log("a", "x", "b", "c"), ON_STANDBY],
        "the last value of a client that was killed": [*KILLED, *log("till 1", "till 2"), ON_STANDBY],
        "other offsets": [*ABC, Read(STANDBY, *TP, 9, "c"), *log("a", "b"), ON_STANDBY],
        "on both sides": [*ABC, *log("a", "b", "c"), *log("a", "b", "c", cluster=PRIMARY), ON_STANDBY],
        "values of both clusters": [
            *ABC,
            OPENED,
            *acked("d", cluster=STANDBY, first=0),
            *log("a", "b", "c", "d"),
            failover(),
            ON_STANDBY,
        ],
        "replayed": [
            *ABC,
            OPENED,
            *AFTER,
            BACK,
            *log("a", "d", "b", "c"),
            failover(lost_from=1),
            REPLAY,
            ON_STANDBY,
        ],
    },
    "nothing by an older writer after OPEN": {
        "before the first own record": [
            *ABC,
            OPENED,
            *AFTER,
            *log("a", "b", "c", "d"),
            failover(),
            ON_STANDBY,
        ],
        "replayed": [
            *ABC,
            OPENED,
            *AFTER,
            BACK,
            *log("a", "d", "b", "c"),
            failover(lost_from=1),
            REPLAY,
            ON_STANDBY,
        ],
        "copied from the new primary, which is the old one": [
            *ABC,
            OPENED,
            *AFTER,
            BACK,
            OPENED_AGAIN,
            *acked("e", first=9),
            *log("a", "b", "c", "d", "e"),
            failover(),
            returned(),
            HOME,
            ON_PRIMARY,
        ],
    },
    "nothing aborted is seen": {
        "restored by its own cluster, and copied": [
            *acked("a", transaction="aborted"),
            *restarted(),
            *log("a", cluster=PRIMARY),
            *log("a"),
        ],
        "at the offset of an aborted one, on the other side": [
            *acked("x", transaction="aborted"),
            *acked("a", first=2),
            *log("a"),
        ],
    },
    "same for every reader": {
        "an older disk": [
            Consumed(PRIMARY, *TP, 0, "b", "shop"),
            *log("c"),
            FaultBegan("age primary", "the disk is older"),
            Consumed(STANDBY, *TP, 0, "c", "shop"),
            *log("a", cluster=PRIMARY),
        ],
        "the same value": [*log("a"), Consumed(STANDBY, *TP, 0, "a", "shop")],
        "the same key": [
            Acked(PRIMARY, *TP, 0, "a", envelope="1"),
            Consumed(PRIMARY, *TP, 0, "a", "shop", envelope="1"),
            Read(PRIMARY, *TP, 0, "a", envelope="1"),
        ],
        "another cluster": [*log("a"), *log("b", cluster=PRIMARY), Consumed(STANDBY, *TP, 0, "a", "shop")],
    },
}
NOTHING_EXAMINED: Cases = {
    "acknowledged or stated as lost": {
        "no log was read": [*ABC, ON_STANDBY],
        "no end": [*ABC, *log("a")],
    },
    "nothing aborted is seen": {
        "no transaction": [*ABC, *log("a")],
    },
    "same for every reader": {
        "seen once": [*log("a", "b")],
    },
}
