"""LOCK and SNAPSHOT: the holder of the run, and the state of both clusters before any change."""

from __future__ import annotations

from drkit.counted import counted
from drkit.errors import DrkitError, Refused
from drkit.failover.checks.preconditions import PreconditionInput, refusals
from drkit.failover.checks.run_opening import refused_later
from drkit.failover.checks.survey import Survey, survey
from drkit.failover.core.context import Context
from drkit.failover.core.step import Step, StepEffect, StepResult
from drkit.journal.machine import StepName
from drkit.kafka.admin import Cluster
from drkit.topic_sync.settings import follow_acls, follow_settings


class LockStep(Step):
    """LOCK: the run's first entry is the lock; this step returns its term and decision."""

    name = StepName.LOCK

    def plan(self, context: Context) -> list[StepEffect]:
        where = f"journal of {context.flow.name} on {context.flow.target}"
        reason = refused_later(context) or "an older orchestrator is refused"
        # A return asks for its term when it begins.
        term = f" as term {context.term}" if context.term else ""
        return [StepEffect(f"take the journal{term}", where, reason)]

    def run(self, context: Context) -> StepResult:
        evidence = {"term": context.term, "run_id": context.run_id, "decision": dict(context.decision)}
        return StepResult(evidence, tuple(filter(None, (refused_later(context),))))


class SnapshotStep(Step):
    """SNAPSHOT: surveys both clusters, and refuses before any change."""

    name = StepName.SNAPSHOT

    def plan(self, context: Context) -> list[StepEffect]:
        flow, scope = context.flow, context.scope
        text = f"look at {counted(len(scope.topics), 'topic')} and {counted(len(scope.groups), 'group')}"
        return [
            StepEffect(text, f"{flow.source} and {flow.target}", "what is refused here has changed nothing")
        ]

    def run(self, context: Context) -> StepResult:
        seen = survey(context)
        for _, refusal in refusals_of(context, seen):
            raise refusal
        return StepResult(seen.to_json(), (*_notes(seen), *_followed(context)))


def _followed(context: Context) -> list[str]:
    """Bring settings and ACLs of the copies in step before a switchover; report what could not be compared.

    The topic sync compares them every minute. What a person has set since would be lost: from the opening on
    those of the copies count, on both sides.
    """
    if not context.request.planned or context.source() is None:
        return []
    flow, notes = context.flow, list[str]()
    clusters = Cluster.connect(context.source_settings), context.target_admin(), flow, context.state
    copied = {t: context.known.topics[t] for t in context.scope.topics if t in context.known.topics}
    try:
        notes += follow_settings(*clusters, copied) if flow.sync_topic_configs else []
        notes += follow_acls(*clusters, context.settings.task_sides(flow)[1]) if flow.sync_topic_acls else []
    except DrkitError as error:
        notes.append(f"settings or ACLs that changed in the last minute are not copied: {error.in_short}")
    return notes


def refusals_of(context: Context, seen: Survey) -> list[tuple[str, Refused]]:
    """Return every refusal of a run by what was surveyed, with its gate."""
    return refusals(PreconditionInput(seen, context.scope, context.request, context.flow.name))


def _notes(seen: Survey) -> list[str]:
    notes = [*seen.outside.notes(), *(r.in_words() for r in seen.reach)]
    if not seen.source_error:
        return notes
    age = seen.positions_age_seconds
    old = "their age is not known" if age is None else f"{age:.0f} s old"
    return [
        *notes,
        f"{seen.source.alias} does not answer: {seen.source_error}",
        f"positions of groups come from the last checkpoints ({old}): groups reprocess what they read since",
    ]
