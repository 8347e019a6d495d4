"""CONTACT: the old primary answers, keeps its records, is fenced, takes no writes, and has no consumers.

After a switchover it is fenced already, and has nothing that must be kept: then this step only looks, or
replaces a fence by size with one of ACLs.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final
from uuid import UUID

from drkit.counted import counted, first_of
from drkit.errors import Refused
from drkit.failover.core.commands import UNTIL_EXPORT, begin_command, is_held, retry_command, return_command
from drkit.failover.core.context import Context, Scope
from drkit.failover.core.reverse import reverse_flow, share_promotions
from drkit.failover.core.step import Step, StepEffect, StepResult
from drkit.failover.fencing.lift import not_answering
from drkit.failover.fencing.proof import prove
from drkit.failover.old_primary.fence import LateFence, fenced_sizes, nothing_keeps_off
from drkit.failover.old_primary.hold import hold, release
from drkit.failover.old_primary.identity import forget_another, identify, is_another, planned_identity
from drkit.failover.old_primary.readers import planned_eviction, refuse_readers
from drkit.failover.returning.compare import of_json
from drkit.failover.returning.scope import not_returned, promoted, unplanned
from drkit.flow_state.pending_fence import paid_with
from drkit.flow_state.records import IncompleteRecord
from drkit.journal.machine import RETURN, StepName
from drkit.kafka.raw import RawCluster
from drkit.kafka.requests import all_topics
from drkit.model import TopicPartition
from drkit.next_command import PLACE
from drkit.status.lag.source import Ends, ends_of
from drkit.status.pair.facts import fenced_topics

_BETWEEN_SECONDS: Final = 0.2


class ContactStep(Step):
    """CONTACT: fences and holds an old primary that answers again."""

    name = StepName.CONTACT

    def plan(self, context: Context) -> list[StepEffect]:
        alias, source = context.flow.source, _answering(context)
        lines = planned_identity(context)
        self._names(context)
        refuse_unselected(context, context.scope.topics)
        lost = unplanned(context)
        if lost:
            some = counted(len(lost), "topic")
            lines.append(StepEffect(f"keep what {some} {'has' if len(lost) == 1 else 'have'}", alias,
                                    "its retention and its cleaner rest"))  # fmt: skip
        if (late := lost.keys() | _replaced(context)) and not is_another(context):
            lines += LateFence(StepName.CONTACT).plan(_of(context, late))
        if switched := context.scope.topics.keys() - lost.keys():
            refuse_open(context, switched)
        clients_cut(context, fenced_by_size(context))
        if context.request.evict_readers:
            lines += planned_eviction(context, source, context.scope.topics)
        else:
            refuse_readers(context, source, context.scope.topics, evict=False)
        some = counted(len(context.scope.topics), "topic")
        return [*lines, StepEffect(f"look at {some}", alias, "fenced, and no group has a member")]

    def run(self, context: Context) -> StepResult:
        source = _answering(context)
        context.state.load()
        notes = identify(context)
        notes += share_promotions(context)
        self._names(context)
        refuse_unselected(context, context.scope.topics)
        lost = unplanned(context)
        if lost:
            number = hold(context, lost)
            notes.append(f"nothing is removed from {counted(number, 'topic')} of {context.flow.source}")
        if late := lost.keys() | _replaced(context):
            notes += LateFence(StepName.CONTACT).run(_of(context, late)).notes
        refusing = refuse_open(context, context.run(all_topics, source).keys() & context.scope.topics.keys())
        cut = clients_cut(context)
        notes += refuse_readers(context, source, context.scope.topics, evict=context.request.evict_readers)
        ends = self._read_steady_ends(context, source) if lost else {}
        partitions = counted(refusing, "partition", "refuses")
        notes.append(f"{context.flow.source} answers and is fenced: {partitions} a record")
        return StepResult({"partitions_refusing": refusing, "clients_cut": cut, "ends": ends}, tuple(notes))

    def undo(self, context: Context) -> StepResult:
        """Let retention and cleaner work again; the fence stays."""
        if not context.effects(self.name):
            return StepResult()
        freed = release(context, not_returned(context))
        forget_another(context)
        note = f"{counted(len(freed.topics), 'topic')} of {context.flow.source} no longer held"
        notes = [*freed.notes(), *_runs_again(context, freed.topics)]
        evidence = {"pending": "; ".join(notes)} if notes else {}
        return StepResult(evidence, (note, *notes))

    def _names(self, context: Context) -> None:
        naming = reverse_flow(context).naming_policy
        wrong = {a: naming.downstream(b) for a, b in context.scope.topics.items()}
        other = [
            f"{b} would be {wrong[a]}, not {a}" for a, b in context.scope.topics.items() if wrong[a] != a
        ]
        if other:
            raise Refused("reverse_names_differ", where=reverse_flow(context).name, evidence=first_of(other))

    def _read_steady_ends(self, context: Context, source: RawCluster) -> dict[str, int]:
        """Return the ends of the old primary. Raises Refused if two reads differ or a transaction is open."""
        first: dict[TopicPartition, Ends] = context.run(ends_now, source, context.scope.topics)[0]
        context.pause(_BETWEEN_SECONDS)
        then: dict[TopicPartition, Ends] = context.run(ends_now, source, context.scope.topics)[0]
        moved = [f"{tp}: {first[tp].high_watermark}, then {e.high_watermark}" for tp, e in then.items()
                 if tp in first and first[tp].high_watermark != e.high_watermark]  # fmt: skip
        held = [f"{tp}: a transaction is open after {e.end}" for tp, e in then.items() if e.held_offsets]
        if moved or held:
            raise Refused(
                "old_primary_still_written",
                where=context.flow.source,
                evidence=first_of(sorted(moved) + sorted(held)),
                command=retry_command(context),
            )
        return {str(tp): e.end for tp, e in sorted(then.items())}


def refuse_unselected(context: Context, topics: Collection[str]) -> None:
    """Refuse topics that the reverse flow would never copy: they would be emptied, and stay so."""
    flow_back, names = reverse_flow(context), context.scope.topics
    if wrong := sorted(t for t in topics if not flow_back.copies(names[t])):
        raise Refused(
            "reverse_flow_excludes",
            where=flow_back.name,
            evidence=first_of(wrong),
            back=flow_back.name,
            command=retry_command(context),
            abort=f"{RETURN.abort}, then: " if is_held(context) else "",
            other_command=begin_command(context, context.request, ["TOPIC"]),
        )


def _runs_again(context: Context, topics: Collection[str]) -> list[str]:
    compared, incomplete = context.result(StepName.COMPARE), context.state.all(IncompleteRecord)
    emptied = {(topic, p): end for topic, r in incomplete.items() for p, end in r.emptied.items()}
    partitions = (u for u in of_json(compared.get("unsound", ())) if u.has_tail)
    tails = {u.at.topic for u in partitions if emptied.get(u.at, 0) < u.span[1]}
    wrong = sorted(set(topics) & tails if compared else topics)
    if not wrong:
        return []
    request, tried = context.request, context.effects(StepName.EXPORT).values()
    failed = {"", *(e.get("intent", {}).get("to") for e in tried if e.get("result") is None)}
    export_to = PLACE if request.export_to in failed else request.export_to
    undecided = request._replace(export_to=export_to, dispositions={})
    command = return_command(context.flow.name, context.named_topics, undecided).plus(UNTIL_EXPORT)
    risk = f"and may remove what only it has of {first_of(wrong)}: {command} keeps it again, and saves it"
    return [f"the retention and the cleaner of {context.flow.source} work again, {risk}"]


def _answering(context: Context) -> RawCluster:
    source = context.source(0.0)
    if source is None:
        raise not_answering(context, retry_command(context))
    return source


def _of(context: Context, topics: Collection[str]) -> Context:
    names = {t: context.scope.topics[t] for t in topics}
    return replace(context, scope=Scope(names, (), whole_flow=False))


async def ends_now(
    cluster: RawCluster, topics: Collection[str]
) -> tuple[dict[TopicPartition, Ends], dict[str, UUID]]:
    """Return where the existing partitions of some topics begin and end, and the topics' ids."""
    known = await all_topics(cluster)
    existing = {name: known[name] for name in sorted(topics) if name in known}
    ids = {name: topic.topic_id for name, topic in existing.items()}
    return dict(await ends_of(cluster, existing, existing)), ids


