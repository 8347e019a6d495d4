"""The record of a run's fence on the source: written before the fence, marked before OPEN.

Where the target loses its journal, only the source has a record of what to lift, and whether that is safe.
The source of a run that is not planned may die before OPEN, and then no mark on it could show that the target
opens: so its record has that mark from the beginning, and the run never waits for its source.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, Final

from drkit.config import FlowSettings
from drkit.counted import first_of
from drkit.errors import DrkitError, NotAuthorized, Refused
from drkit.failover.core.context import Context
from drkit.failover.core.reverse import fence_targets, opposite_fences, refused_elsewhere, work_elsewhere
from drkit.failover.core.step import StepEffect
from drkit.failover.fencing.methods import ACL, SIZE, recorded_acls, recorded_sizes
from drkit.flow_state.records import ConfigsRecord, FenceAclsRecord, FenceSizesRecord, RoleRecord
from drkit.flow_state.source_fence.entries import ANY_RUN, FenceLog, FenceMark, FenceRecord
from drkit.flow_state.source_fence.topic import FenceTopic
from drkit.journal.machine import StepName
from drkit.kafka.access.acls import NoAuthorizer, list_acls
from drkit.kafka.raw import RawCluster
from drkit.pair.promotions import away_from, promotions_of
from drkit.pair.view import lost_promotions
from drkit.status.pair.reading import refusing_by_size
from drkit.topology.acls import to_json
from drkit.topology.topic_configs import MAX_MESSAGE_BYTES

RECORD: Final = "record"
"""The effect of FENCE in the journal."""
_REFUSED: Final = "refused"
"""In its outcome: why the source did not accept the record."""


class AbortedAtSource(Refused):
    """The run was aborted at its source while its target was away."""


def planned_record(context: Context) -> StepEffect:
    """Return the planned effect for a dry run."""
    reason = "an abort needs no target" if context.request.planned else "it is known without the target"
    return StepEffect("write down what the fence replaces", _topic(context).where, reason)


def write_down(context: Context, method: str, details: dict[str, Any]) -> None:
    """Write down on the source what a run is about to fence there, and read it back.

    :raises AbortedAtSource: it was aborted there
    :raises DrkitError: planned runs only: the source does not accept the record, so nothing may be fenced
    """
    topic, record = _topic(context), None
    fence = {"topics": sorted(context.scope.topics), "target_id": context.target.cluster_id, "method": method}
    entries = [topic.entry(FenceMark.RAISED, context.run_id, context.term, **fence, **details)]
    if not context.request.planned:
        entries.append(topic.entry(FenceMark.OPENING, context.run_id, context.term))
    with context.effect(StepName.FENCE, RECORD, method=method, **details) as outcome:
        try:
            record = topic.append(*entries).records[context.run_id]
        except DrkitError as error:
            if context.request.planned:
                raise
            outcome[_REFUSED] = error.in_short
    _refuse(context, record)


def keep_earlier(context: Context, source: RawCluster) -> None:
    """Take over into the flow's state what earlier fences replaced, those of other flows of the source, too.

    So the last flow that has a fence on record lifts it, and an abort of such a run at the source lifts
    nothing that this run needs. Raises DrkitError: planned runs only.
    """
    with suppress(*() if context.request.planned else (DrkitError,)):
        for target in sorted({context.flow.target, *fence_targets(context, source)}):
            with suppress(NotAuthorized):
                _take(context, target)
        _keep(context, work_elsewhere(context, context.scope.topics, context.kept.elsewhere).fences)


def _take(context: Context, target: str) -> None:
    """Take over the fences that a flow's record on the source has, and mark there that they were taken."""
    flow, fenced = FlowSettings(source=context.flow.source, target=target), set(context.scope.topics)
    topic = context.kept.fences_of(context.source_settings, flow)
    log = topic.read()  # a fence of the flow itself that its open target needs is in its state
    records = log.open if target == context.flow.target else log.records.values()
    earlier = [r for r in records if r.run_id != context.run_id]
    for record in earlier:
        _keep(context, record.without(tuple(record.topics - fenced)))
    if taken := sorted(fenced & {name for r in earlier if r.is_open for name in r.topics}):
        topic.append(topic.entry(FenceMark.TAKEN, context.run_id or ANY_RUN, context.term, topics=taken))


def recall_fences(context: Context, topics: Collection[str]) -> None:
    """Take over into the flow's state what fences of topics replaced: a state that was deleted lacks it.

    Raises DrkitError: the source does not answer.
    """
    with suppress(NotAuthorized):
        for record in _topic(context).read().records.values():
            _keep(context, record.without(tuple(record.topics.difference(topics))))


def has_fenced(context: Context) -> bool:
    """Return whether the run has begun to fence a source that answered."""
    return not context.effects(StepName.FENCE).keys().isdisjoint({RECORD, ACL, SIZE})


