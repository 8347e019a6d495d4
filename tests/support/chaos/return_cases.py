"""Cases of returns: histories that break a promise, and histories that only look as if they did."""

from __future__ import annotations

from dataclasses import replace

from drkit.exercise.events import PRIMARY, STANDBY, Event, ExportRead, FaultBegan, LookFailed, Probed
from tests.support.chaos.minimal import (
    ON_PRIMARY,
    ON_STANDBY,
    OPENED,
    TP,
    Cases,
    acked,
    entry,
    failover,
    log,
    returned,
)

ABC = acked("a", "b", "c")
SAVED = [ExportRead(PRIMARY, *TP, n, value) for n, value in enumerate("bc", 1)]
FROM_1 = failover(lost_from=1)
LATE = acked("late", first=3)
KILL = FaultBegan("kill primary", "no process is left")
BACK = entry("LOCK", "intent", table="return", run="return")
OPENED_AGAIN = entry("OPEN", "result", run="2")
HOME = failover(planned=True, source=STANDBY, run="2")
REPLAY, DISCARD = (returned(dispositions={"*": word}) for word in ("replay", "discard"))
LEFT_OPEN = failover(proven=False)
UNCOPIED = {"topic": "orders", "partition": 0, "lost_from": 0, "end": 9}
BOTH_OPEN = [Probed(cluster, "orders", is_accepted=True) for cluster in (PRIMARY, STANDBY)]


def refused(cluster: str = PRIMARY) -> Event:
    return Probed(cluster, "orders", is_accepted=False, error="refused")


BROKEN: Cases = {
    "same on both sides": {
        "a record less": [
            OPENED,
            BACK,
            *log("a", "b"),
            *log("a", cluster=PRIMARY),
            failover(),
            returned(),
            ON_STANDBY,
        ],
        "a record less, and no failover": [*log("a", "b", cluster=PRIMARY), *log("b"), ON_PRIMARY],
        "another order": [
            OPENED,
            BACK,
            *log("a", "b"),
            *log("b", "a", cluster=PRIMARY),
            failover(),
            returned(),
            ON_STANDBY,
        ],
    },
    "only what was given up is missing": {
        "not exported": [
            *ABC,
            OPENED,
            BACK,
            *SAVED[1:],
            *log("a"),
            failover(lost_from=1),
            DISCARD,
            ON_STANDBY,
        ],
        "not replayed": [*ABC, OPENED, BACK, *log("a"), failover(lost_from=1), REPLAY, ON_STANDBY],
        "discarded, and there": [
            *ABC,
            OPENED,
            BACK,
            *log("a", "b", "c"),
            failover(lost_from=1),
            DISCARD,
            ON_STANDBY,
        ],
        "nothing was decided": [*ABC, OPENED, BACK, *log("a"), failover(lost_from=1), returned(), ON_STANDBY],
        "replay of one topic, loss of another": [
            *ABC,
            OPENED,
            BACK,
            *log("a"),
            failover(lost_from=1),
            returned(dispositions={"payments": "discard"}),
            ON_STANDBY,
        ],
    },
}
HOLDS: Cases = {
    "same on both sides": {
        "other offsets": [
            OPENED,
            BACK,
            *log("a", "b"),
            *log("a", "b", cluster=PRIMARY, start=7),
            failover(),
            returned(),
            ON_STANDBY,
        ],
        "the copy was not read to its end": [
            *log("a", "b", cluster=PRIMARY),
            *log("a"),
            LookFailed("the copy at the end", "no answer"),
            ON_PRIMARY,
        ],
    },
    "only what was given up is missing": {
        "discarded": [*ABC, OPENED, BACK, *SAVED, *log("a"), failover(lost_from=1), DISCARD, ON_STANDBY],
        "replayed": [
            *ABC,
            OPENED,
            BACK,
            *SAVED,
            *log("a", "b", "c"),
            failover(lost_from=1),
            REPLAY,
            ON_STANDBY,
        ],
        "by its own name": [
            *ABC,
            OPENED,
            BACK,
            *SAVED,
            *log("a"),
            failover(lost_from=1),
            returned(dispositions={"*": "replay", "orders": "quarantine"}),
            ON_STANDBY,
        ],
        "its history was given up": [
            *ABC,
            OPENED,
            BACK,
            *SAVED,
            *log("a", "c"),
            failover(lost_from=1),
            returned(dispositions={"*": "replay"}, give_up_history=["orders"]),
            ON_STANDBY,
        ],
    },
}
NOTHING_EXAMINED: Cases = {
    "same on both sides": {
        "a failover after the return": [
            OPENED,
            BACK,
            OPENED_AGAIN,
            *log("a"),
            *log(cluster=PRIMARY),
            failover(),
            returned(),
            HOME,
        ],
        "trimmed": [
            OPENED,
            BACK,
            *log("a", "b"),
            *log("b", cluster=PRIMARY),
            failover(),
            returned(methods={"*": "trim"}),
        ],
        "one side was not read": [OPENED, BACK, *log("a"), failover(), returned()],
        "a return that was aborted": [
            OPENED,
            BACK,
            *log("a"),
            *log(cluster=PRIMARY),
            failover(),
            replace(returned(), state="aborted"),
        ],
    },
}
