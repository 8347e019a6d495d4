"""EMPTY, of one topic of the old primary; and what an abort leaves of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drkit.errors import Failed
from drkit.failover.core.context import Context
from drkit.failover.core.machine import RETURN, StepName
from drkit.failover.emptying.empty import allow_deletion, compact_only, empty, not_empty, put_back
from drkit.flow_state.records import IncompleteRecord
from drkit.kafka.admin import Cluster
from drkit.model import TopicPartition


def effect_of(topic: str) -> str:
    """The effect's name in the journal."""
    return f"empty {topic}"


def is_emptied(context: Context, topic: str) -> bool:
    """Whether this run has begun to empty a topic."""
    return effect_of(topic) in context.effects(StepName.BEGIN)


def empty_topic(context: Context, topic: str, up_to: Mapping[int, int]) -> None:
    """Empty partitions of a topic of the old primary, and prove it. Repeated, it changes nothing more.

    :param up_to: by partition, the offset before which everything is deleted
    :raises Failed: it is not empty
    :raises DrkitError: the old primary does not answer, or refuses
    """
    admin = Cluster.connect(context.source_settings)
    known = context.effects(StepName.BEGIN).get(effect_of(topic))
    before = known["intent"]["settings"] if known is not None else compact_only(admin, [topic])
    source = context.source()
    assert source is not None  # noqa: S101  the earlier look has asked it
    wanted = {TopicPartition(topic, p): offset for p, offset in up_to.items()}
    details: dict[str, Any] = {"up_to": {str(p): o for p, o in up_to.items()}, "settings": before}
    with context.effect(StepName.BEGIN, effect_of(topic), **details) as outcome:
        allow_deletion(admin, before)
        context.run(empty, source, wanted)
        put_back(admin, before)
        outcome["emptied"] = sorted(details["up_to"])


def refuse_risen(context: Context, up_to: Mapping[TopicPartition, int]) -> None:
    """Refuse to continue where deleted records are back: brokers were killed soon after.

    :raises Failed: some are
    """
    source = context.source()
    if source is None:
        return
    risen: dict[TopicPartition, int] = context.run(not_empty, source, up_to)
    if risen:
        raise Failed(
            "deleted_records_back",
            where=context.flow.source,
            evidence=", ".join(f"{at} begins at {start}, not {up_to[at]}" for at, start in risen.items()),
            command=RETURN.command,
        )


def note_incomplete(context: Context, topic: str) -> bool:
    """Note that a topic of the old primary was emptied and nothing is copied to it; False: it was not.

    Its compaction, if it has one, is put back.

    :raises DrkitError: a cluster does not answer
    """
    known = context.effects(StepName.BEGIN).get(effect_of(topic))
    if known is None:
        return False
    put_back(Cluster.connect(context.source_settings), known["intent"]["settings"])
    emptied = {int(p): offset for p, offset in known["intent"]["up_to"].items()}
    context.state.put(IncompleteRecord(context.run_id, context.wall(), emptied), topic)
    return True
