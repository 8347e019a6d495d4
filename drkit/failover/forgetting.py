"""`drkit reprotect --forget`: end the promotion of topics that neither side has as they were promoted.

A topic that was deleted on the new primary, whether or not it was created again, has nothing to fail back;
with the old primary's topic gone too, nothing can be lost any more. Until a person ends it, its promotion
stays on record: the old primary's topic may be the only copy of its records.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from drkit import observe
from drkit.counted import counted, first_of
from drkit.errors import Failed, Refused
from drkit.failover.core.context import Context
from drkit.failover.core.reverse import opposite_flow, opposite_state, records_of, reverse_flow
from drkit.failover.fencing.lift import lift_fences, not_answering
from drkit.failover.loss.findings import ANOTHER_TOPIC, CopyFate
from drkit.failover.loss.new_primary import topic_fate
from drkit.failover.old_primary.identity import is_another
from drkit.failover.service import FailoverService
from drkit.flow_state.codec.record import StateRecord
from drkit.flow_state.pending_fence import settle
from drkit.flow_state.records import (
    ConfigsRecord,
    GenerationRecord,
    HeldSettingsRecord,
    IncompleteRecord,
    OppositePromotionRecord,
    PendingFence,
    RoleRecord,
    SourceSeenRecord,
)
from drkit.flow_state.unreplayed import unreplayed
from drkit.journal.machine import RETURN
from drkit.kafka import codes
from drkit.kafka.raw import RawCluster
from drkit.kafka.requests import TopicMetadata, metadata_of_all
from drkit.pair.promotions import promoted_of

_OF_A_TOPIC: Final[tuple[type[StateRecord], ...]] = (
    IncompleteRecord, HeldSettingsRecord, ConfigsRecord, GenerationRecord, OppositePromotionRecord,
    RoleRecord,
)  # fmt: skip
"""Records of a copied topic in a flow's state, the role last: if the process dies before, it begins again."""
_FORGOTTEN: Final = ("", None, None)


class OverTopic(NamedTuple):
    """A promoted topic that neither side has as it was promoted."""

    topic: str
    """Its name on the old primary, which has no such topic."""
    copy: str
    """Its name on the new primary."""
    fate: CopyFate
    """Gone, or recreated: then it is copied like any other topic from now on."""
    also: str = ""
    """The flow in the other direction, if its earlier promotion of the topic is void too, or empty."""

    @property
    def in_words(self) -> str:
        """The sentence to be printed."""
        also = f"; {self.also} had promoted it before, which is void, too" if self.also else ""
        return f"{self.topic} is gone; its copy {self.copy} {ANOTHER_TOPIC[self.fate]}{also}"


def forgettable(service: FailoverService, topics: Collection[str]) -> list[OverTopic]:
    """Return the topics whose promotion :func:`forget` would end. Changes nothing.

    :param topics: by their names on the old primary, or ``*`` for all that neither side has
    :raises Refused: a side has one of them, an export alone has records of it, or a run is under way
    :raises DrkitError: a cluster does not answer
    """
    context = _context(service)
    roles = sorted(promoted_of(context.state.records))
    every = "*" in topics
    if unknown := sorted(set(topics) - {*roles, "*"}):
        raise Refused(
            "not_promoted", where=f"flow {context.flow.name}", evidence=f"not promoted: {first_of(unknown)}"
        )
    _refuse_run(service)
    source = context.source()
    if source is None:
        raise not_answering(context, RETURN.typed("--forget"))
    is_another(context)  # nothing is known of another cluster
    names = roles if every else sorted(set(topics))
    # Only an earlier process of this command deletes what a copy is, and leaves the role.
    copies = {name: context.known.topics.get(name, _FORGOTTEN) for name in names}
    on_old = context.run(_of_all_brokers, source, names)
    targets = [target for target, _, _ in copies.values() if target]
    on_new = context.run(_of_all_brokers, context.target, targets)
    found, kept = [], []
    for name in names:
        target, _, target_id = copies[name]
        fates = {topic_fate(each, target_id) for each in on_new.get(target, ())}
        is_on_old = any(each.error not in codes.NO_SUCH_TOPIC for each in on_old[name])
        if is_on_old or CopyFate.KEPT in fates:
            kept.append(f"{name}: {context.flow.source if is_on_old else context.flow.target} has it")
        else:
            fate = CopyFate.RECREATED if CopyFate.RECREATED in fates else CopyFate.GONE
            found.append(OverTopic(name, target or name, fate))
    if kept and not every:
        raise _refused_kept(context, kept)
    if left := unreplayed(context.state.records, [t.topic for t in found]):
        raise Refused(
            "forget_unreplayed",
            where=f"flow {context.flow.name}",
            evidence=left[0].in_words,
            command=left[0].command,
            to_give_up=left[0].to_give_up,
        )
    if before := _promoted_before(context, found, on_new):
        with FailoverService(context.settings, reverse_flow(context)) as opposite:
            _refuse_run(opposite)
    return [t._replace(also=before.get(t.copy, "")) for t in found]