def _keep(context: Context, record: FenceRecord) -> None:
    """Record the parts of a fence that are still in effect and not in the flow's state."""
    state, settings = context.state, context.source_settings
    known = recorded_sizes(state)
    sizes = {t: v for t, v in record.own_sizes.items() if t not in known}
    if fenced := refusing_by_size(settings, sizes):
        state.put(FenceSizesRecord(known | {t: v for t, v in sizes.items() if t in fenced}))
    acls = recorded_acls(state)
    missing_acls = record.own_acls - acls
    with suppress(NoAuthorizer):
        if missing_acls and (standing := missing_acls & list_acls(settings).acls):
            state.put(FenceAclsRecord(acls | standing))


def mark_opening(context: Context, *, begun: bool) -> None:
    """Mark on the source that the run is about to open its target: an abort at the source is too late then.

    :param begun: OPEN has begun in an earlier process: then a silent source does not hold the run
    :raises Refused: the run was aborted at the source, or the source does not answer
    :raises DrkitError: the source does not accept the mark
    """
    if not _has_record(context):
        return
    waits = context.request.planned and not begun
    if waits and context.look_at_source() is None:
        evidence = f"{context.source_error}; its record of the fence would let an abort open it once more"
        raise Refused("source_record_unwritable", where=context.flow.source, evidence=evidence)
    try:
        record, topic = _own(context), _topic(context)
        if record is not None and record.mark is FenceMark.RAISED:
            entry = topic.entry(FenceMark.OPENING, context.run_id, context.term)
            record = topic.append(entry).records[context.run_id]
        _refuse(context, record)
        taken = taken_fences(context)
    except DrkitError as error:
        if waits or isinstance(error, AbortedAtSource):
            raise
        return
    if taken and not begun and not context.request.despite_signs_of_life:
        raise refused_elsewhere(context.flow.name, taken)


def taken_fences(context: Context) -> dict[str, str]:
    """Return topics of the scope whose fence a run has taken whose target was not asked → that it has it.

    The log on the source decides between two runs that do not know each other's target.
    """
    record, source = _own(context), context.source()
    taken = frozenset() if record is None else context.scope.topics.keys() - record.topics
    is_unknown = taken and source is not None and fence_targets(context, source, unasked=True)
    return dict.fromkeys(sorted(taken), "another run has its fence") if is_unknown else {}


def mark_opened(context: Context) -> str:
    """Mark on the source that the target is open; return the error, or empty if it succeeded.

    The mark before OPEN is enough for safety, so a source that is silent by now does not matter.
    """
    try:
        if _own(context) is not None:
            _topic(context).mark_opened([context.run_id])
    except DrkitError as error:
        return error.in_short
    return context.source_error if _has_record(context) and context.source() is None else ""


def record_standing(context: Context, topics: Collection[str]) -> None:
    """Write down on the source the fences of promoted topics, which were raised after their failover.

    It lifts nothing. It shows to a later failover of the opposite flow that its own role there is over, and
    which ACLs keep clients off. Raises DrkitError: the source does not accept it.
    """
    roles, topic = promotions_of(context.state.records), _topic(context)
    sizes, acls = recorded_sizes(context.state), recorded_acls(context.state)
    for run_id in sorted({roles[t].run_id for t in topics if t in roles}):
        names = sorted(t for t in topics if t in roles and roles[t].run_id == run_id)
        term, of_run = roles[names[0]].term, frozenset(a for a in acls if a.name in names)
        of_sizes, target_id = {t: sizes[t] for t in names if t in sizes}, context.target.cluster_id
        fence = {"sizes": of_sizes, "acls": to_json(of_run), "target_id": target_id}
        marks = (topic.entry(mark, run_id, term) for mark in (FenceMark.OPENING, FenceMark.OPENED))
        topic.append(topic.entry(FenceMark.RAISED, run_id, term, topics=names, **fence), *marks)


OPPOSITE: Final = "fence of the opposite flow"
"""The effect of FREEZE that lifts it."""


def opposite_fence(context: Context) -> dict[str, Any]:
    """Return the fence of the opposite flow on the target as plain data, or an empty dictionary without one.

    The target was the primary then, and has the record of its fence; the opposite flow's own state is on the
    source, which was given up. Raises DrkitError: the target does not answer, or hides its settings.
    """
    state, names, settings = context.state.records, context.scope.topics, context.target_settings
    earlier = {t for t, role in state.all(RoleRecord).items() if role.run_id != context.run_id}
    topics = {names[t] for t in names if t in earlier or t in away_from(state)}
    if not topics:
        return {}
    records = opposite_fences(context).read().records.values()
    acls = frozenset(a for record in records for a in record.own_acls if a.name in topics)
    with suppress(NoAuthorizer):
        acls = acls and acls & list_acls(settings).acls
    known, closed = state.all(ConfigsRecord), refusing_by_size(settings, topics)
    sizes = {
        copy: known[t].settings.get(MAX_MESSAGE_BYTES) if t in known else None
        for t, copy in names.items()
        if copy in closed
    }
    return {"sizes": sizes, "acls": to_json(acls)} if sizes or acls else {}