def refuse_open(context: Context, topics: Collection[str] | None = None) -> int:
    """Ask every partition of some topics on the old primary to take a record; return how many refuse.

    :param topics: None for those of the scope
    :raises Refused: one takes it
    :raises ClusterUnreachable: one does not answer
    """
    canary, names = context.settings.failover.fence.canary, context.scope.topics if topics is None else topics
    if not names:
        return 0
    proof = prove(context.source_settings, canary, names, 0.0, context.clock)
    if proof.is_unknown:
        raise not_answering(context, retry_command(context), proof.places)
    if not proof.is_whole:
        late = unplanned(context).keys() & {tp.topic for tp in proof.taking}
        abort = f"{RETURN.abort}, then: " if is_held(context) else ""
        refence = f"{retry_command(context)}, which fences it again"
        next_ = refence if late else f"{abort}{paid_with(context.flow.name)}"
        by_fence = late or fenced_topics(context.state.records) & {tp.topic for tp in proof.taking}
        raise Refused(
            "old_primary_takes_writes",
            where=context.flow.source,
            evidence=proof.places,
            partitions=counted(len(proof.taking), "partition", "takes"),
            next=f", then: {next_}" if by_fence else "",
            flow=context.flow.name,
        )
    return len(proof.refused)


def fenced_by_size(context: Context) -> list[str]:
    """Return the topics with a fence by size after CONTACT. Raises Refused if their fence is unknown."""
    lost, fence = unplanned(context).keys(), LateFence(StepName.CONTACT)
    sizes = frozenset() if is_another(context) else fenced_sizes(context).keys()
    return sorted(fence.by_size(_of(context, lost - sizes)) | (sizes - _replaced(context)))


def _replaced(context: Context) -> frozenset[str]:
    """Return the topics whose fence by size CONTACT replaces with one of ACLs.

    A switchover's fence by size stays if the request or a record names how clients are cut off.
    """
    sizes = fenced_sizes(context).keys()
    replaceable = sizes & unplanned(context).keys() if _cut(context) else sizes
    if not replaceable or is_another(context):
        return frozenset()
    return LateFence(StepName.CONTACT).replaces(_of(context, replaceable))


def clients_cut(context: Context, by_size: Collection[str] | None = None) -> str:
    """Return how clients are kept off topics whose fence has to be lifted; empty if an ACL keeps them off.

    :param by_size: the topics with such a fence; None for those on record
    :raises Refused: the request does not name a means
    """
    if by_size is None:
        by_size = sorted(fenced_sizes(context))
    if not by_size:
        return ""
    if cut := _cut(context):
        return cut
    raise nothing_keeps_off(context, by_size)


def _cut(context: Context) -> str:
    recorded = (r.clients_cut for r in promoted(context).values())
    return context.request.clients_cut or next((cut for cut in recorded if cut), "")
