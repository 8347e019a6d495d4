"""DEMOTE: the old primary's role is passive, and the positions of its groups get drkit's mark.

It runs under the proven fence, with no member in any group: no consumer commits there any more. The offsets
that the groups committed there would count as their own work, and drkit would not move them. So each position
is written again unchanged, with drkit's mark. Before that it is journalled. In a partition that is about to
be emptied, or whose tail is appended to the new primary, every position is marked: also that of a group which
had processed records that only the old primary has, such as each that was running when its primary died. Its
mark has what the group has committed on the new primary. It is void without such an offset: it
permits to overwrite the old offset, and holds no position.
"""

from __future__ import annotations

from typing import Any, Final

from drkit.counted import counted, first_of
from drkit.errors import Failed
from drkit.failover.core.context import Context
from drkit.failover.core.request import Method
from drkit.failover.core.reverse import Reverse, reverse
from drkit.failover.core.step import Step, StepEffect, StepResult
from drkit.failover.groups.offsets import (
    Positions,
    committed_in,
    partition_of,
    positions_from_json,
    positions_to_json,
    restore,
    write,
)
from drkit.failover.loss.positions import scope_positions
from drkit.failover.returning.contact import refuse_open
from drkit.failover.returning.deciding import decided
from drkit.failover.returning.scope import not_returned
from drkit.flow_state.producer_ids import own_ids, renew_live_id
from drkit.flow_state.records import ProducerIdsRecord, PromotionRecord, RoleRecord
from drkit.journal.machine import StepName
from drkit.kafka.raw import ask_once
from drkit.kafka.transactions import new_producer_id
from drkit.model import TopicPartition
from drkit.offsets.group_guard import OffsetMark, StoredOffset
from drkit.offsets.translation import Exact, PartitionPosition, Translation

ROLES: Final = "roles"
GROUPS: Final = "groups"
PRODUCER: Final = "producer"


