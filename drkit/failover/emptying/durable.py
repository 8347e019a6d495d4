"""Before a planned switchover fences: what was emptied is on the brokers' disks, so that a crash keeps it.

A broker writes to disk where a log begins only every ``log.flush.start.offset.checkpoint.interval.ms``, a
minute by default. Killed before, it comes back with what DeleteRecords had deleted, and a client that reads
from the beginning gets it. The active side still serves while this waits.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from drkit.counted import counted
from drkit.errors import DrkitError
from drkit.failover.core.context import Context, StepProgress
from drkit.failover.core.machine import StepName
from drkit.failover.core.step import StepEffect
from drkit.failover.emptying.standing import EMPTIED, came_back, emptied_in, empty_again
from drkit.flow_state.records import ReturnRecord
from drkit.kafka.topics import broker_config

_INTERVAL: Final = "log.flush.start.offset.checkpoint.interval.ms"
_DEFAULT_SECONDS: Final = 60.0
_WRITES_SHARE: Final = 0.1
"""Of the interval, for the writing itself: brokers count the next one from its end."""
_WRITES_SECONDS: Final = 1.0
_CLOCKS_APART_SECONDS: Final = 600.0
"""By how much the clocks of two hosts may differ."""
_TELL_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.5


class Wait(NamedTuple):
    """How long a broker may lose that partitions were emptied."""

    partitions: int
    seconds: float
    """Left from now; 0.0: all brokers have it on disk."""

    def in_words(self, where: str) -> str:
        """What it waits for."""
        some = counted(self.partitions, "emptied partition")
        return f"wait {self.seconds:.0f} s until {where} has on disk that {some} begin later"


def wait_now(context: Context) -> Wait:
    """What a planned switchover would wait for now.

    :raises DrkitError: the cluster does not answer
    """
    emptied = emptied_in(context)
    if not emptied or not context.request.planned:
        return Wait(0, 0.0)
    records = (context.state.get(ReturnRecord, topic) for topic in {at.topic for at in context.known.emptied})
    at_ms = max((r.at_ms for r in records if r is not None), default=0)
    # Another host may have written the time. Unless it was long ago by any clock, how long is unknown.
    seconds = _seconds(context)
    is_long_ago = (context.wall() - at_ms) / 1_000 > seconds + _CLOCKS_APART_SECONDS
    return Wait(len(emptied), 0.0 if is_long_ago else seconds)


def planned_wait(context: Context) -> list[StepEffect]:
    """What :func:`settle_emptied` would do, for a dry run.

    :raises DrkitError: the cluster does not answer
    """
    wait, target = wait_now(context), context.flow.target
    back = came_back(context) if wait.partitions else {}
    found = [
        StepEffect(f"empty {at} again", target, f"brokers have brought back what is from {start} on")
        for at, start in back.items()
    ]
    if back or wait.seconds:
        wait = wait._replace(seconds=_seconds(context) if back else wait.seconds)
        why = "a broker killed before it brings back deleted records"
        found.append(StepEffect(wait.in_words(target), target, why))
    return found


def settle_emptied(context: Context, step: StepName) -> tuple[str, ...]:
    """Wait until every emptied partition of the scope stays empty, also if brokers are killed; returns notes.

    What came back meanwhile is emptied again. A step that has begun anything else waits no more: clients are
    kept off from then on.

    :param step: the step in which it happens
    :raises DrkitError: see :func:`drkit.failover.emptying.standing.empty_again`
    """
    if not context.request.planned or context.effects(step).keys() - {EMPTIED}:
        return ()
    notes = list(empty_again(context, step))
    wait = wait_now(context)
    if EMPTIED in context.effects(step):
        # By this process or by one that ended in its wait: how long ago is unknown.
        wait = wait._replace(seconds=_seconds(context))
    told = float("-inf")
    until = context.clock() + wait.seconds
    while (left := until - context.clock()) > 0:
        if context.clock() >= told + _TELL_SECONDS:
            told = context.clock()
            context.tell(StepProgress(step, wait._replace(seconds=left).in_words(context.flow.target)))
        context.pause(min(left, _PAUSE_SECONDS))
        if left <= _PAUSE_SECONDS and (more := empty_again(context, step)):
            # Brokers were killed while this waited: it begins again.
            notes, until = [*notes, *more], context.clock() + _seconds(context)
    if wait.seconds:
        some = counted(wait.partitions, "emptied partition")
        notes.append(f"{context.flow.target} has on disk where {some} begin")
    return tuple(notes)


def _seconds(context: Context) -> float:
    """How long after a deletion every broker has it on disk."""
    admin = context.target_admin()
    try:
        found = [broker_config(admin, broker.id)[_INTERVAL].value for broker in admin.brokers]
    except DrkitError:  # drkit may not read it, or a broker is away: Kafka's default
        found = []
    longest = max((int(value) / 1_000 for value in found if value), default=_DEFAULT_SECONDS)
    return longest + max(_WRITES_SECONDS, _WRITES_SHARE * longest)
