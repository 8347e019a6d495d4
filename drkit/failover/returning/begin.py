"""BEGIN: the old primary's fence becomes the guard of a passive side, and the reverse flow's map begins.

The map of the reverse flow begins with that of the flow, inverted: see :mod:`drkit.offsets.seed`. A topic may
be copied as soon as its :class:`drkit.flow_state.records.ReturnRecord` is written, which comes last.
"""

from __future__ import annotations

from typing import Final

from drkit.counted import counted, first_of
from drkit.errors import Failed, Refused
from drkit.failover.core.context import Context
from drkit.failover.core.machine import StepName
from drkit.failover.core.reverse import Reverse, reverse
from drkit.failover.core.step import StepEffect, StepResult
from drkit.failover.fencing.methods import SizeFence, recorded_acls, recorded_sizes
from drkit.failover.loss.positions import scope_positions
from drkit.failover.returning.compare import cuts_of, refuse_diverged
from drkit.failover.returning.contact import clients_cut, refuse_open
from drkit.failover.returning.first_record import first_record
from drkit.failover.returning.guard import GUARD, keep_guard
from drkit.failover.returning.scope import pairs, turned
from drkit.flow_state.creation import ensure_offset_map
from drkit.flow_state.records import ClustersRecord, GenerationRecord, ReturnRecord, RoleRecord
from drkit.kafka.admin import Cluster
from drkit.model import TopicPartition
from drkit.offset_map.seeding import SeededPartition, write_seeds
from drkit.offsets.seed import CopyEnd, inverted, seed_after
from drkit.offsets.translation import PartitionPosition

LIFT: Final = "lift"
SEEDS: Final = "seeds"