class DemoteStep(Step):
    """DEMOTE: makes the old primary passive, and marks the positions of its groups."""

    name = StepName.DEMOTE

    def plan(self, context: Context) -> list[StepEffect]:
        some = counted(len(context.scope.topics), "topic")
        return [
            StepEffect(f"make {some} passive", context.flow.source),
            StepEffect("mark the positions of its groups", context.flow.source, "as they are"),
        ]

    def run(self, context: Context) -> StepResult:
        context.state.load()
        refuse_open(context)
        with reverse(context) as back:
            self._adopt(context, back)
            self._demote(context, back)
            fresh = self._renew(context, back)
        source, target = context.flow.source, context.flow.target
        known = context.effects(self.name)[GROUPS]["intent"]
        marked = known.get("positions", {})
        notes = [f"the positions of {counted(len(marked), 'group')} are marked as drkit's on {source}"]
        if unmarked := known.get("left", []):
            notes.append(f"positions without a place on {target} keep their own: {first_of(unmarked)}")
        if void := known.get("void", []):
            notes.append(f"positions are void, with no place and no commit on {target}: {first_of(void)}")
        evidence = {"groups": sorted(marked), "producer_id": fresh, "kept": known.get("kept", {})}
        return StepResult(evidence, tuple(notes))

    def prove(self, context: Context) -> StepResult:
        with reverse(context) as back:
            roles = back.state.all(RoleRecord)
            left = [t for t in context.scope.topics.values() if t in roles and roles[t].is_promoted]
        if left:
            raise Failed("still_primary", where=context.flow.source, evidence=first_of(left))
        return StepResult({"passive": len(context.scope.topics)})

    def undo(self, context: Context) -> StepResult:
        """Restore roles and positions, except of topics that the reverse flow may copy already."""
        effects, notes = context.effects(self.name), []
        if not effects:
            return StepResult()
        context.state.load()
        left = not_returned(context)
        copies = {context.scope.topics[t] for t in left}
        with reverse(context) as back:
            if GROUPS in effects:
                before = {
                    g: positions
                    for g, p in effects[GROUPS]["intent"].get("before", {}).items()
                    if (positions := {tp: v for tp, v in p.items() if partition_of(tp).topic in left})
                }
                number = ask_once(
                    back.target, "return", lambda c: restore(c, back.flow.source, before),
                    what="put positions back",
                )  # fmt: skip
                notes.append(f"{counted(number, 'position')} put back on {context.flow.source}")
            roles = effects.get(ROLES, {}).get("intent", {}).get("roles", {})
            lost = [t for t in roles if t in copies and back.state.get(RoleRecord, t) is None]
            back.state.put_all((topic, RoleRecord.of(roles[topic])) for topic in lost)
            promotion = effects.get(ROLES, {}).get("intent", {}).get("promotion")
            is_whole = len(left) == len(context.scope.topics)
            if promotion and is_whole and back.state.get(PromotionRecord) is None:
                back.state.put(PromotionRecord.of(promotion))
        return StepResult({}, tuple(notes))

    def _demote(self, context: Context, back: Reverse) -> None:
        """Take the roles away: of an earlier switchover in the other direction, and of this one's FREEZE."""
        known = intent_of(context, self.name, ROLES)
        if known is None:
            roles = back.state.all(RoleRecord)
            own = {t: roles[t] for t in context.scope.topics.values() if t in roles}
            promotion = back.state.get(PromotionRecord)
            known = {
                "roles": {t: r.to_json() for t, r in own.items()},
                "promotion": promotion.to_json() if promotion is not None else None,
            }
        with context.effect(self.name, ROLES, **known) as outcome:
            back.state.delete_all(RoleRecord, known["roles"])
            back.state.delete_all(PromotionRecord, [""])
            outcome["passive"] = sorted(known["roles"])

    def _renew(self, context: Context, back: Reverse) -> int:
        """Give the reverse flow a live producer id that it has never used; the same one when repeated."""
        known = intent_of(context, self.name, PRODUCER)
        if known is None:
            ids = back.state.get(ProducerIdsRecord)
            known = {"ended": list(ids.ids) if ids is not None else []}
        ask = lambda: ask_once(back.target, "return", new_producer_id, what="ask for a producer id")  # noqa: E731
        with context.effect(self.name, PRODUCER, **known) as outcome:
            own_ids(back.target, back.flow, back.state)
            outcome["id"] = renew_live_id(back.state, known["ended"], ask).id
        return int(outcome["id"])

    def _adopt(self, context: Context, back: Reverse) -> None:
        known = intent_of(context, self.name, GROUPS)
        if known is None:
            known = self._positions(context, back)
        with context.effect(self.name, GROUPS, **known) as outcome:
            writes = positions_from_json(known["positions"])
            failed = ask_once(back.target, "return", lambda c: write(c, writes), what="mark positions")
            outcome["failed"] = errors = [
                f"{g} {tp}: {reason}" for g, p in failed.items() for tp, reason in p.items()
            ]
        if errors:
            raise Failed("group_positions_not_stored", where=context.flow.source, evidence=first_of(errors))

    def _positions(self, context: Context, back: Reverse) -> dict[str, Any]:
        positions = scope_positions(context, context.source())
        now = context.wall()
        # BEGIN empties these, or appends their tail: no counterpart is left.
        voided = {
            TopicPartition(topic, p)
            for topic, decision in decided(context).items()
            for p, method in decision.methods.items()
            if method.empties or method is Method.KEEP
        }
        # All groups, or an error: a position without a mark would be taken for a new commit.
        committed = ask_once(
            back.target, "return", lambda c: committed_in(c, back.flow, context.scope.topics),
            what="read positions",
        )  # fmt: skip
        copies = context.scope.topics
        there: Positions = context.run(committed_in, context.target, back.flow, set(copies.values()))
        marked: Positions = {}
        before: Positions = {}
        kept: dict[str, dict[str, int]] = {}
        unmarked, void = [], []
        for group, offsets in committed.items():
            for tp, offset in offsets.items():
                known, text = positions.get(tp), f"{group} {tp} at {offset.offset}"
                counterpart = known.forward(offset.offset) if isinstance(known, PartitionPosition) else None
                stored = there.get(group, {}).get(TopicPartition(copies[tp.topic], tp.partition))
                bare = OffsetMark(back.flow.source, None, offset.offset, now)
                is_marked = offset.is_from(back.flow.source)
                mark = mark_of(bare, counterpart, stored, voided=is_marked or tp in voided)
                if mark is None:
                    unmarked.append(text)
                    kept.setdefault(group, {})[str(tp)] = offset.offset
                    continue
                if mark.upstream is None:
                    void.append(text)
                if offset.mark is None or offset.mark[:2] != mark[:2]:
                    marked.setdefault(group, {})[tp] = StoredOffset(offset.offset, mark.text())
                    before.setdefault(group, {})[tp] = offset
        return {
            "positions": positions_to_json(marked), "before": positions_to_json(before), "left": unmarked,
            "kept": kept, "void": void,
        }  # fmt: skip


def mark_of(
    void: OffsetMark, counterpart: Translation | None, there: StoredOffset | None, *, voided: bool
) -> OffsetMark | None:
    """Return the mark for an offset on the old primary, or None if it stays the group's own. Pure.

    :param void: its void mark
    :param counterpart: the offset on the new primary, or None if that is unknown
    :param there: what the group has committed on the new primary
    :param voided: the partition is emptied, its tail appended to the new primary, or the offset drkit's
    """
    if isinstance(counterpart, Exact):
        return void._replace(upstream=counterpart.offset)
    if not voided:
        return None
    return void._replace(upstream=there.offset) if there is not None else void


def intent_of(context: Context, step: StepName, name: str) -> dict[str, Any] | None:
    """Return the details of an effect that an earlier process began, or None."""
    effect = context.effects(step).get(name)
    return effect["intent"] if effect is not None else None
