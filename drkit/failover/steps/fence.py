"""FENCE: no client writes on the old primary any more, proven by a canary that every partition refuses.

A primary that answers is fenced by its own means, and its open transactions are resolved. A silent primary is
stopped by the site's hook, if there is one; otherwise the fence is pending until the first contact.
A planned switchover waits before, while the old primary serves, until what was emptied stays empty.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from drkit.catalogue import ERRORS, filled
from drkit.counted import counted, first_of
from drkit.errors import ClusterUnreachable, DrkitError, Failed, NotAuthorized, Refused
from drkit.failover.core.context import Context, StepProgress
from drkit.failover.core.reverse import opposite_state, refuse_moved_elsewhere
from drkit.failover.core.step import FenceEvidence, Step, StepEffect, StepResult
from drkit.failover.emptying.standing import planned_wait, put_back_interrupted, settle_emptied
from drkit.failover.fencing.choosing import Wish, choose
from drkit.failover.fencing.lift import hand_over, lift_fences
from drkit.failover.fencing.methods import FenceMethod, SizeFence, lift_sizes, raise_sizes
from drkit.failover.fencing.open_transactions import Resolved, TransactionResolver
from drkit.failover.fencing.proof import Proof, canary_name, prove, unproven
from drkit.failover.fencing.source_record import has_fenced, keep_earlier, planned_record, write_down
from drkit.failover.fencing.stop import has_stop, still_there, stop_site
from drkit.flow_state.pending_fence import owe, paid_with, settle
from drkit.flow_state.records import PendingFence, PendingLift
from drkit.journal.machine import FAILOVER, StepName
from drkit.kafka.raw import RawCluster, RawError
from drkit.model import TopicPartition
from drkit.next_command import REASON
from drkit.status.pair.facts import fenced_topics
from drkit.status.pair.reading import open_by_acl

_REMEMBERED_SECONDS: Final = 5.0
"""A silent primary is asked again after this time, so that one that is back is fenced at once."""
_UNFENCED_SECONDS: Final = 30.0
_STOP: Final = "stop"
_DEBT: Final = "debt"
_ELSEWHERE: Final = "elsewhere"
_UNFENCED: Final = (
    f"{FAILOVER.resume}; or continue unfenced: {FAILOVER.resume.plus('--accept-data-loss', REASON)}"
)
_GIVEN: Final = "its fence by ACL does not deny a principal that may write"
_PAUSE_SECONDS: Final = 0.05
_LATER: Final = filled(ERRORS["old_primary_back"].hint, {})


class FenceStep(Step):
    """FENCE: keeps clients from writing to the old primary, and proves it."""

    name: StepName = StepName.FENCE
    _until = float("inf")
    """Time after which a primary that answers and takes no fence, as without most of its controllers, is left
    unfenced, if data loss is accepted."""

    def plan(self, context: Context) -> list[StepEffect]:
        alias, number = context.flow.source, len(context.scope.topics)
        if context.source() is None:
            if has_stop(context.settings.failover.fence):
                return [StepEffect("have the site stop it", alias, context.source_error)]
            return [StepEffect("the fence stays pending", alias, f"{context.source_error}; {_LATER}")]
        method = self.method(context)
        if method is None:
            return [StepEffect("look whether producers are refused", alias, 'means = "none"')]
        detail = "; ".join(filter(None, (f"proven by {self._canary(context)}", method.stands_in)))
        fence = StepEffect(f"fence {counted(number, 'topic')} by {method.name}", alias, detail)
        policy = context.settings.failover.fence.open_transactions
        record = [planned_record(context)] if self.name is StepName.FENCE else []
        lines = [*planned_wait(context), *record, fence]
        return [*lines, StepEffect("wait for open transactions", alias, f"{policy} those that do not end")]

    def run(self, context: Context) -> StepResult:
        refuse_moved_elsewhere(context)
        notes = settle_emptied(context, self.name)
        context.state.load()
        # A fence left by an earlier failover is wanted again; its record holds the previous settings.
        settle(context.state, PendingLift, context.scope.topics)
        while (source := context.source(_REMEMBERED_SECONDS)) is not None:
            try:
                result = self._answering(context, source)
                return StepResult(result.evidence, (*notes, *result.notes))
            except ClusterUnreachable as error:
                self._until = min(self._until, context.clock() + _UNFENCED_SECONDS)
                if self._may_stay_open(context) and context.clock() >= self._until:
                    return self._leave_pending(context, str(error), answered=True)
                if not isinstance(error, RawError):
                    raise
                context.lose_source(error)
        return self._silent(context)

    def _may_stay_open(self, context: Context) -> bool:
        return not context.request.planned and bool(context.request.accept_data_loss)

    def prove(self, context: Context) -> StepResult:
        result = context.result(self.name)
        how, alias = result.get("how"), context.flow.source
        if how == "stopped":
            servers = still_there(context.source_settings, context.loop, 0.0)
            if servers:
                raise Failed("old_primary_back", where=alias, evidence=_answers(servers))
            return StepResult({"connections": "refused"})
        if context.source() is None:
            if context.is_opened_before and how != _DEBT:  # another process may have lifted it since
                raise ClusterUnreachable(
                    "old_primary_unreachable", where=alias, evidence=context.source_error, hint=_LATER
                )
            return StepResult({"asked": False, "why": context.source_error})
        if how == _DEBT:
            if result.get("details", {}).get("answered"):
                return StepResult({"asked": False, "why": "a person chose to continue unfenced"})
            raise Failed("fence_possible_now", where=alias)
        proof = self._proof(context, 0.0)
        if not proof.is_whole:
            error = ClusterUnreachable if proof.is_unknown else Failed
            raise error(
                "fence_unproven", where=alias, evidence=proof.places, hint=_LATER, state=proof.in_words
            )
        return StepResult({"partitions_refusing": len(proof.refused), "canary": self._canary(context)})

    def undo(self, context: Context) -> StepResult:
        """Lift the fence; of a primary that is silent or refuses, record the lift as pending and end the run.

        Otherwise no failover to the standby could begin until the primary is back.
        """
        put_back_interrupted(context, self.name)
        context.state.load()
        topics, pending = context.scope.topics, ""
        settle(context.state, PendingFence, topics)
        try:
            own = hand_over(context, topics)
            notes = [f"the fence by {name} was lifted" for name in lift_fences(context, own)]
            if stays := sorted(topics.keys() - set(own)):
                pending = f"another flow of {context.flow.source} keeps its fence of {first_of(stays)}"
                notes.append(pending)
        except DrkitError as error:
            if error.code == "fence_remains":
                raise
            pending = self._lift_later(context, error)
            notes = [pending]
        if _STOP in context.effects(self.name):
            notes.append(f"{context.flow.source} was stopped by the site's hook: start it by its own means")
        for note in notes:
            context.tell(StepProgress(self.name, note))
        return StepResult({"pending": pending} if pending else {}, tuple(notes))

    def method(self, context: Context) -> FenceMethod | None:
        """Return the fence that the source gets now, or None if drkit applies none. Raises DrkitError."""
        return choose(self._wish(context), context.source_settings, context.state, context.scope.topics)

    def _wish(self, context: Context) -> Wish:
        how, planned = context.settings.failover.fence, context.request.planned
        return Wish(how.means, how.canary, not planned, str(FAILOVER.resume) if planned else _UNFENCED)

    def _proven(self, context: Context, method: FenceMethod | None, seconds: float) -> Proof:  # noqa: ARG002
        return self._proof(context, seconds)

    def _answering(self, context: Context, source: RawCluster) -> StepResult:
        keep_earlier(context, source)
        try:
            method = self.method(context)
        except Refused as error:  # the fence could be applied, but not proven
            if not self._may_stay_open(context):
                raise
            return self._leave_pending(context, error.in_short, answered=True)
        how, seconds = _ELSEWHERE, context.settings.failover.fence.seconds
        details = method.details(context.scope.topics) if method is not None else {}
        resolver = self._resolver(context, source, method, details)
        if method is not None:
            how = method.name
            resolver.beforehand()
            if context.request.planned:
                opposite_state(context)  # FREEZE needs it, and opens nothing new while writes are refused
            if self.name is StepName.FENCE and context.run_id:  # else the record follows the proof
                write_down(context, method.name, details)
            with context.effect(self.name, method.name, **details) as outcome:
                method.apply(details)
                outcome["up"] = True
        proof = self._proven(context, method, seconds)
        resolved = Resolved()
        if proof.is_whole and (resolved := resolver.run()).seen:
            proof = self._proof(context, seconds)
        if not proof.is_whole:
            return self._unproven(context, proof)
        settle(context.state, PendingFence, context.scope.topics)
        evidence: FenceEvidence = {
            "proven": True, "how": how, "debt": "",
            "details": {
                "canary": self._canary(context), "refused": len(proof.refused),
                "without_leader": [str(tp) for tp in proof.without_leader], **resolved.to_json(),
            },
        }  # fmt: skip
        return StepResult({**evidence}, tuple(_notes(context, method, proof, resolved)))

    def _resolver(
        self, context: Context, source: RawCluster, method: FenceMethod | None, details: dict[str, Any]
    ) -> TransactionResolver:
        settings, by_size = context.settings.failover.fence, isinstance(method, SizeFence)

        def suspend() -> None:
            with context.effect(self.name, "markers", **details):
                lift_sizes(context.source_settings, details["sizes"])

        def restore() -> None:
            raise_sizes(context.source_settings, details["sizes"])
            self._proof(context, settings.seconds)

        return TransactionResolver(
            source,
            context.scope.topics,
            wait_seconds=settings.transaction_wait_seconds,
            aborts=settings.open_transactions == "abort",
            suspend=suspend if by_size else None,
            restore=restore if by_size else None,
            clock=context.clock,
        )

    def _unproven(self, context: Context, proof: Proof) -> StepResult:
        if not self._may_stay_open(context):
            raise unproven(proof, context.flow.source, _UNFENCED)
        reason = f"it {proof.in_words}: {proof.places}"
        return self._leave_pending(context, reason, answered=True)

    def _proof(self, context: Context, seconds: float) -> Proof:
        canary, source = context.settings.failover.fence.canary, context.source_settings
        topics, deadline = context.scope.topics, context.clock() + seconds
        while True:
            proof, given = prove(source, canary, topics, seconds, context.clock), frozenset[str]()
            with suppress(NotAuthorized):  # it hides its ACLs: the canary alone proves it
                given = open_by_acl(source, context.state.records, topics)
            if not given or context.clock() >= deadline:
                return proof._replace(open=proof.open | {TopicPartition(t, -1): _GIVEN for t in given})
            context.run(context.loop.sleep, _PAUSE_SECONDS)

    def _canary(self, context: Context) -> str:
        return canary_name(context.source_settings, context.settings.failover.fence.canary)

    def _silent(self, context: Context) -> StepResult:
        settings, reason = context.settings.failover.fence, context.source_error or "it does not answer"
        if not has_stop(settings):
            return self._leave_pending(context, reason)
        document = {
            "cluster": context.flow.source, "run_id": context.run_id, "term": context.term,
            "bootstrap_servers": context.source_settings.bootstrap_servers, "why": reason,
        }  # fmt: skip
        try:
            with context.effect(self.name, _STOP, **document) as outcome:
                outcome["how"] = stopped = stop_site(settings, document)
            brokers = still_there(context.source_settings, context.loop, settings.stop_seconds, context.clock)
            if brokers:
                raise Failed("hook_without_effect", where=context.flow.source, evidence=_answers(brokers))
        except DrkitError as error:
            if not context.request.accept_data_loss:
                raise
            return self._leave_pending(context, f"{reason}; {error.in_short}")
        settle(context.state, PendingFence, context.scope.topics)
        details = {"by": stopped, "stopped_ms": context.wall()}
        evidence: FenceEvidence = {"proven": True, "how": "stopped", "debt": "", "details": details}
        note = f"{context.flow.source} was stopped by {stopped}: no broker takes connections"
        return StepResult({**evidence}, (note,))

    def _leave_pending(self, context: Context, reason: str, *, answered: bool = False) -> StepResult:
        with context.effect(self.name, _DEBT, why=reason):
            pending = PendingFence(
                context.run_id, context.term, context.wall(), reason, tuple(sorted(context.scope.topics))
            )
            owe(context.state, pending)
        context.tell(StepProgress(self.name, f"the fence is pending: {reason}"))
        evidence: FenceEvidence = {
            "proven": False, "how": _DEBT, "debt": reason, "details": {"answered": answered},
        }  # fmt: skip
        note = (
            f"{context.flow.source} is not fenced: {reason}. What it takes from now on stays there, as"
            f" divergence; {_LATER}"
        )
        return StepResult({**evidence}, (note,))

    def _lift_later(self, context: Context, error: DrkitError) -> str:
        scope, fenced = context.scope.topics.keys(), fenced_topics(context.state.records)
        topics = tuple(sorted(scope & fenced or (scope if has_fenced(context) else ())))
        owe(context.state, PendingLift(context.run_id, context.wall(), error.in_short, topics))
        return (
            f"{context.flow.source} is still fenced for {counted(len(topics), 'topic')} ({error.in_short}):"
            " producers are refused there; drkit watch lifts it at the first contact, or:"
            f" {paid_with(context.flow.name)}"
        )


def _notes(context: Context, method: FenceMethod | None, proof: Proof, resolved: Resolved) -> list[str]:
    partitions = counted(len(proof.refused), "partition", "refuses")
    how = method.name if method else _ELSEWHERE
    notes = [f"{context.flow.source} is fenced by {how}: {partitions} the canary"]
    if method and method.stands_in:
        notes.append(f"not fenced by ACLs: {method.stands_in}; a return needs DESCRIBE on the cluster")
    if proof.without_leader:
        notes.append(f"{len(proof.without_leader)} partitions have no leader: they take no writes")
    return [*notes, *resolved.notes()]


def _answers(findings: list[Any]) -> str:
    return first_of(f"{f.server}: {f.kind.value}" for f in findings)