class BeginStep:
    """See the module."""

    @property
    def name(self) -> StepName:
        """See :class:`drkit.failover.core.step.Step`."""
        return StepName.BEGIN

    def plan(self, context: Context) -> list[StepEffect]:
        """See :class:`drkit.failover.core.step.Step`."""
        flow, some = context.flow, counted(len(context.scope.topics), "topic")
        lines = [StepEffect(f"begin the map of {some}", f"{flow.target}->{flow.source}", "nothing is copied")]
        if sizes := recorded_sizes(context.state).keys() & context.scope.topics.keys():
            why = f"clients are kept off: {clients_cut(context)}"
            lines.append(StepEffect(f"lift the fence of {counted(len(sizes), 'topic')}", flow.source, why))
        elif any(a.name in context.scope.topics for a in recorded_acls(context.state)):
            lines.append(
                StepEffect("keep the fence as guard", flow.source, "drkit may write, clients may not")
            )
        return lines

    def run(self, context: Context) -> StepResult:
        """See :class:`drkit.failover.core.step.Step`.

        :raises Refused: the old primary has changed meanwhile
        :raises DrkitError: a cluster does not answer, or refuses
        """
        context.state.load()
        with reverse(context) as back:
            if not {GUARD, LIFT} & context.effects(self.name).keys():
                # From here to the seeds nothing can be written: the fence stands.
                refuse_open(context)
                self._unchanged(context)
                self._introduce(context, back, Cluster.connect(back.target))
                self._seed(context, back)
            keep_guard(context, back)
            self._lift(context)
            self._may_copy(context, back)
        some = counted(len(pairs(context)), "partition")
        back_flow = f"{context.flow.target}->{context.flow.source}"
        notes = (f"{back_flow} begins at the end of {some}", *self._fence_notes(context))
        return StepResult({"topics": dict(context.scope.topics)}, notes)

    def prove(self, context: Context) -> StepResult:
        """See :class:`drkit.failover.core.step.Step`.

        :raises Failed: a topic has no record of its return
        """
        roles = context.state.all(RoleRecord)
        with reverse(context) as back:
            known = back.state.all(ReturnRecord)
            left = [
                t
                for name, t in context.scope.topics.items()
                if t not in known or known[t].promoted_by != roles[name].run_id
            ]
        if left:
            raise Failed(
                "the reverse flow may not copy yet",
                where=back.flow.name,
                evidence=first_of(left),
                hint="drkit reprotect --resume",
            )
        return StepResult({"topics_returned": len(context.scope.topics)})

    def undo(self, context: Context) -> StepResult:  # noqa: ARG002  the contract's
        """See :class:`drkit.failover.core.step.Step`: does nothing; the flow may have copied."""
        return StepResult()

    def _fence_notes(self, context: Context) -> list[str]:
        """What has become of the fence."""
        effects, source = context.effects(self.name), context.flow.source
        notes = []
        if LIFT in effects:
            cut = effects[LIFT]["intent"].get("clients_cut", "")
            notes.append(f"the fence of {source} is lifted; clients are kept off: {cut}")
        if GUARD in effects:
            notes.append(f"the fence of {source} is its guard now: drkit may write, clients may not")
        return notes

    # -- the parts ----------------------------------------------------------------------------------

    def _introduce(self, context: Context, back: Reverse, target: Cluster) -> None:
        clusters = ClustersRecord(context.target_admin().cluster_id, target.cluster_id)
        if back.state.get(ClustersRecord) != clusters:
            back.state.put(clusters)
        ensure_offset_map(target, back.flow, back.state)

    def _unchanged(self, context: Context) -> None:
        """Refuse an old primary that is not what COMPARE saw.

        :raises Refused: it differs
        """
        before = context.result(StepName.COMPARE).get("ends", {})
        now = {str(at): end for at, end in refuse_diverged(context).items()}
        if now != before:
            some = [at for at in sorted({*now, *before}) if now.get(at) != before.get(at)]
            raise Refused(
                "the old primary has changed since it was compared",
                where=context.flow.source,
                evidence=first_of(f"{at}: ended at {before.get(at)}, now at {now.get(at)}" for at in some),
                hint="find out who writes there; then begin again: drkit reprotect --abort",
            )

    def _seed(self, context: Context, back: Reverse) -> None:
        seeds = self._seeds(context)
        begins = {str(s.partition.source): [s.seed.upstream, s.seed.downstream] for s in seeds}
        with context.effect(self.name, SEEDS, begins=begins) as outcome:
            write_seeds(back.target, back.flow, back.state, seeds)
            known = back.state.all(GenerationRecord)
            roles = {
                s.partition.source.topic: GenerationRecord(
                    s.partition.target.topic, s.partition.source_id, s.partition.target_id,
                    source_cluster=context.target_admin().cluster_id,
                )
                for s in seeds
            }  # fmt: skip
            back.state.put_all((t, r) for t, r in roles.items() if _differs(known.get(t), r))
            outcome["partitions"] = len(seeds)

    def _seeds(self, context: Context) -> list[SeededPartition]:
        """How each partition begins: the flow's map inverted, from the cut on."""
        cuts, ends = cuts_of(context), context.result(StepName.COMPARE)["ends"]
        places = scope_positions(context, None)
        found = []
        for pair in pairs(context):
            at, place = pair.source, places[pair.source]
            assert isinstance(place, PartitionPosition)  # noqa: S101  COMPARE has refused any other
            known = inverted(place.segments, place.copied_end)
            begin = known[0][0] if known else cuts[at]
            first = self._first(context, pair.target, (place.start, begin))
            seed = seed_after(place.segments, place.copied_end, CopyEnd(cuts[at], ends[str(at)]), first)
            found.append(SeededPartition(turned(pair), seed))
        return found

    def _first(self, context: Context, at: TopicPartition, span: tuple[int, int]) -> int | None:
        """The first record on the new primary that the map does not know; None: there is none."""
        if span[0] >= span[1]:
            return None
        found: int | None = context.run(first_record, context.target, at, span)
        return found

    def _lift(self, context: Context) -> None:
        """Let drkit's records pass; how clients are kept off is on record."""
        sizes = {t: v for t, v in recorded_sizes(context.state).items() if t in context.scope.topics}
        if not sizes:
            return
        cut = context.result(StepName.CONTACT).get("clients_cut", "")
        with context.effect(self.name, LIFT, sizes=sizes, clients_cut=cut) as outcome:
            SizeFence(context.source_settings, context.state).remove({"sizes": sizes})
            outcome["lifted"] = sorted(sizes)

    def _may_copy(self, context: Context, back: Reverse) -> None:
        roles, known = context.state.all(RoleRecord), back.state.all(ReturnRecord)
        cut = context.result(StepName.CONTACT).get("clients_cut") or None
        wanted = {
            topic: ReturnRecord(roles[name].run_id, context.run_id, context.wall(), cut)
            for name, topic in context.scope.topics.items()
        }
        back.state.put_all(
            (t, r) for t, r in wanted.items() if t not in known or known[t].promoted_by != r.promoted_by
        )


def _differs(known: GenerationRecord | None, wanted: GenerationRecord) -> bool:
    """Whether a topic and its copy are not on record yet."""
    if known is None:
        return True
    return (known.target, known.source_id, known.target_id) != (
        wanted.target, wanted.source_id, wanted.target_id,
    )  # fmt: skip
