"""A tail that the old primary keeps is appended to the new one, before the flow back begins its partition."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Final, NamedTuple

from drkit.counted import first_of
from drkit.errors import Failed
from drkit.failover.core.choices import Disposition, Method
from drkit.failover.core.context import Context, StepProgress
from drkit.failover.core.machine import RETURN, StepName
from drkit.failover.returning.exporting import EXPORT
from drkit.failover.returning.replays import planned_replay
from drkit.flow_state.left_out import KeptTail
from drkit.model import TopicPartition
from drkit.replay.progress import ReplayProgress
from drkit.replay.run import roll_back_kept

APPEND: Final = "append "
"""The name of the effect, before the topic."""


class AppendedTail(NamedTuple):
    """A tail on both sides."""

    first: int
    """Offset of its first record on the old primary."""
    copy: KeptTail
    """On the new one."""


def append_kept(context: Context, topic: str) -> dict[TopicPartition, AppendedTail]:
    """Append the tails of a topic to the new primary, from the export; repeated, nothing twice.

    :param topic: its name on the old primary
    :raises Refused: the new primary has records of it already, or does not take them
    :raises Failed: not all of it was appended
    :raises DrkitError: the new primary does not answer, or refuses
    """
    with (
        context.effect(StepName.BEGIN, APPEND + topic) as outcome,
        planned_replay(context, Disposition.REPLAY, [topic], kept=True) as (replayer, plan),
    ):
        done = replayer.run(plan, partial(_told, context))
        records = {t.source: t.records for t in plan.export.tails}
        firsts = {t.source: next(t.read()).offset for t in plan.export.tails}
        found = {}
        for at, result in sorted(done.items()):
            if result.appended != records[at] or not result.ids or result.copied_to is None:
                raise Failed(
                    "keep_not_appended",
                    where=f"{at} of {context.flow.source}",
                    evidence=f"{result.appended} of {records[at]} records",
                    command=RETURN.command,
                )
            copy = KeptTail(result.copied_to, frozenset(result.ids))
            found[at] = AppendedTail(firsts[at], copy)
            outcome[str(at)] = {"appended": result.appended, "up to": result.copied_to}
    return found


def roll_back_kept_tails(
    context: Context, decided: Mapping[TopicPartition, Method], topics: Collection[str]
) -> list[str]:
    """Let others append what is left of the tails that were to be kept; what was appended stays.

    :param decided: partition of the old primary → its method
    :param topics: those that have not begun, by their names there
    :returns: what a person has to know of it
    :raises DrkitError: the new primary does not answer, or refuses
    """
    done = [t for t in topics if APPEND + t in context.effects(StepName.BEGIN)]
    if not done:
        return []
    names = context.scope.topics
    kept = [TopicPartition(names[at.topic], at.partition) for at, method in decided.items()
            if at.topic in done and method is Method.KEEP]  # fmt: skip
    run_id = context.effects(StepName.EXPORT)[EXPORT]["intent"]["run"]
    roll_back_kept(context.target_settings, context.flow, run_id, kept)
    note = (
        f"exported records that were appended to {context.flow.target} stay there: {first_of(done)}; when"
        " it returns, --disposition TOPIC=replay appends only what is missing"
    )
    return [note]


def _told(context: Context, progress: ReplayProgress) -> None:
    line = f"{progress.at}: {progress.appended} appended, up to {progress.next} of the old primary"
    context.tell(StepProgress(StepName.BEGIN, line))
    context.journal.renew()
