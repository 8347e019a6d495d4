"""TRANSLATE: the exact target offset of each group and partition, the proof, and the final loss statement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from drkit.counted import counted, verb
from drkit.errors import Failed, Refused
from drkit.failover.checks.late import late_notes, look_late
from drkit.failover.checks.survey import positions_of
from drkit.failover.core.asking import asked
from drkit.failover.core.context import Context
from drkit.failover.core.machine import StepName
from drkit.failover.core.step import Step, StepEffect, StepResult
from drkit.failover.groups.look import partition_of
from drkit.failover.groups.pending_offsets import settle
from drkit.failover.loss.count import evidence_of, frontiers_of, held_of, known_records, lost_partitions
from drkit.failover.loss.positions import ScopePositions, scope_positions
from drkit.failover.loss.silent import silent_risk
from drkit.kafka.raw import RawCluster
from drkit.model import TopicPartition
from drkit.next_command import translate_group
from drkit.offsets import Unavailable
from drkit.offsets.translation import Exact, PartitionPosition

_SHOWN: Final = 5
_NO_PARTITION: Final = Unavailable("the target has no such partition")


class TranslateStep(Step):
    """See the module."""

    name = StepName.TRANSLATE

    def plan(self, context: Context) -> list[StepEffect]:
        """See :class:`drkit.failover.core.step.Step`: current values; the copy continues until FREEZE."""
        found = self._translated(context, context.source(), act=False)
        where = f"{context.flow.source} → {context.flow.target}"
        exact = [
            StepEffect(f"group {group}: {_in_short(partitions)}", where, "as of now")
            for group, partitions in sorted(found["positions"].items())
        ]
        unavailable = [
            StepEffect(f"group {group}: no exact position in {at}", where, why)
            for group, partitions in sorted(found["unavailable"].items())
            for at, why in sorted(partitions.items())
        ]
        return exact + unavailable

    def run(self, context: Context) -> StepResult:
        """See :class:`drkit.failover.core.step.Step`.

        :raises Refused: the exact position of some group is unknown
        """
        found = asked(context, lambda source: self._translated(context, source, act=True))
        if found["unavailable"] and not context.request.accept_data_loss:
            raise _unavailable(context, found["unavailable"])
        number = sum(map(len, found["positions"].values()))
        groups = counted(len(found["positions"]), "group")
        notes = [f"{counted(number, 'position')} of {groups} {verb(number, 'is')} exact"]
        return StepResult(
            found, (*notes, *found["settled"], *late_notes(found["late"]), found["loss"]["statement"])
        )

    def _translated(self, context: Context, source: RawCluster | None, *, act: bool) -> dict[str, Any]:
        late = look_late(context, source)
        groups = sorted({*context.scope.groups, *late["groups"]})
        settled = settle(context, source, groups) if source is not None and act else []
        committed, origin = positions_of(context, source, groups)
        # The source's ends are read after the groups: else one that commits meanwhile would be past them.
        places = scope_positions(context, source, final=True)
        names = context.scope.topics
        positions: dict[str, dict[str, list[Any]]] = {}
        unavailable: dict[str, dict[str, str]] = {}
        for group in groups:
            for at, stored in sorted(committed.get(group, {}).items()):
                if at.topic not in names:
                    continue
                target = str(TopicPartition(names[at.topic], at.partition))
                place = places.get(at, _NO_PARTITION)
                answer = place if isinstance(place, Unavailable) else place.forward(stored.offset)
                if isinstance(answer, Unavailable):
                    unavailable.setdefault(group, {})[target] = answer.reason
                else:
                    mark = [stored.metadata] if stored.mark is not None else []
                    positions.setdefault(group, {})[target] = [stored.offset, answer.offset, *mark]
        lost = lost_partitions(context, places, source)
        risk = silent_risk(context, known_records(lost), held_of(lost)) if source is None else None
        fenced = bool(context.result(StepName.FENCE).get("proven"))
        return {
            "positions": positions,
            "unavailable": unavailable,
            "positions_from": origin,
            "late": late,
            "settled": settled,
            "frontiers": frontiers_of(places),
            **_bounds(context, places),
            "loss": evidence_of(context, lost, risk, fenced=fenced),
        }

    def prove(self, context: Context) -> StepResult:
        """See :class:`drkit.failover.core.step.Step`: each position translates back to its source offset.

        :raises Failed: one does not
        """
        found = context.result(StepName.TRANSLATE)
        places = scope_positions(context, None, final=True)
        back = {target: source for source, target in context.scope.topics.items()}
        proven = 0
        for group, partitions in found.get("positions", {}).items():
            for target, (upstream, downstream, *_) in partitions.items():
                at = partition_of(target)
                source = TopicPartition(back.get(at.topic, ""), at.partition)
                place = places.get(source, _NO_PARTITION)
                _leads_back(place, upstream, downstream, f"group {group}, {target}")
                proven += 1
        return StepResult({"proven": proven})


def _bounds(context: Context, places: ScopePositions) -> dict[str, dict[str, int]]:
    names = context.scope.topics
    known = {
        str(TopicPartition(names[at.topic], at.partition)): p
        for at, p in sorted(places.items())
        if isinstance(p, PartitionPosition)
    }
    return {
        "starts": {at: p.start for at, p in known.items()},
        "ends": {at: p.end for at, p in known.items()},
    }


def _leads_back(place: PartitionPosition | Unavailable, upstream: int, downstream: int, where: str) -> None:
    """Check that a target offset and its source offset point to the same first record.

    The first target record at or after `downstream` is the copy of the first copied record at or after
    `upstream`.

    :raises Failed: it is not
    """
    if isinstance(place, PartitionPosition):
        if not len(place.segments) and downstream == place.end:
            return  # no record was copied, so none can be translated back
        back = place.backward(downstream)
        if isinstance(back, Exact):
            again = place.forward(back.offset)
            beyond = place.frontier is not None and upstream > place.frontier
            if (
                isinstance(again, Exact)
                and again.offset == downstream
                and (beyond or back.offset >= upstream)
            ):
                return
    raise Failed(
        "translation_not_reversible",
        where=where,
        evidence=f"{upstream} → {downstream} → "
        f"{back if isinstance(place, PartitionPosition) else place.reason}",
    )


def _unavailable(context: Context, unavailable: Mapping[str, Mapping[str, str]]) -> Refused:
    first = next(iter(unavailable))
    at, why = next(iter(unavailable[first].items()))
    groups = ", ".join(sorted(unavailable)[:_SHOWN])
    return Refused(
        "no_exact_position",
        where=f"{context.flow.name}: {groups}",
        evidence=f"group {first}, {at}: {why}",
        groups=counted(len(unavailable), "group"),
        translate_group=translate_group(first),
    )


def _in_short(partitions: Mapping[str, list[Any]]) -> str:
    shown = [f"{at} {p[0]} → {p[1]}" for at, p in sorted(partitions.items())[:_SHOWN]]
    more = len(partitions) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
