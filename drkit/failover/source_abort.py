"""The abort of a planned run by its record on the source, while the target with the journal is away.

The record lifts exactly the run's fence. It is safe while the run has not marked there that it opens its
target; after that mark a person must state how the target is known to be lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drkit import observe
from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.counted import counted, first_of
from drkit.errors import DrkitError, Failed, Refused
from drkit.failover.fencing.methods import lift_fence
from drkit.flow_state.source_fence.entries import FenceLog, FenceMark, FenceRecord
from drkit.flow_state.source_fence.topic import FenceTopic
from drkit.journal.entries import read_history
from drkit.journal.file import files_in, folder_of
from drkit.journal.machine import FAILOVER
from drkit.journal.stall import ProcessSuspended, Stall
from drkit.kafka.transport import permitted_by
from drkit.next_command import REASON


def abort_at_source(
    settings: Settings,
    flow: FlowSettings,
    target_error: DrkitError,
    *,
    statement: str = "",
    confirm: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Abort the planned runs whose fences the source has on record; return the report. May be repeated.

    :param target_error: why the target cannot be asked
    :param statement: how a person knows that the target is lost; on record
    :param confirm: called before anything is changed, with what is known, and what cannot be known
    :raises Refused: nothing is on record, or the target may be open
    :raises DrkitError: the source does not answer, or refuses
    """
    source = settings.cluster(flow.source).with_client(flow.source_admin)
    with FenceTopic(source, flow) as topic:
        log = topic.read()
        records = _abortable(log, topic, target_error)
        if not statement:
            _refuse_opening(records, topic)
            _refuse_later(settings, flow, records)
        runs, topics = [r.run_id for r in records], sorted({t for r in records for t in r.topics})
        confirm(
            f"{flow.target} does not answer. By its record on {flow.source}, run {', '.join(runs)} fenced"
            f" {counted(len(topics), 'topic')} there ({first_of(topics)}). The abort lifts that fence."
            f" Whether a later failover has opened {flow.target} without {flow.source} cannot be known here:"
            " then both would take writes"
        )
        try:
            with Stall() as stall, permitted_by(stall.ask):
                for record in records:
                    _abort(topic, source, record, statement)
        except ProcessSuspended:
            raise Failed(
                "suspended_in_abort", where=topic.where, evidence="what it knew of the record may be old"
            ) from None
    observe.event("aborted_at_source", level="warning", flow=flow.name, runs=runs, topics=topics,
                  reason=statement or target_error.in_short)  # fmt: skip
    next_ = f"when {flow.target} is back: {FAILOVER.abort.plus('--flow', flow.name)}"
    if any(r.may_be_open or r.mark is FenceMark.OPENING for r in records):
        resume = FAILOVER.resume.plus("--accept-data-loss", REASON, "--flow", flow.name)
        next_ += f"; where OPEN had begun: {resume}"
    return {
        "state": "aborted at the source", "flow": flow.name, "runs": runs, "lifted": topics,
        "target": target_error.in_short, "target_lost": statement, "next": [next_],
    }  # fmt: skip


def _abortable(log: FenceLog, topic: FenceTopic, target_error: DrkitError) -> list[FenceRecord]:
    if log.unreadable:
        raise Refused("source_record_untrusted", where=topic.where, evidence=first_of(log.unreadable))
    if log.open:
        return log.open
    opened = [r for r in log.records.values() if r.mark is FenceMark.OPENED and r.topics]
    if opened:
        raise Refused(
            "point_of_no_return",
            where=f"run {opened[-1].run_id}, {topic.where}",
            evidence="of other runs the source has no fence on record; this one has opened the target:"
            f" {target_error.in_short}",
            hint="bring the target back; what to do without it: drkit explain failover-target-away",
            last_abort=FAILOVER.point_of_no_return,
        )
    raise Refused("no_planned_fence", where=topic.where, evidence=target_error.in_short)


def _refuse_opening(found: list[FenceRecord], topic: FenceTopic) -> None:
    if opening := [r for r in found if r.mark is FenceMark.OPENING]:
        evidence = "if it did, clients may write there, and lifting the fence would open both sides"
        raise Refused("open_unknown", where=f"run {opening[-1].run_id}, {topic.where}", evidence=evidence)


def _refuse_later(settings: Settings, flow: FlowSettings, found: list[FenceRecord]) -> None:
    """Refuse when this machine's journals have a later run of the flow, which the source does not know."""
    term = max(r.term for r in found)
    known, topics = {r.run_id for r in found}, {t for r in found for t in r.topics}
    for file in files_in(folder_of(settings.failover.journal_folder)):
        for run in read_history(file.entries()).runs.values():
            is_later = run.term > term and run.run_id not in known and run.table is FAILOVER and run.is_final
            if not is_later or topics.isdisjoint(run.scope.get("topics", {})):
                continue
            raise Refused(
                "later_failover",
                where=f"run {run.run_id}, {file.path}",
                evidence=f"term {run.term}, {run.state} at {run.last_step}; the record on the source is of"
                f" term {term}",
                flow=flow.name,
            )


def _abort(topic: FenceTopic, source: ClusterSettings, record: FenceRecord, statement: str) -> None:
    """Record the abort and lift the fence. Raises Refused: the run has marked since that its target opens."""
    if not record.is_aborted:
        entry = topic.entry(FenceMark.ABORTED, record.run_id, record.term, why=statement)
        record = topic.append(entry).records[record.run_id]
        if not record.is_aborted:
            _refuse_opening([record], topic)
            evidence = f"its record is marked {record.mark}"
            raise Refused("opened_meanwhile", where=f"run {record.run_id}, {topic.where}", evidence=evidence)
    if remaining := lift_fence(source, record.own_sizes, record.own_acls):
        raise Failed("fence_remains", where=topic.where, evidence=first_of(sorted(remaining)))
    topic.append(topic.entry(FenceMark.LIFTED, record.run_id, record.term, topics=sorted(record.topics)))
