"""The replay of exported records, planned: what it would append, and whether it may."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from shlex import quote
from typing import Final

from drkit.counted import first_of
from drkit.failover.core.choices import Disposition
from drkit.failover.core.context import Context
from drkit.failover.core.machine import StepName
from drkit.failover.old_primary.emptied import effect_of
from drkit.failover.returning.exporting import EXPORT
from drkit.flow_state.records import TailRecord, UnreplayedRecord
from drkit.replay.compare import Same
from drkit.replay.plan import ReplayPlan
from drkit.replay.run import Replayer, ReplayRequest
from drkit.replay.tail import export_at

OPTION: Final = {Disposition.REPLAY: "", Disposition.QUARANTINE: " --to-quarantine"}
"""Of ``drkit replay``, for what appends records."""


@contextmanager
def planned_replay(
    context: Context, disposition: Disposition, topics: Collection[str], *, kept: bool = False
) -> Iterator[tuple[Replayer, ReplayPlan]]:
    """With the replay of the exported records of some topics, and its plan.

    :param topics: by their names on the old primary
    :param kept: the old primary keeps their tails
    :raises Refused: the records may not be replayed there, it is not said what equal ones are, or a file of
        the export is not what was written
    :raises DrkitError: the new primary does not answer, or refuses
    """
    exported = context.result(StepName.EXPORT)
    export = export_at(exported["manifest"], exported["sha256"]).of_topics(frozenset(topics))
    export = export.kept() if kept else export
    same = Same(context.request.same) if context.request.same else None
    request = ReplayRequest(export, same, to_quarantine=disposition is Disposition.QUARANTINE)
    context.state.load()
    with Replayer(context.target_settings, context.flow, request) as replayer:
        plan = replayer.plan(context.state.records)
        plan.decided()
        yield replayer, plan


def note_unreplayed(context: Context) -> list[str]:
    """Note records that an aborted run has destroyed, and was to append and has not.

    Repeated, it notes the same.

    :returns: what is left to do, by command
    :raises DrkitError: the state cannot be written
    """
    emptied, replayed, found = context.effects(StepName.BEGIN), context.effects(StepName.REPLAY), []
    chosen: dict[str, dict[str, str]] = context.result(StepName.DECIDE).get("topics", {})
    for disposition, option in OPTION.items():
        if (replayed.get(disposition.value) or {}).get("result") is not None:
            continue
        names = [
            t
            for t, d in sorted(chosen.items())
            if d["disposition"] == disposition and effect_of(t) in emptied
        ]
        for topic in names:
            _note(context, topic, disposition)
        if names:
            found.append(to_replay(context.result(StepName.EXPORT)["manifest"], names, option))
    return found


def _note(context: Context, topic: str, disposition: Disposition) -> None:
    exported, tail = context.result(StepName.EXPORT), context.state.get(TailRecord, topic)
    name = UnreplayedRecord.name_of(topic, context.effects(StepName.EXPORT)[EXPORT]["intent"]["run"])
    if context.state.get(UnreplayedRecord, name) is None:
        record = UnreplayedRecord(
            run_id=context.run_id,
            at_ms=context.wall(),
            records=tail.records if tail is not None else 0,
            manifest=exported["manifest"],
            sha256=exported["sha256"],
            disposition=disposition.value,
        )
        context.state.put(record, name)


def to_replay(manifest: str, topics: Collection[str], option: str = "") -> str:
    """What is left to do for records of some topics of the old primary that only an export has.

    :param option: of the command
    """
    some = "".join(f" --topic {quote(t)}" for t in sorted(topics))
    return (
        f"what only the old primary had of {first_of(sorted(topics))} is in the export alone, not replayed:"
        f" drkit replay --from {quote(manifest)}{some}{option}"
    )