def forget(service: FailoverService, topics: Collection[str], *, by: str) -> list[OverTopic]:
    """End the promotion of topics that neither side has; return them. It may be repeated.

    The fences of the old primary for them are lifted, and their records in the flow's state are deleted.

    :param by: the person who decided it
    :raises DrkitError: as :func:`forgettable`
    """
    found = forgettable(service, topics)
    context = _context(service)
    if earlier := [t._replace(topic=t.copy, copy=t.topic) for t in found if t.also]:
        # First, so that a process that dies is begun again by the promotion that is left.
        with FailoverService(context.settings, reverse_flow(context)) as opposite:
            _end(_context(opposite), earlier, by)
    if (state := opposite_state(context)) is not None:
        state.delete_all(OppositePromotionRecord, [t.copy for t in found])
    _end(context, found, by)
    return found


def _end(context: Context, topics: Collection[OverTopic], by: str) -> None:
    names = [t.topic for t in topics]
    # First: the note left promoted topics out of its ages, so it does not cover what is copied from now on.
    if topics:
        context.state.delete_all(SourceSeenRecord, [""])
    lift_fences(context, names)
    settle(context.state, PendingFence, names)
    for each in topics:
        observe.event("promotion_forgotten", level="warning", flow=context.flow.name, topic=each.topic,
                      copy=each.copy, fate=each.fate.value, by=by)  # fmt: skip
    for kind in _OF_A_TOPIC:
        context.state.delete_all(kind, names)


def _promoted_before(
    context: Context, found: Collection[OverTopic], on_new: Mapping[str, list[TopicMetadata]]
) -> dict[str, str]:
    """Return the copies whose earlier promotion by the opposite flow is void too, with that flow's name.

    That promotion is about a topic of the old primary, which is gone, and one of the new primary, which has
    another id now. If only the newer one were forgotten, it would decide where clients write.
    """
    names = {t.copy: t.topic for t in found}
    opposite = opposite_flow(context.settings, context.flow)
    if opposite is None or not names:
        return {}
    state = records_of(context.settings, opposite)
    known, roles = state.all(GenerationRecord), state.all(RoleRecord)
    # Also one that the newer promotion has ended: without its record the role would count again.
    promoted = {copy for copy in names if copy in roles and roles[copy].is_promoted}
    retained = {each.topic for each in unreplayed(state, promoted)}
    for copy in promoted & known.keys():
        ids = {answer.topic_id for answer in on_new.get(copy, ()) if not answer.error}
        if known[copy].target != names[copy] or known[copy].source_id in ids:
            retained.add(copy)
    return dict.fromkeys(promoted - retained, opposite.name)


def _context(service: FailoverService) -> Context:
    context = service.context_outside_run()
    context.state.load()
    return context


async def _of_all_brokers(cluster: RawCluster, names: Collection[str]) -> dict[str, list[TopicMetadata]]:
    found = await metadata_of_all(cluster, names)
    known = codes.NO_SUCH_TOPIC | {codes.NONE}
    wrong = {n: a.error for n, each in found.items() for a in each if a.error not in known}
    if unclear := sorted(f"{name}: {codes.error_name(error)}" for name, error in wrong.items()):
        some = counted(len(unclear), "topic")
        raise Failed("topics_unknown", where=cluster.alias, evidence=first_of(unclear), topics=some)
    return found


def _refuse_run(service: FailoverService) -> None:
    run = service.under_way
    if run is not None:
        evidence = f"it is {run.state} at {run.last_step or 'its beginning'}"
        hint = run.table.next_commands(abortable=run.abortable)
        raise Refused("forget_run_under_way", where=f"run {run.run_id}", evidence=evidence, hint=hint)


def _refused_kept(context: Context, kept: list[str]) -> Refused:
    flow = context.flow
    return Refused(
        "can_still_fail_back",
        where=f"flow {flow.name}",
        evidence=first_of(kept),
        topics=counted(len(kept), "topic"),
        source=flow.source,
        flow=flow.name,
        target=flow.target,
        command=RETURN.command,
    )
