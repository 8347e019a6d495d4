"""The replay of exported records, planned: what it would append, and whether it may."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from drkit.failover.core.choices import Disposition
from drkit.failover.core.context import Context
from drkit.failover.core.machine import StepName
from drkit.replay.compare import Same
from drkit.replay.plan import ReplayPlan
from drkit.replay.run import Replayer, ReplayRequest
from drkit.replay.tail import export_at


@contextmanager
def planned_replay(
    context: Context, disposition: Disposition, topics: Collection[str]
) -> Iterator[tuple[Replayer, ReplayPlan]]:
    """With the replay of the exported records of some topics, and its plan.

    :param topics: by their names on the old primary
    :raises Refused: the records may not be replayed there, it is not said what equal ones are, or a file of
        the export is not what was written
    :raises DrkitError: the new primary does not answer, or refuses
    """
    exported = context.result(StepName.EXPORT)
    export = export_at(exported["manifest"], exported["sha256"]).of_topics(frozenset(topics))
    same = Same(context.request.same) if context.request.same else None
    request = ReplayRequest(export, same, to_quarantine=disposition is Disposition.QUARANTINE)
    context.state.load()
    with Replayer(context.target_settings, context.flow, request) as replayer:
        plan = replayer.plan(context.state.records)
        plan.decided()
        yield replayer, plan