def end_opposite(context: Context) -> None:
    """Record on the target that the fences of the opposite flow are over: its runs must not continue.

    Nothing is done unless FREEZE has lifted one. Raises DrkitError: the target does not accept it.
    """
    topics = set(context.scope.topics.values())
    if OPPOSITE not in context.effects(StepName.FREEZE):
        return
    reason = context.request.accept_data_loss or f"run {context.run_id} opens {context.flow.target}"
    topic = opposite_fences(context)
    records = [r for r in topic.read().records.values() if r.topics & topics]
    for record in records:
        if record.is_open:
            topic.append(topic.entry(FenceMark.ABORTED, record.run_id, record.term, why=reason))
    if records:
        topic.append(topic.entry(FenceMark.LIFTED, ANY_RUN, context.term, topics=sorted(topics)))


def give_back(context: Context, moved: Mapping[str, str]) -> None:
    """Write on the source that other flows keep fences: an abort there lifts them again. Raises DrkitError.

    :param moved: topic → the flow that keeps its fence
    """
    back = set[str]()
    for flow, _ in context.kept.elsewhere or () if context.source() is not None else ():
        topic = context.kept.fences_of(context.source_settings, flow)
        topics = {t for t, name in moved.items() if name == flow.name}
        for record in reversed(topic.read().records.values()) if topics else ():
            names = sorted((topics - back) & {*record.sizes, *(acl.name for acl in record.acls)})
            if names and not record.is_aborted:
                topic.append(topic.entry(FenceMark.RAISED, record.run_id, record.term, topics=names))
                back.update(names)
    note_lifted(context, back)


def note_lifted(context: Context, topics: Collection[str]) -> None:
    """Note on the source that recorded fences of these topics were lifted. Raises DrkitError: no answer."""
    if context.source() is None:
        return
    topic = _topic(context)
    try:
        records = topic.read().records.values()
    except NotAuthorized:
        return  # then no run could write one
    recorded = {t for record in records for t in record.topics}
    if lifted := sorted(recorded & set(topics)):
        topic.append(topic.entry(FenceMark.LIFTED, ANY_RUN, context.term, topics=lifted))


def refuse_aborted(context: Context) -> None:
    """Refuse to continue a run that was aborted at the source while its target was away.

    A source that does not answer is asked again before OPEN.

    :raises AbortedAtSource: it was
    """
    record = None
    with suppress(DrkitError):
        record = _own(context)
    _refuse(context, record)


def aborted_runs(context: Context) -> frozenset[str]:
    """Return the runs aborted at the source that the journal does not have past OPEN. Raises DrkitError."""
    log = _topic(context).read().with_opened(context.journal_runs().opened)
    return frozenset(run_id for run_id, record in log.records.items() if record.is_aborted)


def source_fences(context: Context) -> FenceLog:
    """Return the record of the flow's fences on the source; empty if that is silent. Raises DrkitError."""
    return FenceLog() if context.source() is None else _topic(context).read()


def lost_on_target(context: Context) -> dict[str, RoleRecord]:
    """Return source topic → the promotion on record on the source that the target has lost."""
    with suppress(DrkitError):
        return lost_promotions(source_fences(context), context.state.records, context.journal_runs().ids)
    return {}


def overrule_abort(context: Context, reason: str) -> None:
    """Let a run that has begun OPEN continue although it was aborted at the source. Raises DrkitError."""
    record, topic = _own(context), _topic(context)
    if record is not None and record.is_aborted:
        topic.append(topic.entry(FenceMark.RAISED, context.run_id, context.term, why=reason))


def _topic(context: Context) -> FenceTopic:
    return context.kept.fences_of(context.source_settings, context.flow)


def _has_record(context: Context) -> bool:
    effect = context.effects(StepName.FENCE).get(RECORD)
    return effect is not None and _REFUSED not in (effect["result"] or {})


def _own(context: Context) -> FenceRecord | None:
    if not _has_record(context) or context.source() is None:
        return None
    return _topic(context).read().records.get(context.run_id)


def _refuse(context: Context, record: FenceRecord | None) -> None:
    if record is None or not record.is_aborted:
        return
    topics, reason = first_of(sorted(record.topics)), f': "{record.why}"' if record.why else ""
    raise AbortedAtSource(
        "aborted_at_source",
        where=f"run {record.run_id}, {context.flow.source}",
        evidence=f"the abort{reason} lifted the fence of {topics}: clients write there"
        if record.lifted
        else f"the abort{reason} was begun there: clients may write to the old primary",
    )
