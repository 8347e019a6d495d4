"""CONTACT: the old primary answers, is the one that was copied, is fenced, and no consumer works there."""

from __future__ import annotations

from typing import Any

from drkit.checkpoints.other_groups import is_consumer
from drkit.counted import counted, first_of
from drkit.errors import ClusterUnreachable, Refused
from drkit.failover.core.context import Context
from drkit.failover.core.machine import StepName
from drkit.failover.core.reverse import reverse_flow
from drkit.failover.core.step import StepEffect, StepResult
from drkit.failover.fencing.methods import recorded_sizes
from drkit.failover.fencing.proof import prove
from drkit.failover.returning.scope import promoted
from drkit.flow_state.records import ClustersRecord
from drkit.kafka.admin import Cluster
from drkit.kafka.groups.requests import Groups, failure
from drkit.kafka.raw import RawCluster

_IDLE = frozenset({"", "Empty", "Dead"})


class ContactStep:
    """See the module."""

    @property
    def name(self) -> StepName:
        """See :class:`drkit.failover.core.step.Step`."""
        return StepName.CONTACT

    def plan(self, context: Context) -> list[StepEffect]:
        """See :class:`drkit.failover.core.step.Step`."""
        self.run(context)
        some = counted(len(context.scope.topics), "topic")
        return [StepEffect(f"look at {some}", context.flow.source, "fenced, and no group has a member")]

    def run(self, context: Context) -> StepResult:
        """See :class:`drkit.failover.core.step.Step`.

        :raises ClusterUnreachable: the old primary does not answer
        :raises Refused: it is another cluster, takes writes, has members, or nothing would keep clients off
        """
        source = context.source(0.0)
        if source is None:
            raise ClusterUnreachable(
                "the old primary does not answer",
                where=context.flow.source,
                evidence=context.source_error,
                hint="bring it back, then: drkit reprotect --resume",
            )
        self._identity(context)
        self._names(context)
        refusing = refuse_open(context)
        cut = clients_cut(context)
        members = context.run(_members, context, source)
        if members:
            raise Refused(
                f"{counted(len(members), 'group', 'has')} members on the old primary: they would read there"
                " what comes back",
                where=context.flow.source,
                evidence=first_of(f"{g}: {m}" for g, m in sorted(members.items())),
                hint="stop or repoint these consumers, then: drkit reprotect --resume",
            )
        some = counted(refusing, "partition", "refuses")
        notes = (f"{context.flow.source} answers and is fenced: {some} a record",)
        return StepResult({"partitions_refusing": refusing, "clients_cut": cut}, notes)

    def prove(self, context: Context) -> StepResult:  # noqa: ARG002  the contract's
        """See :class:`drkit.failover.core.step.Step`."""
        return StepResult()

    def undo(self, context: Context) -> StepResult:  # noqa: ARG002  the contract's
        """See :class:`drkit.failover.core.step.Step`."""
        return StepResult()

    def _identity(self, context: Context) -> None:
        known = context.state.get(ClustersRecord)
        found = Cluster.connect(context.source_settings).cluster_id
        if known is not None and known.source not in {None, found}:
            raise Refused(
                "the old primary is another cluster than the one that was copied",
                where=context.flow.source,
                evidence=f"its cluster id is {found}, the flow copied {known.source}",
                hint=f"correct bootstrap_servers of [clusters.{context.flow.source}]",
            )

    def _names(self, context: Context) -> None:
        """Refuse names that the reverse flow would not give back."""
        naming = reverse_flow(context).naming_policy
        wrong = {a: naming.downstream(b) for a, b in context.scope.topics.items()}
        other = [
            f"{b} would be {wrong[a]}, not {a}" for a, b in context.scope.topics.items() if wrong[a] != a
        ]
        if other:
            raise Refused(
                "the reverse flow gives topics other names than they have on the old primary",
                where=reverse_flow(context).name,
                evidence=first_of(other),
                hint='set naming = "identity" in both flows of the pair',
            )


def refuse_open(context: Context) -> int:
    """Ask every partition of the scope on the old primary to take a record; return how many refuse.

    :raises Refused: one takes it
    """
    canary = context.settings.failover.fence.canary
    proof = prove(context.source_settings, canary, context.scope.topics, 0.0, context.clock)
    if not proof.is_whole:
        raise Refused(
            f"the old primary cannot be a standby: {counted(len(proof.open), 'partition', 'takes')} writes",
            where=context.flow.source,
            evidence=first_of(f"{at}: {why}" for at, why in sorted(proof.open.items())),
            hint="find out who lifted its fence; what it took since: drkit divergence --flow"
            f" '{context.flow.name}'",
        )
    return len(proof.refused)


def clients_cut(context: Context) -> str:
    """How clients are kept off topics whose fence refuses drkit's records, too; empty: an ACL does it.

    :raises Refused: nothing would
    """
    by_size = sorted(recorded_sizes(context.state).keys() & context.scope.topics.keys())
    roles = promoted(context)
    told = context.request.clients_cut or next((r.clients_cut for r in roles.values() if r.clients_cut), "")
    if by_size and not told:
        raise Refused(
            "the fence of the old primary refuses drkit, too, and nothing else keeps clients off",
            where=f"{context.flow.source}: {first_of(by_size)}",
            evidence="it has no authorizer; its fence, max.message.bytes = 0, has to be lifted for the copy",
            hint="cut clients off by other means (listener, DNS, network), then say how: drkit reprotect"
            f" --flow '{context.flow.name}' --clients-cut \"HOW\"",
        )
    return told if by_size else ""


async def _members(context: Context, source: RawCluster) -> dict[str, str]:
    """Groups with members that have read the topics of the scope on the old primary."""
    asked = Groups(source)
    accepts = reverse_flow(context).group_filter.accepts
    names = sorted(g for g, x in (await asked.listed()).items() if is_consumer(x) and accepts(g))
    found: dict[str, Any] = {}
    committed = await asked.committed(names)
    mine = [g for g in names if any(at.topic in context.scope.topics for at in committed[g].value or {})]
    for group, answer in (await asked.describe(mine)).items():
        if answer.value is None:
            raise failure(answer.error, f"ask about the group {group}", source.alias)
        if answer.value.state not in _IDLE:
            found[group] = ", ".join(f"{m.client or m.id} on {m.host}" for m in answer.value.members)
    return found
