"""Keep emptied partitions empty until they are copied again: awaited before a fence, proven before OPEN.

DeleteRecords is not durable at once. A broker writes to disk where a log begins only every
``log.flush.start.offset.checkpoint.interval.ms``, a minute by default. Killed before, it brings back what
was deleted: records that the new primary never had, in front of those that were copied. A planned switchover
waits for that while the active side still serves.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from drkit.counted import counted, first_of
from drkit.errors import DrkitError, Failed
from drkit.failover.core.context import Context, StepProgress
from drkit.failover.core.step import StepEffect
from drkit.failover.emptying.empty import allow_deletion, compact_only, empty, not_empty, put_back
from drkit.journal.machine import StepName
from drkit.kafka.topics import broker_config
from drkit.model import TopicPartition

EMPTIED: Final = "emptied"


def emptied_in(context: Context) -> dict[TopicPartition, int]:
    """Return the partitions of the scope's copies that were emptied, and up to which offset."""
    topics = context.scope.topics
    return {
        TopicPartition(topics[tp.topic], tp.partition): offset
        for tp, offset in context.known.emptied.items()
        if tp.topic in topics
    }


def came_back(context: Context) -> dict[TopicPartition, int]:
    """Return emptied partitions that begin before their offset, and where. Raises Failed, RawError."""
    starts: dict[TopicPartition, int] = context.run(not_empty, context.target, emptied_in(context))
    return starts


def empty_again(context: Context, step: StepName) -> tuple[str, ...]:
    """Empty what came back; returns notes.

    :param step: the step in which it happens
    :raises Refused: the cluster refuses to delete records, or a partition ends before that offset
    :raises DrkitError: it refuses settings, or does not do it in time
    :raises RawError: it does not answer
    """
    offsets, risen = emptied_in(context), came_back(context)
    begun = context.effects(step).get(EMPTIED)
    # Noted by an earlier process, they are the topics' own; what there is now may be only for the moment.
    before = begun["intent"]["settings"] if begun is not None and begun["result"] is None else {}
    if not risen and not before:
        return ()
    admin = context.target_admin()
    before = {**compact_only(admin, {tp.topic for tp in risen}), **before}
    starts = {str(tp): [start, offsets[tp]] for tp, start in risen.items()}
    with context.effect(step, EMPTIED, partitions=starts, settings=before) as outcome:
        allow_deletion(admin, before)
        context.run(empty, context.target, {tp: offsets[tp] for tp in risen})
        put_back(admin, before)
        outcome["emptied"] = len(risen)
    if not risen:
        return ()
    number = counted(len(risen), "partition")
    return (
        f"emptied again: {number} of {context.flow.target} had come back with records from before the turn",
    )


def put_back_interrupted(context: Context, step: StepName) -> None:
    """Restore settings after an interrupted emptying; repeatable. Raises DrkitError if that is refused."""
    begun = context.effects(step).get(EMPTIED)
    if begun is not None and begun["result"] is None:
        put_back(context.target_admin(), begun["intent"]["settings"])


def prove_empty(context: Context) -> None:
    """Refuse to continue while deleted records are back. Raises Failed, or RawError without an answer."""
    if risen := came_back(context):
        evidence = first_of(f"{tp} at {start}" for tp, start in risen.items())
        raise Failed("emptied_records_back", where=context.flow.target, evidence=evidence)


_INTERVAL: Final = "log.flush.start.offset.checkpoint.interval.ms"
_DEFAULT_SECONDS: Final = 60.0
_WRITES_SHARE: Final = 0.1
"""Share of the interval for the writing itself: brokers count the next one from its end."""
_WRITES_SECONDS: Final = 1.0
_TELL_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.5


class Wait(NamedTuple):
    """The time in which a broker may still lose that partitions were emptied."""

    partitions: int
    seconds: float
    """From now on; 0.0 without such partitions."""

    def in_words(self, where: str) -> str:
        """Describe the wait."""
        partitions = counted(self.partitions, "emptied partition")
        return f"wait {self.seconds:.0f} s until {where} has on disk that {partitions} begin later"


def wait_now(context: Context) -> Wait:
    """Return what a planned switchover would wait for now. Raises DrkitError without an answer.

    The record of the return has another host's time, so how long ago the emptying was is unknown.
    """
    emptied = emptied_in(context)
    if not emptied or not context.request.planned:
        return Wait(0, 0.0)
    return Wait(len(emptied), _seconds(context))


def planned_wait(context: Context) -> list[StepEffect]:
    """Return what :func:`settle_emptied` would do. Raises DrkitError without an answer."""
    wait, target = wait_now(context), context.flow.target
    risen = came_back(context) if wait.partitions else {}
    effects = [
        StepEffect(f"empty {tp} again", target, f"brokers have brought back what is from {start} on")
        for tp, start in risen.items()
    ]
    if wait.seconds:
        reason = "a broker killed before it brings back deleted records"
        effects.append(StepEffect(wait.in_words(target), target, reason))
    return effects


def settle_emptied(context: Context, step: StepName) -> tuple[str, ...]:
    """Wait until every emptied partition of the scope stays empty, also if brokers are killed; returns notes.

    What came back meanwhile is emptied again. A step that has begun anything else waits no more: clients are
    kept off from then on.

    :param step: the step in which it happens
    :raises DrkitError: see :func:`drkit.failover.emptying.standing.empty_again`
    """
    if not context.request.planned or context.effects(step).keys() - {EMPTIED}:
        return ()
    notes, wait, reported = list(empty_again(context, step)), wait_now(context), float("-inf")
    until = context.clock() + wait.seconds
    while (remaining := until - context.clock()) > 0:
        if context.clock() >= reported + _TELL_SECONDS:
            reported = context.clock()
            context.tell(StepProgress(step, wait._replace(seconds=remaining).in_words(context.flow.target)))
        context.pause(min(remaining, _PAUSE_SECONDS))
        if remaining <= _PAUSE_SECONDS and (more := empty_again(context, step)):
            # Brokers were killed during the wait: it begins again.
            notes, until = [*notes, *more], context.clock() + _seconds(context)
    if wait.seconds:
        partitions = counted(wait.partitions, "emptied partition")
        notes.append(f"{context.flow.target} has on disk where {partitions} begin")
    return tuple(notes)


def _seconds(context: Context) -> float:
    admin = context.target_admin()
    try:
        values = [broker_config(admin, broker.id)[_INTERVAL].value for broker in admin.brokers]
    except DrkitError:  # drkit may not read it, or a broker is away: Kafka's default
        values = []
    longest = max((int(value) / 1_000 for value in values if value), default=_DEFAULT_SECONDS)
    return longest + max(_WRITES_SECONDS, _WRITES_SHARE * longest)
