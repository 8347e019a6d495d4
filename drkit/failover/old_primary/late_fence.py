"""The fence of an old primary after its failover: the step FENCE, applied at the first contact."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from drkit.counted import first_of
from drkit.errors import ClusterUnreachable, NotAuthorized, Refused
from drkit.failover.core.commands import retry_command
from drkit.failover.core.context import Context
from drkit.failover.core.machine import StepName
from drkit.failover.core.request import RunRequest
from drkit.failover.core.step import StepResult
from drkit.failover.fencing.choosing import Wish
from drkit.failover.fencing.methods import ACL, SIZE, FenceMethod, SizeFence, recorded_sizes
from drkit.failover.fencing.proof import BY_ACL, Proof, prove, unproven
from drkit.failover.steps.fence import FenceStep
from drkit.kafka.access.acls import NoAuthorizer, list_acls
from drkit.next_command import HOW

_REPLACED: Final = "size replaced"
_NO_AUTHORIZER: Final = "it has no authorizer"
BY_COMMAND: Final = "drkit fence pay"
"""What applies a pending fence without a return."""


class LateFence(FenceStep):
    """The step FENCE after the end of a failover. It never calls the site's stop hook for a silent source.

    :param step: under whose name its effects are journalled
    """

    def __init__(self, step: StepName = StepName.FENCE) -> None:
        self.name = step
        self._replaced: list[str] = []

    def run(self, context: Context) -> StepResult:
        """See :class:`FenceStep`."""
        self._replaced = []
        done = super().run(context)
        if not self._replaced:
            return done
        note = f"max.message.bytes is as before: an ACL fences {first_of(self._replaced)} now"
        return StepResult(done.evidence, (*done.notes, note))

    def replaces(self, context: Context) -> frozenset[str]:
        """The topics whose fence by size :meth:`run` would take away, for it would fence them by ACL.

        :raises Refused: as :meth:`run`
        """
        if not (standing := fenced_sizes(context)):
            return frozenset()
        method = self.method(context)
        return frozenset(standing) if method is not None and method.name == ACL else frozenset()

    def by_size(self, context: Context) -> frozenset[str]:
        """The topics that :meth:`run` would fence by size.

        :raises Refused: as :meth:`run`
        """
        topics = context.scope.topics
        method = self.method(context) if topics else None
        if method is None or method.name != SIZE:
            return frozenset()
        return frozenset(method.details(topics)["sizes"])

    def _wish(self, context: Context) -> Wish:
        """A return copies through the fence and can wait; what is paid outside one is needed now."""
        how = context.settings.failover.fence
        return Wish(how.means, how.canary, self.name is StepName.FENCE, self._command(context))

    def _proven(self, context: Context, method: FenceMethod | None, seconds: float) -> Proof:
        """The proof; a size that drkit has put up earlier goes where the ACLs alone are seen to refuse.

        It may be of a moment in which drkit could not list the ACLs, and it refuses drkit's records, too.
        """
        proof, sizes = super()._proven(context, method, seconds), fenced_sizes(context)
        if method is None or method.name != ACL or not sizes or not proof.is_whole:
            return proof
        canary, topics = context.settings.failover.fence.canary, context.scope.topics
        if not prove(context.source_settings, canary, topics, seconds, context.clock, BY_ACL).is_whole:
            return proof
        size = SizeFence(context.source_settings, context.state)
        with context.effect(self.name, _REPLACED, sizes=sizes) as outcome:
            size.remove({"sizes": sizes})
            outcome["lifted"] = sorted(sizes)
        proof = super()._proven(context, method, seconds)
        if not proof.is_whole:
            size.apply({"sizes": sizes})
            return proof
        self._replaced = sorted(sizes)
        return proof

    def _command(self, context: Context) -> str:
        """What a person types to try again."""
        return BY_COMMAND if self.name is StepName.FENCE else str(retry_command(context))

    def _silent(self, context: Context) -> StepResult:
        raise not_answering(context, self._command(context))

    def _unproven(self, context: Context, proof: Proof) -> StepResult:
        if proof.is_unknown:
            raise not_answering(context, self._command(context), proof.places)
        raise unproven(proof, context.flow.source, self._command(context))


def fenced_sizes(context: Context) -> dict[str, str | None]:
    """Topics of the scope that drkit has fenced by size, with what was set before."""
    return {t: v for t, v in recorded_sizes(context.state).items() if t in context.scope.topics}


def not_answering(context: Context, command: object, evidence: str = "") -> ClusterUnreachable:
    """The error of an old primary that does not answer.

    :param command: what a person types when it answers
    :param evidence: what was asked; empty: it cannot be connected to
    """
    return ClusterUnreachable(
        "old_primary_unreachable",
        where=context.flow.source,
        evidence=evidence or context.source_error,
        hint=f"bring it back, or keep its listeners closed, then: {command}",
    )


def nothing_keeps_off(context: Context, by_size: Collection[str]) -> Refused:
    """The error of a return whose fence by size has to be lifted for the copy.

    :param by_size: the topics with such a fence
    """
    cut, seen = "cut clients off by other means (listener, DNS, network), then say how", _authorizer(context)
    if seen != _NO_AUTHORIZER:
        cut = (
            "let drkit's principal DESCRIBE and ALTER the cluster, and ACLs hold for the canary (means"
            f" and canary in [failover.fence]), then: {retry_command(context)}; or {cut}"
        )
    return Refused(
        "late_fence_refuses_drkit",
        where=f"{context.flow.source}: {first_of(by_size)}",
        evidence=f"{seen}; its fence, {SIZE} = 0, has to be lifted for the copy",
        cut=cut,
        command=retry_command(context, RunRequest(clients_cut=HOW)),
    )


def _authorizer(context: Context) -> str:
    """What is seen of the old primary's authorizer."""
    try:
        list_acls(context.source_settings)
    except NoAuthorizer:
        return _NO_AUTHORIZER
    except NotAuthorized:
        return "it has an authorizer, whose ACLs drkit may not list"
    return "it has an authorizer, but no ACL was proven to fence it"
