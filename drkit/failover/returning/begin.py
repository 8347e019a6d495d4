"""BEGIN: topic by topic, the old primary becomes a standby: emptied if so decided, seeded, opened to drkit.

The map of the reverse flow begins with that of the flow, inverted, or with an emptied log: see
:mod:`drkit.offsets.seed`. A topic may be copied as soon as its :class:`drkit.flow_state.records.ReturnRecord`
is written, which comes last. Topics of which nothing is emptied or appended begin first, together; then those
whose tail is kept, then those that are emptied, one after the other, the smallest first; with a limit
(:mod:`drkit.failover.old_primary.emptied`) as those before them are copied again.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from drkit.counted import counted, first_of
from drkit.errors import Failed
from drkit.failover.core.context import Context, StepProgress
from drkit.failover.core.request import Method
from drkit.failover.core.reverse import Reverse, reverse
from drkit.failover.core.step import Step, StepEffect, StepResult
from drkit.failover.fencing.methods import SizeFence, recorded_acls, recorded_sizes
from drkit.failover.old_primary.emptied import (
    create_missing,
    empty_topic,
    is_emptied,
    note_incomplete,
    refuse_risen,
    wait_for_copy,
)
from drkit.failover.old_primary.fence import GUARD, fence_again, keep_guard, refuse_unguarded
from drkit.failover.old_primary.hold import hold_again, release
from drkit.failover.returning.contact import clients_cut, ends_now, fenced_by_size
from drkit.failover.returning.deciding import decided
from drkit.failover.returning.gates import Methods, refuse_compacted
from drkit.failover.returning.pre_delete_checks import PreDeleteChecks
from drkit.failover.returning.replays import note_unreplayed
from drkit.failover.returning.scope import not_returned, pairs
from drkit.failover.returning.seeds import (
    AppendedTail,
    append_kept,
    refuse_removed,
    roll_back_kept_tails,
    seed,
)
from drkit.flow_state.creation import ensure_offset_map
from drkit.flow_state.records import ClustersRecord, IncompleteRecord, ReturnRecord, RoleRecord
from drkit.journal.machine import StepName
from drkit.kafka.admin import Cluster
from drkit.model import TopicPartition
from drkit.status.lag.source import Ends

LIFT: Final = "lift"
SEEDS: Final = "seeds"


class BeginStep(Step):
    """BEGIN: makes the old primary a standby, topic by topic."""

    name = StepName.BEGIN

    def plan(self, context: Context) -> list[StepEffect]:
        flow, topics = context.flow, counted(len(context.scope.topics), "topic")
        reverse_name = f"{flow.target}->{flow.source}"
        lines = [StepEffect(f"begin the map of {topics}", reverse_name, "nothing is copied")]
        lines += [
            StepEffect(f"append the tail of {topic}", flow.target, f"it stays on {flow.source}")
            for topic, decision in sorted(decided(context).items())
            if decision.keeps
        ]
        if sizes := fenced_by_size(context):
            reason = f"clients are kept off: {clients_cut(context, sizes)}"
            lines.append(StepEffect(f"lift the fence of {counted(len(sizes), 'topic')}", flow.source, reason))
        elif any(a.name in context.scope.topics for a in recorded_acls(context.state)):
            lines.append(
                StepEffect("keep the fence as guard", flow.source, "drkit may write, clients may not")
            )
        return lines

    def run(self, context: Context) -> StepResult:
        context.state.load()
        methods = _methods(context)
        emptied = {tp.topic for tp, m in methods.items() if m.empties}
        keeps = {tp.topic for tp, m in methods.items() if m is Method.KEEP}
        checks = PreDeleteChecks(context)
        with reverse(context) as back:
            target = Cluster.connect(back.target)
            clusters = ClustersRecord(context.target_admin().cluster_id, target.cluster_id)
            if back.state.get(ClustersRecord) != clusters:
                back.state.put(clusters)
            ensure_offset_map(target, back.flow, back.state)
            left = not_returned(context)
            held_again = hold_again(context, left)
            # A process that was killed may have ended right after the last of these became copied.
            others = self._restore_settings(context, [t for t in context.scope.topics if t not in left])
            if together := [t for t in left if t not in emptied | keeps]:
                others += self._begin(context, back, checks, together, methods, "")
            alone = _smallest_first(context, [t for t in left if t in emptied])
            for topic in [*(t for t in left if t in keeps), *alone]:
                if topic in emptied:
                    wait_for_copy(context, back.flow, topic, emptied.difference(left))
                context.tell(StepProgress(self.name, f"{topic} begins"))
                others += self._begin(context, back, checks, [topic], methods, f" {topic}")
                left.remove(topic)
        partitions = counted(len(pairs(context)), "partition")
        notes = [f"{back.flow.name} begins at the end of {partitions}", *self._fence_notes(context), *others]
        if held_again:
            notes.append(f"set while it was held, and held again: {first_of(held_again)}")
        if kept := sum(m is Method.KEEP for m in methods.values()):
            ends = context.flow.source, context.flow.target
            notes.append(
                f"the tail of {counted(kept, 'partition')} stays on {ends[0]}, and is on {ends[1]} now"
            )
        if emptied:
            number = sum(m.empties for m in methods.values())
            notes.append(
                f"{counted(number, 'partition')} of {context.flow.source} emptied, copied again from now"
            )
        return StepResult({"topics": dict(context.scope.topics), "emptied": sorted(emptied)}, tuple(notes))

    def prove(self, context: Context) -> StepResult:
        if left := not_returned(context):
            where = f"{context.flow.target}->{context.flow.source}"
            raise Failed("reverse_flow_blocked", where=where, evidence=first_of(left))
        return StepResult({"topics_returned": len(context.scope.topics)})

    def undo(self, context: Context) -> StepResult:
        """Keep topics that have begun; they are copied on.

        The others are fenced again; one that was emptied is noted as incomplete.
        """
        context.state.load()
        if not context.effects(self.name):
            return StepResult()
        left, others = not_returned(context), list[str]()
        if not context.result(self.name):
            others = self._restore_settings(context, [t for t in context.scope.topics if t not in left])
        incomplete = [t for t in left if note_incomplete(context, t)]
        fenced = sorted({*self._fence_again(context, left), *fence_again(context, left)})
        begun = len(context.scope.topics) - len(left)
        notes = [f"{counted(begun, 'topic')} begun, and copied on"] if begun else []
        notes += others
        notes += [f"fenced again: {first_of(fenced)}"] if fenced else []
        if incomplete:
            notes.append(
                f"{context.flow.source} is incomplete: emptied, and nothing is copied to"
                f" {first_of(incomplete)}; only {context.flow.target} has their records"
            )
        notes += [
            *note_unreplayed(context, context.scope.topics),
            *roll_back_kept_tails(context, _methods(context), left),
        ]
        evidence: dict[str, Any] = {"incomplete": incomplete, "begun": begun}
        if len(notes) > bool(fenced):
            evidence["pending"] = "; ".join(notes)
        return StepResult(evidence, tuple(notes))

    def _begin(
        self, context: Context, back: Reverse, checks: PreDeleteChecks, topics: Collection[str],
        methods: Methods, which: str,
    ) -> list[str]:  # fmt: skip
        """Begin some topics; returns notes.

        :param which: suffix of the effects' names: empty, or a space and the topic
        """
        ends = context.result(StepName.COMPARE).get("ends", {})
        up_to = {tp: ends[str(tp)] for tp, m in methods.items()
                 if tp.topic in topics and m.empties and str(tp) in ends}  # fmt: skip
        kept_at = [tp for tp, m in methods.items() if tp.topic in topics and m is Method.KEEP]
        if not {GUARD + which, LIFT + which} & context.effects(self.name).keys():
            # From here to the seeds no client can write: the fence is in effect.
            checks.standing(topics)
            checks.wanted(topics)
            refuse_removed(context, topics)
            refuse_unguarded(context, back, topics)
            if any(tp.topic in topics and m.empties for tp, m in methods.items()):
                [topic] = topics
                checks.destroyable(topic, {tp: m for tp, m in methods.items() if tp.topic == topic})
                checks.standing(topics)  # reading the export may take minutes, and a failover has opened it
                create_missing(context, topic)
                if up_to:
                    empty_topic(context, topic, {tp.partition: end for tp, end in up_to.items()})
            kept: dict[TopicPartition, AppendedTail] = {}
            if kept_at:
                [topic] = topics
                refuse_compacted(context, topics)
                checks.saved(topic)
                checks.whole(kept_at)
                kept = append_kept(context, topic)
                checks.standing(topics)
            seed(context, back, topics, methods, SEEDS + which, kept)
            refuse_risen(context, up_to)
        keep_guard(context, back, topics, GUARD + which)
        self._lift(context, topics, LIFT + which)
        # Only drkit may write from here on. Before the guard others may have written, also between two runs.
        checks.unchanged(topics)
        checks.tombstones(topics, methods)
        checks.whole(kept_at)
        checks.unread(topics)
        self._may_copy(context, back, topics)
        return self._restore_settings(context, topics)

    def _restore_settings(self, context: Context, topics: Collection[str]) -> list[str]:
        """Give topics that have begun their settings back: they are whole again. It may be repeated."""
        if not topics:
            return []
        released = release(context, topics)
        context.state.delete_all(IncompleteRecord, topics)
        return released.notes()

    def _lift(self, context: Context, topics: Collection[str], effect: str) -> None:
        known = context.effects(self.name).get(effect)
        sizes: dict[str, Any] = {t: v for t, v in recorded_sizes(context.state).items() if t in topics}
        sizes |= known["intent"]["sizes"] if known is not None else {}
        if not sizes:
            return
        cut = context.result(StepName.CONTACT).get("clients_cut", "")
        with context.effect(self.name, effect, sizes=sizes, clients_cut=cut) as outcome:
            SizeFence(context.source_settings, context.state).remove({"sizes": sizes})
            outcome["lifted"] = sorted(sizes)

    def _fence_again(self, context: Context, topics: Collection[str]) -> list[str]:
        lifted = [e["intent"]["sizes"] for name, e in context.effects(self.name).items()
                  if name.startswith(LIFT)]  # fmt: skip
        sizes = {t: v for earlier in lifted for t, v in earlier.items() if t in topics}
        if sizes:
            SizeFence(context.source_settings, context.state).apply({"sizes": sizes})
        return sorted(sizes)

    def _may_copy(self, context: Context, back: Reverse, topics: Collection[str]) -> None:
        roles, known = context.state.all(RoleRecord), back.state.all(ReturnRecord)
        cut = context.result(StepName.CONTACT).get("clients_cut") or None
        records = {
            context.scope.topics[name]: ReturnRecord(
                roles[name].run_id, context.run_id, context.wall(), cut, context.term
            )
            for name in topics
        }
        back.state.put_all(
            (t, r) for t, r in records.items() if t not in known or known[t].promoted_by != r.promoted_by
        )

    def _fence_notes(self, context: Context) -> list[str]:
        effects, source = context.effects(self.name), context.flow.source
        notes = []
        if lifted := [e for name, e in effects.items() if name.startswith(LIFT)]:
            cut = lifted[0]["intent"].get("clients_cut", "")
            notes.append(f"the fence of {source} is lifted; clients are kept off: {cut}")
        if any(name.startswith(GUARD) for name in effects):
            notes.append(f"the fence of {source} is its guard now: drkit may write, clients may not")
        return notes


def _methods(context: Context) -> dict[TopicPartition, Method]:
    return {
        TopicPartition(topic, p): method
        for topic, decision in decided(context).items()
        for p, method in decision.methods.items()
    }


def _smallest_first(context: Context, topics: Collection[str]) -> list[str]:
    """Return topics of the old primary, sorted by how many offsets are copied again.

    A topic that is emptied already comes first: until it is copied, only the new primary has it.
    """
    if len(topics) < 2:  # noqa: PLR2004  one needs no order
        return list(topics)
    names = [context.scope.topics[t] for t in topics]
    sizes: dict[TopicPartition, Ends] = context.run(ends_now, context.target, names)[0]

    emptied = {name for name in topics if is_emptied(context, name)}

    def size(name: str) -> tuple[bool, int, str]:
        offsets = (e.end - e.start for tp, e in sizes.items() if tp.topic == context.scope.topics[name])
        return name not in emptied, sum(offsets), name

    return sorted(topics, key=size)
