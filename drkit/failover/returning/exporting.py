"""EXPORT: the records that only the old primary has go to files, which a second job reads back.

Their manifest's hash goes into the journal and into the flow's state on the new primary. There each export
stays on record: the old primary may lose the records later. Without such records nothing is done.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
import hashlib
from typing import Any, Final

from drkit.counted import counted, first_of
from drkit.errors import ConfigError, ExportAltered, Failed, Refused
from drkit.export.manifest import ExportFormat, TailRange
from drkit.export.run import Exported, ExportRequest, export_tails
from drkit.failover.core.commands import retry_command
from drkit.failover.core.context import Context, StepProgress
from drkit.failover.core.request import RunRequest
from drkit.failover.core.step import Step, StepEffect, StepResult
from drkit.failover.loss.divergence import copied_back, terms_of
from drkit.failover.old_primary.altered import of_new, way_out
from drkit.failover.old_primary.lost_tail import note_saved
from drkit.failover.returning.compare import NeedsMethod, of_json
from drkit.flow_state.records import TailRecord
from drkit.journal.journal import RunLocked
from drkit.journal.machine import RETURN, StepName
from drkit.kafka.requests import all_topics
from drkit.next_command import PLACE

EXPORT: Final = "export"
NOTED: Final = "note"
_NAME_DIGITS: Final = 8


class ExportStep(Step):
    """EXPORT: writes the records that only the old primary has to files."""

    name = StepName.EXPORT

    def plan(self, context: Context) -> list[StepEffect]:
        tails = tails_of(context)
        if not tails:
            return []
        to = _place(context, tails)
        records = sum(u.tail.records for u in tails)
        return [StepEffect(f"export {counted(records, 'record')}", to, "and read them back")]

    def run(self, context: Context) -> StepResult:
        unsound = tails_of(context)
        if not unsound:
            return StepResult()
        to, tails = _place(context, unsound), self._ranges(context, unsound)
        request = context.request
        # Another folder where the ends have changed since.
        digest = hashlib.sha256("\n".join(map(str, sorted(tails))).encode()).hexdigest()
        export = ExportRequest(
            to, f"{context.run_id}-{digest[:_NAME_DIGITS]}",
            request.export_format or ExportFormat.PARQUET.value,
            terms=terms_of(context, {u.at.topic for u in unsound}),
        )  # fmt: skip
        spans = {str(u.at): list(u.span) for u in unsound}
        with context.effect(self.name, EXPORT, to=to, run=export.run_id, spans=spans) as outcome:
            skip = copied_back(context, (u.tail for u in unsound))
            with _name_another_place(), way_out(partial(of_new, context)):
                done = export_tails(
                    context.settings, context.flow, export, tails, skip, partial(_report, context)
                )
            refuse_lacking(unsound, done)
            outcome |= {"manifest": done.path, "sha256": done.sha256}
        with context.effect(self.name, NOTED, **outcome):
            self._note(context, unsound, done)
        records = sum(p.records for p in done.manifest.partitions)
        note = f"{counted(records, 'record')} that only {context.flow.source} has: {done.path}"
        evidence = {"manifest": done.path, "sha256": done.sha256, "records": records, "spans": spans}
        return StepResult(evidence, (note,))

    def undo(self, context: Context) -> StepResult:
        """Report that the files stay."""
        effect = context.effects(self.name).get(EXPORT)
        manifest = ((effect or {}).get("result") or {}).get("manifest")
        if not manifest:
            return StepResult()
        note = (
            f"the export stays: {manifest}; the next return decides about its records also where"
            f" {context.flow.source} has lost them"
        )
        return StepResult({"pending": note}, (note,))

    def _ranges(self, context: Context, unsound: Sequence[NeedsMethod]) -> list[TailRange]:
        source = context.source()
        topics: dict[str, Any] = context.run(all_topics, source) if source is not None else {}
        return [
            TailRange(u.at.topic, topics[u.at.topic].topic_id, u.at.partition, *u.span)
            for u in unsound
            if u.at.topic in topics
        ]

    def _note(self, context: Context, unsound: Sequence[NeedsMethod], done: Exported) -> None:
        for topic in sorted({u.at.topic for u in unsound}):
            own = [u for u in unsound if u.at.topic == topic]
            record = TailRecord(
                run_id=context.run_id,
                at_ms=context.wall(),
                records=sum(u.tail.records for u in own),
                spans={u.at.partition: u.span for u in own},
                manifest=done.path,
                sha256=done.sha256,
            )
            context.state.put(record, topic)
        note_saved(context, done.manifest, done.path)


def tails_of(context: Context) -> list[NeedsMethod]:
    """Return the partitions with records that only the old primary has, as found by COMPARE."""
    return [u for u in of_json(context.result(StepName.COMPARE).get("unsound", ())) if u.has_tail]


def _place(context: Context, unsound: Sequence[NeedsMethod]) -> str:
    if context.request.export_to:
        return context.request.export_to
    records = sum(u.tail.records for u in unsound)
    raise Refused(
        "export_place_missing",
        where=context.flow.source,
        evidence=first_of(f"{u.at}: {counted(u.tail.records, 'record')} from {u.span[0]}" for u in unsound),
        records=counted(records, "record", "is"),
        command=retry_command(context, RunRequest(export_to=PLACE)),
    )


@contextmanager
def _name_another_place() -> Iterator[None]:
    """Name the command that continues a run whose export failed, for example on a full disk."""
    try:
        yield
    except (RunLocked, ExportAltered):
        raise
    except (ConfigError, Failed, Refused) as error:
        elsewhere = RETURN.resume.plus("--export-to", PLACE)
        error.hint = f"{error.hint}; then: {RETURN.resume}, or in another place: {elsewhere}"
        raise


def refuse_lacking(unsound: Sequence[NeedsMethod], done: Exported) -> None:
    """Refuse an export with fewer records than the comparison has counted."""
    there = {(p.topic, p.partition): p.records for p in done.manifest.partitions}
    lacking = [
        f"{u.at}: {there.get((u.at.topic, u.at.partition), 0)} of {u.tail.records}" for u in unsound
        if there.get((u.at.topic, u.at.partition), 0) < u.tail.records
    ]  # fmt: skip
    if lacking:
        raise Refused("export_short", where=done.path, evidence=first_of(lacking), again=RETURN.resume)


def _report(context: Context, line: str) -> None:
    context.tell(StepProgress(StepName.EXPORT, line))
    context.journal.renew()
