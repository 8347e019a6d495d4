"""The way out of an export that is not what was written.

It depends on whether the old primary still has the records: lost ones cannot be exported again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager

from drkit.config import FlowSettings
from drkit.counted import first_of
from drkit.errors import ExportAltered
from drkit.export.check import PUT_BACK
from drkit.failover.core.commands import begin_command, retry_command, return_command
from drkit.failover.core.context import Context
from drkit.failover.core.request import Disposition, RunRequest
from drkit.failover.old_primary.emptied import is_emptied
from drkit.flow_state.records import IncompleteRecord, TailRecord
from drkit.flow_state.state import FlowState
from drkit.flow_state.unreplayed import to_give_up, unreplayed
from drkit.journal.machine import RETURN, StepName
from drkit.next_command import PLACE, WHY, quoted


@contextmanager
def way_out(hint: Callable[[], str]) -> Iterator[None]:
    """Name the command that continues a return whose export is not as it was written."""
    try:
        yield
    except ExportAltered as error:
        error.hint = hint()
        raise


def of_own(context: Context, topics: Collection[str], *, begun: bool = False) -> str:
    """Return the way out of this run's export; with `begun`, an abort leaves topics copied."""
    alias = context.flow.source
    manifest = str(context.result(StepName.EXPORT)["manifest"])
    restored = f"{_put_back(manifest)}; then: {RETURN.resume}"
    if emptied := sorted(t for t in topics if is_emptied(context, t)):
        given_up = (
            to_give_up(manifest, *emptied)
            if begun
            else begin_command(context, context.request.plus(_discarded(emptied)))
        )
        return (
            f"{first_of(emptied)}: emptied on {alias}, so the export is the only copy: {restored}; without a"
            f" copy of it give the records up by name: {RETURN.abort}, then: {given_up}"
        )
    return (
        f"{alias} still has the records of {first_of(sorted(topics))}: {restored}; or export them again:"
        f" {RETURN.abort}, then: {begin_command(context, context.request.plus(RunRequest(export_to=PLACE)))}"
    )


def of_earlier(context: Context, topic: str, manifest: str) -> str:
    """Return the way out of an earlier export, which has records that the old primary has lost since."""
    if context.effects(StepName.BEGIN):
        given_up = f"{to_give_up(manifest, topic)}, then: {RETURN.resume}"
    else:
        given_up = str(retry_command(context, _discarded([topic])))
    return (
        f"{context.flow.source} has lost these records of {topic}, so the export is the only copy:"
        f" {_put_back(manifest)}; then: {RETURN.resume}; without a copy of it give them up by name:"
        f" {given_up}"
    )


def of_new(context: Context) -> str:
    """Return the way out of the export that is being written, or was kept of an earlier attempt."""
    return (
        f"{context.flow.source} still has the records: check the disk, then export them in another place:"
        f" {RETURN.resume.plus('--export-to', PLACE)}; or {PUT_BACK}; then: {RETURN.resume}"
    )


def only_copy(state: FlowState, flow: FlowSettings, manifest: str) -> str:
    """Return the way out of an export that is the only copy of records; empty if it is not. Pure."""
    unfinished = [each for each in unreplayed(state) if each.record.manifest == manifest]
    emptied = [
        topic for topic, tail in sorted(state.all(TailRecord).items())
        if tail.manifest == manifest and state.get(IncompleteRecord, topic) is not None
    ]  # fmt: skip
    if not (unfinished or emptied):
        return ""
    if unfinished:
        given_up = to_give_up(manifest, *(each.topic for each in unfinished))
    else:
        given_up = str(return_command(flow.name, (), _discarded(emptied)))
    names = first_of(sorted({*(each.topic for each in unfinished), *emptied}))
    return (
        f"{flow.source} has these records no more ({names}), so the export is the only copy:"
        f" {_put_back(manifest)}; without a copy of it give them up by name: {given_up}"
    )


def _put_back(manifest: str) -> str:
    return f"{PUT_BACK}: drkit divergence verify {quoted(manifest)}"


def _discarded(topics: Iterable[str]) -> RunRequest:
    return RunRequest(dispositions=dict.fromkeys(topics, Disposition.DISCARD), reason=WHY)
