"""Judges the state of a pair from the facts of both directions, topic by topic. Pure.

A topic has one name on each cluster. The newest promotion decides where clients write, the flow in the other
direction protects it. The result does not depend on the direction of the flow that is examined.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from drkit.counted import counted
from drkit.flow_state.pending_fence import paid_with
from drkit.flow_state.records import HeldSettingsRecord, RoleRecord
from drkit.journal.machine import RETURN
from drkit.next_command import REASON, typed
from drkit.pair.view import FenceSeen, OneWay, TopicView, pair_view
from drkit.status.pair.facts import FENCED_HERE, DirectionFacts, TopicLag
from drkit.status.pair.journal import RunUnderWay
from drkit.status.pair.model import EXPOSED, AlarmReason, PairAlarm, PairState, PairStatus, PairTopic

Way = OneWay[DirectionFacts]
TopicSides = TopicView[DirectionFacts]


def runs_of(sides: TopicSides) -> Iterator[tuple[Way, RunUnderWay]]:
    """Yield the runs in progress for a topic, each with the direction whose journal has it."""
    for side in sides:
        if side.flow.run is not None and side.flow.run.covers(*sides.names):
            yield side, side.flow.run


_KEEPS_FENCE: Final = frozenset({"COMPARE", "EXPORT", "DECIDE", "DEMOTE"})
"""Steps of a return after its fence, and before the fence becomes a guard or is lifted for the copy."""
_LIFTS_FENCE: Final = frozenset({"BEGIN", "REPLAY", "DONE"})
"""Steps in which the fence is removed from its record; the command states how clients are kept away then."""
_PENDING: Final = "debt"
"""The result of the step FENCE of a failover that could not fence."""


def alarms_of(sides: TopicSides, promoted: Way | None) -> Iterator[tuple[PairAlarm, str]]:
    """Yield the alarms of a topic, the worst first, with their reasons."""
    if promoted is not None and (reason := _still_open(sides, promoted)):
        yield PairAlarm.BOTH_OPEN, reason
    if promoted is not None and (reason := _incomplete(sides, promoted)):
        yield PairAlarm.INCOMPLETE, reason
    if reason := _both_closed(sides, promoted):
        yield PairAlarm.BOTH_CLOSED, reason
    for side in sorted(sides, key=lambda s: s.flow.source):
        for each in side.flow.unreplayed.get(side.name, ()):
            lacks = f"{each.in_words}, not carried out, and {side.flow.target} lacks them: {each.command}"
            yield PairAlarm.UNREPLAYED, f"{lacks}; or give them up by name: {each.to_give_up}"


def _both_closed(sides: TopicSides, promoted: Way | None) -> str:
    is_quiet = next(runs_of(sides), None) is None
    if promoted is not None and sides.refuses(promoted.flow.target) and (promoted.flow.silent or is_quiet):
        passive = "does not answer" if promoted.flow.silent else "is not the primary"
        return f"{promoted.flow.target} refuses every client, and {promoted.flow.source} {passive}"
    closing = sides.other(promoted) if promoted is not None else sides.original
    if closing is None or closing.fence is not FenceSeen.STANDS or not is_quiet:
        return ""
    passive = sides.other(closing).flow.source
    if any(s.flow.unread or s.flow.runs_unknown for s in sides):
        return ""  # the other side may have been promoted, or a run may be in progress
    return f"the fence of {closing.flow.name} stands on {closing.flow.source}, and {passive} is not promoted"


def _incomplete(sides: TopicSides, promoted: Way) -> str:
    role, emptied = promoted.role, promoted.flow.incomplete.get(promoted.name)
    if emptied is None or role is None or sides.other(promoted).answers(role):
        return ""
    partitions = counted(len(emptied.emptied), "partition")
    command = typed("drkit", "reprotect", "--flow", promoted.flow.name)
    return (
        f"{promoted.flow.source} was emptied in {partitions} by the return {emptied.run_id}, which was rolled"
        f" back; only {promoted.flow.target} has the records: {command}"
    )


def _still_open(sides: TopicSides, promoted: Way) -> str:
    role, other, flow = promoted.role, sides.other(promoted), promoted.flow
    assert role is not None  # noqa: S101  the newest promotion is one
    # A return of the opposite flow answers an earlier promotion.
    runs = (run for side, run in runs_of(sides) if side is promoted and run.table == RETURN.name)
    run = next(runs, None)
    consequence = "" if run is None else _how_to_continue(promoted, run)
    if promoted.fence is FenceSeen.PENDING and not flow.silent:
        return f"{flow.source} answers, and is not fenced since the failover{consequence}"
    if other.answers(role) or (run is not None and not _lost_fence(promoted, run)):
        return ""  # it is the passive side of a copy again, or its return fences it, or lifts its fence
    if promoted.fence is FenceSeen.GONE:
        if next(runs_of(sides), None) is None:
            count = typed("drkit", "divergence", "--flow", flow.name)
            consequence = f"; {count} counts what only it has, {paid_with(flow.name)} fences it again"
        return f"{flow.source} does not have the fence that is on record{consequence}"
    method = flow.fenced_by.get(role.run_id, "")
    is_known = not (flow.silent or flow.unread or other.flow.unread)  # the return may have lifted it
    if promoted.fence is FenceSeen.NONE and is_known and method in FENCED_HERE:
        fence = "the fence that its failover left pending" if method == _PENDING else f"its fence ({method})"
        return f"{flow.source} answers, and {fence} is not on record any more{consequence}"
    return ""


def _lost_fence(promoted: Way, run: RunUnderWay) -> bool:
    if promoted.fence is FenceSeen.GONE:
        return bool(run.held) or run.step in _KEEPS_FENCE
    return bool(run.held) and run.step not in _LIFTS_FENCE


def _how_to_continue(promoted: Way, run: RunUnderWay) -> str:
    if not run.held:
        return ""
    command = typed("drkit", "reprotect", "--flow", promoted.flow.name)
    where = f"; the return {run.run_id} is held at {run.step or 'LOCK'}"
    role = promoted.role
    if run.aborting or (role is not None and role.planned):  # a return raises no fence of a switchover
        return f"{where}: {command} --abort, then: {paid_with(promoted.flow.name)}"
    return f"{where}: {command} --resume fences it again"


def judge(first: DirectionFacts, second: DirectionFacts, rpo_seconds: float) -> PairStatus:
    """Return the state of every topic of a pair.

    :param second: the direction from the target of the first to its source
    :param rpo_seconds: a copy whose oldest missing record is older is not in step
    """
    topics = tuple(_topic(sides, rpo_seconds) for sides in pair_view(first, second))
    directions = (first, second), (second, first)
    silent = {f.source: _known_ms(f, opposite) for f, opposite in directions if f.silent}
    reasons = ((f.name, f.runs_unknown or ("" if f.target in silent else f.unread)) for f in (first, second))
    hidden = ((f"whether {f.target} refuses clients", f.refusing.unknown) for f in (first, second))
    unread = tuple(f"{name}: {reason}" for name, reason in (*reasons, *hidden) if reason)
    a, b = sorted((first.source, first.target))
    why = "" if topics or unread or silent else "nothing was copied yet"
    return PairStatus((a, b), topics, why, unread, silent)


def _known_ms(flow: DirectionFacts, opposite: DirectionFacts) -> int | None:
    later = [p.at_ms for p in flow.opposite.values()] + [p.at_ms for p in opposite.recorded.values()]
    return max([*later, *flow.source_noted_ms], default=None)


class Delta(NamedTuple):
    """A promoted topic that nothing copies."""

    topic: PairTopic
    role: RoleRecord
    held: HeldSettingsRecord | None = None
    """The hold on the active side that keeps all records, or None if there was never one."""


def deltas_of(pair: PairStatus, flow: DirectionFacts, *, is_first: bool) -> dict[str, Delta]:
    """Return name on the flow's target → topic that the flow promoted last, and that nothing copies.

    :param is_first: whether the flow was the first one in :func:`judge`
    """
    deltas = {}
    for t in pair.topics:
        source_name, name = (t.topic, t.copy) if is_first else (t.copy, t.topic)
        role = flow.promoted.get(source_name)
        moved = t.since_ms is not None and t.active == flow.target
        if role is not None and moved and t.state in EXPOSED:
            deltas[name] = Delta(t, role, flow.held.get(source_name))
    return deltas


def _topic(sides: TopicSides, rpo_seconds: float) -> PairTopic:
    promoted = sides.promoted
    younger = next((s.flow for s in sides if s.flow.is_younger), None)
    if younger is not None:
        reason = f"the roles of {younger.name} are known by its journal alone: {younger.unread}"
        topic = PairTopic(*sides.names, PairState.UNKNOWN, active=sides.active, why=reason)
    elif promoted is not None and promoted.flow.unread:
        topic = _on_record(sides, promoted)
    elif promoted is None:
        topic = _before_a_promotion(sides, rpo_seconds)
    else:
        topic = _promoted(sides, promoted, rpo_seconds)
    topic = _under_way(sides, promoted, topic)
    whys = dict(reversed([*alarms_of(sides, promoted)]))  # of several of a kind, the first one
    return replace(topic, alarms=tuple(AlarmReason(a, whys[a]) for a in PairAlarm if a in whys))


def _before_a_promotion(sides: TopicSides, rpo_seconds: float) -> PairTopic:
    """Judge a topic that was never promoted: clients write on the source, or on both if both flows copy."""
    first = sides.first
    unread = next((s.flow for s in sides if s.flow.unread), None)
    if unread is not None:
        why = f"whether {unread.target} was promoted is unknown: {unread.unread}"
        return PairTopic(*sides.names, PairState.UNKNOWN, why=why)
    copying = [s for s in sides if s.copies] or [s for s in sides if s.name in (s.flow.lags or ())]
    judged = [_copying(s, rpo_seconds) for s in copying]
    state, why = min(judged, key=lambda x: _RANK[x[0]])
    direction = f"{first.flow.source}<->{first.flow.target}" if len(copying) > 1 else copying[0].flow.name
    lag = [s.flow.lags.get(s.name) for s in copying if s.flow.lags is not None]
    known = lag[0] if len(lag) == 1 and lag[0] is not None else None
    return PairTopic(
        *sides.names, state, direction, copying[0].flow.source if len(copying) == 1 else "", why,
        records=known.records if known else None, seconds=known.seconds if known else None,
        lacks_history=any(s.flow.lacks_history(s.name) for s in copying),
    )  # fmt: skip


def _on_record(sides: TopicSides, promoted: Way) -> PairTopic:
    """Judge a topic whose active side does not answer; the old primary has its promotion on record."""
    role, flow, back = promoted.role, promoted.flow, sides.other(promoted).flow
    reason = f"{flow.target} was promoted by run {role.run_id if role else ''}, and is unknown: {flow.unread}"
    if back.silent and back.configured and (back.copies or flow.recorded):
        words = ("drkit", "failover", "--flow", back.name, "--all", "--accept-data-loss", REASON)
        opens = typed(*words)
        reason = f"{reason}; where it is lost, this opens {flow.source}: {opens}"
    since = role.at_ms if role is not None else None
    return PairTopic(*sides.names, PairState.UNKNOWN, flow.name, flow.target, reason, since_ms=since)


def _promoted(sides: TopicSides, promoted: Way, rpo_seconds: float) -> PairTopic:
    role, back = promoted.role, sides.other(promoted)
    assert role is not None  # noqa: S101  the newest promotion is one
    state, why = _returning(promoted, back, role, rpo_seconds)
    topic = PairTopic(*sides.names, state, back.flow.name, sides.active, why, since_ms=role.at_ms)
    lag = back.flow.lags.get(back.name) if back.flow.lags is not None else None
    if lag is None:
        return topic
    return replace(
        topic, records=lag.records, seconds=lag.seconds, bytes=lag.bytes, partitions=len(lag.ages),
        in_step=lag.in_step(rpo_seconds), lacks_history=back.flow.lacks_history(back.name),
    )  # fmt: skip


def _returning(promoted: Way, back: Way, role: RoleRecord, rpo_seconds: float) -> tuple[PairState, str]:
    flow = back.flow
    if not flow.configured:
        return PairState.UNPROTECTED, f"no flow {flow.name} is configured"
    if flow.unread:
        return PairState.UNPROTECTED, flow.unread
    if back.answers(role):
        return _copying(back, rpo_seconds, is_return=not role.planned)
    if not role.planned:
        return PairState.DIVERGED, _undecided(promoted)
    return PairState.UNPROTECTED, _not_selected(back) or _not_begun(promoted, back, role)


def _not_begun(promoted: Way, back: Way, role: RoleRecord) -> str:
    """Return the command that begins the return of a topic, and what it waits for, if known.

    A missing lease of the opposite flow is no reason: it holds none while all it copied is promoted.
    """
    flow, old = back.flow, promoted.flow.source
    command = typed("drkit", "reprotect", "--flow", promoted.flow.name)
    if promoted.name in promoted.flow.by_size and not any(
        r.clients_cut for r in promoted.flow.promoted.values()
    ):
        return (
            "its return has not begun, and does not begin by itself: the fence by size would be lifted;"
            f' state how clients are kept away from {old}: {command} --clients-cut "HOW"'
        )
    if flow.running:
        left = flow.left_out.get(back.name)
        reason = f": {left.reason}" if left is not None and left.reason and left.at_ms >= role.at_ms else ""
        return f"{flow.name} leaves it out until {command}{reason}"
    copy = typed("drkit", "replicate", "--flow", flow.name)
    return f"its return has not begun: {command} begins it, or says what it waits for; {copy} copies it then"


def _undecided(promoted: Way) -> str:
    flow = promoted.flow
    old, command = flow.source, typed("drkit", "reprotect", "--flow", flow.name)
    if (emptied := flow.incomplete.get(promoted.name)) is not None:
        return (
            f"{old} was emptied by the return {emptied.run_id}, which was rolled back; the next one copies"
            f" everything to it, and asks about what only {old} had, if that is open: {command}"
        )
    for left in flow.unreplayed.get(promoted.name, ()):
        return (
            f"an export alone has what {old} has lost; {left.record.disposition} was decided in"
            f" {left.record.run_id}, not carried out, and the next return asks again: {command}"
        )
    return f"what becomes of the records that only {old} has is not decided: {command}"


def _copying(side: Way, rpo_seconds: float, *, is_return: bool = False) -> tuple[PairState, str]:
    """Return whether a flow that may copy a topic copies it and is in step, and the reason if not.

    :param is_return: its target had divergent records, and may be copied completely
    """
    flow = side.flow
    if why := _not_copying(side):
        return PairState.UNPROTECTED, why
    if flow.silent:
        return PairState.UNKNOWN, f"{flow.source} does not answer"
    if not side.copies:
        left = flow.left_out.get(side.name)
        reason = f": {left.reason}" if left is not None and left.reason else ""
        return PairState.UNPROTECTED, f"{flow.name} has no copy of it{reason}"
    lag = flow.lags.get(side.name) if flow.lags is not None else None
    if lag is not None:
        state, why = _in_step(flow, lag, rpo_seconds)
    else:  # this look asks only the other flow, or the source has no such topic any more
        gone = f"{flow.source} has no such topic any more; its copy stays on {flow.target}"
        state, why = PairState.PROTECTED, gone if flow.lags is not None else ""
    if is_return and lag is not None and lag.seconds is not None and state is PairState.UNPROTECTED:
        return PairState.RETURNING, f"{flow.target} is no failover target until all are"
    if state is PairState.PROTECTED and (side.name in flow.never_noted or side.name in flow.not_noted):
        why = f"what {flow.source} has of it is not noted on {flow.target} yet: a few seconds"
        return (PairState.RETURNING if is_return and lag is not None else PairState.UNPROTECTED), why
    if state is PairState.PROTECTED and flow.lacks_history(side.name):
        state, why = PairState.UNPROTECTED, f"{flow.target} has removed records that {flow.source} may keep"
    return state, why


def _not_copying(side: Way) -> str:
    flow = side.flow
    if why := _not_selected(side):
        return why
    if (where := flow.written.get(side.name)) is not None:
        return f"{flow.name} has stopped before a record of another producer on {flow.target}: {where}"
    return "" if flow.running else f"the replicator of {flow.name} does not run"


def _not_selected(side: Way) -> str:
    flow = side.flow
    return "" if flow.selects(side.name) else f"topics or topics_exclude of {flow.name} leave it out"


def _in_step(flow: DirectionFacts, lag: TopicLag, rpo_seconds: float) -> tuple[PairState, str]:
    if lag.records is None or lag.seconds is None:
        reason = f": {lag.reason}" if lag.reason else ""
        return PairState.UNPROTECTED, f"the lag of {flow.name} is unknown{reason}"
    if lag.seconds > rpo_seconds:
        return PairState.UNPROTECTED, f"{flow.name} is not in step: more than {rpo_seconds:g} s behind"
    if lag.absent:
        return PairState.UNPROTECTED, f"{flow.target} lacks {counted(lag.absent, 'partition')} of it"
    return PairState.PROTECTED, ""


_RANK: Final = {PairState.UNPROTECTED: 0, PairState.UNKNOWN: 1, PairState.PROTECTED: 2}
"""Order of the states of two flows that both copy: the worst first."""


def _under_way(sides: TopicSides, promoted: Way | None, topic: PairTopic) -> PairTopic:
    running = next(runs_of(sides), None)
    if running is None:
        return topic
    side, run = running
    # A return keeps the journal of the failover that it answers, on the side that is active now.
    is_back = run.table == RETURN.name or side.name in side.flow.returns
    is_back = is_back or (promoted is not None and side is not promoted)
    moving = sides.other(side) if run.table == RETURN.name else side
    state = PairState.FAILING_BACK if is_back else PairState.FAILING_OVER
    why = run.with_commands(side.flow.name)
    return replace(topic, state=state, direction=moving.flow.name, why=why, is_held=bool(run.held))
