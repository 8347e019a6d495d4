"""What was emptied before it was copied again is still empty: proven right before clients read it.

DeleteRecords is not durable at once. Brokers of the old primary that were killed within a minute of it bring
back what was deleted: records that the new primary never had, in front of those that were copied.
"""

from __future__ import annotations

from typing import Final

from drkit.counted import counted, first_of
from drkit.errors import Failed
from drkit.failover.core.context import Context
from drkit.failover.core.machine import StepName
from drkit.failover.emptying.empty import allow_deletion, compact_only, empty, not_empty, put_back
from drkit.model import TopicPartition

EMPTIED: Final = "emptied"


def emptied_in(context: Context) -> dict[TopicPartition, int]:
    """Partitions of the scope's copies that were emptied, and up to which offset."""
    topics = context.scope.topics
    return {
        TopicPartition(topics[at.topic], at.partition): offset
        for at, offset in context.known.emptied.items()
        if at.topic in topics
    }


def came_back(context: Context) -> dict[TopicPartition, int]:
    """Emptied partitions of the scope's copies that begin before that offset, and where they begin.

    :raises Failed: a leader does not answer
    :raises RawError: the cluster does not
    """
    found: dict[TopicPartition, int] = context.run(not_empty, context.target, emptied_in(context))
    return found


def empty_again(context: Context, step: StepName) -> tuple[str, ...]:
    """Empty what came back; returns notes.

    :param step: the step in which it happens
    :raises Refused: the cluster refuses to delete records, or a partition ends before that offset
    :raises DrkitError: it refuses settings, or does not do it in time
    :raises RawError: it does not answer
    """
    wanted, found = emptied_in(context), came_back(context)
    begun = context.effects(step).get(EMPTIED)
    # Noted by an earlier process, they are the topics' own; what there is now may be only for the moment.
    before = begun["intent"]["settings"] if begun is not None and begun["result"] is None else {}
    if not found and not before:
        return ()
    admin = context.target_admin()
    before = {**compact_only(admin, {at.topic for at in found}), **before}
    starts = {str(at): [start, wanted[at]] for at, start in found.items()}
    with context.effect(step, EMPTIED, partitions=starts, settings=before) as outcome:
        allow_deletion(admin, before)
        context.run(empty, context.target, {at: wanted[at] for at in found})
        put_back(admin, before)
        outcome["emptied"] = len(found)
    if not found:
        return ()
    some = counted(len(found), "partition")
    return (
        f"emptied again: {some} of {context.flow.target} had come back with records from before the turn",
    )


def put_back_interrupted(context: Context, step: StepName) -> None:
    """Restore the settings of topics whose emptying in a step was interrupted. It may be repeated.

    :raises DrkitError: the cluster does not answer, or refuses
    """
    begun = context.effects(step).get(EMPTIED)
    if begun is not None and begun["result"] is None:
        put_back(context.target_admin(), begun["intent"]["settings"])


def prove_empty(context: Context) -> None:
    """Refuse to continue while deleted records are there again.

    :raises Failed: some are, or a leader does not answer
    :raises RawError: the cluster does not answer
    """
    if found := came_back(context):
        raise Failed(
            "emptied_records_back",
            where=context.flow.target,
            evidence=first_of(f"{at} at {start}" for at, start in found.items()),
        )
