"""What is wrong with a topic of a pair: both open or closed, one incomplete, a replay not done. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from drkit.counted import counted
from drkit.flow_state.unreplayed import Unreplayed
from drkit.next_command import typed
from drkit.status.pair.facts import FENCED_HERE, FenceSeen
from drkit.status.pair.journal import RETURN, RunUnderWay
from drkit.status.pair.model import PairAlarm
from drkit.status.pair.sides import OneWay, TopicSides, runs_of

_KEEPS_FENCE: Final = frozenset({"COMPARE", "EXPORT", "DECIDE", "DEMOTE"})
"""Steps of a return after its fence, and before the fence becomes a guard or is lifted for the copy."""
_LIFTS_FENCE: Final = frozenset({"BEGIN", "REPLAY", "DONE"})
"""Steps in which the fence goes off its record; how clients are kept off then is said."""
_PENDING: Final = "debt"
"""How the step FENCE of a failover ended that could not fence."""


def alarms_of(sides: TopicSides, promoted: OneWay | None) -> Iterator[tuple[PairAlarm, str]]:
    """Yield what is wrong with a topic now, the worst first, and why."""
    if promoted is not None and (why := _still_open(sides, promoted)):
        yield PairAlarm.BOTH_OPEN, why
    if promoted is not None and (why := _incomplete(sides, promoted)):
        yield PairAlarm.INCOMPLETE, why
    if why := _both_closed(sides, promoted):
        yield PairAlarm.BOTH_CLOSED, why
    for side in sorted(sides, key=lambda s: s.flow.source):
        for each in side.flow.unreplayed.get(side.name, ()):
            yield PairAlarm.UNREPLAYED, _not_replayed(side, each)


def _not_replayed(side: OneWay, each: Unreplayed) -> str:
    """What only an export has, and what to type."""
    return (
        f"{each.in_words}, not carried out, and {side.flow.target} lacks them: {each.command}; or give them"
        f" up by name: {each.to_give_up}"
    )


def _both_closed(sides: TopicSides, promoted: OneWay | None) -> str:
    """Which fence keeps clients off while no other side takes writes; empty: none does, or it is unknown."""
    closing = sides.other(promoted) if promoted is not None else _home(sides)
    if closing is None or closing.fence is not FenceSeen.STANDS or next(runs_of(sides), None) is not None:
        return ""
    passive = sides.other(closing).flow.source
    if any(s.flow.unread or s.flow.runs_unknown for s in sides):
        return ""  # the other side may have been promoted, or a run may be under way
    return f"the fence of {closing.flow.name} stands on {closing.flow.source}, and {passive} is not promoted"


def _home(sides: TopicSides) -> OneWay | None:
    """The direction whose source clients write to before any promotion; None: both, or neither."""
    copying = [s for s in sides if s.copies]
    fenced = [s for s in sides if s.fence is FenceSeen.STANDS]
    if len(copying) == 1:
        return copying[0]
    return min(fenced, key=lambda s: s.flow.source) if len(fenced) == len(sides) else None


def _incomplete(sides: TopicSides, promoted: OneWay) -> str:
    """Which return has emptied the old primary and was rolled back; empty: none, or it began since."""
    role, found = promoted.role, promoted.flow.incomplete.get(promoted.name)
    if found is None or role is None or sides.other(promoted).answers(role):
        return ""
    partitions = counted(len(found.emptied), "partition")
    again = typed("drkit", "reprotect", "--flow", promoted.flow.name)
    return (
        f"{promoted.flow.source} was emptied in {partitions} by the return {found.run_id}, which was rolled"
        f" back; only {promoted.flow.target} has the records: {again}"
    )


def _still_open(sides: TopicSides, promoted: OneWay) -> str:
    """Why clients may write on the old primary; empty: nothing says so."""
    role, back, flow = promoted.role, sides.other(promoted), promoted.flow
    assert role is not None  # noqa: S101  the newest promotion is one
    run = next((run for _, run in runs_of(sides) if run.table == RETURN), None)
    then = "" if run is None else _after(promoted, run)
    if promoted.fence is FenceSeen.PENDING and not flow.silent:
        return f"{flow.source} answers, and is not fenced since the failover{then}"
    if back.answers(role) or (run is not None and not _has_lost_it(promoted, run)):
        return ""  # it is the passive side of a copy again, or its return fences it, or lifts its fence
    if promoted.fence is FenceSeen.GONE:
        return f"{flow.source} does not have the fence that is on record{then}"
    how = flow.fenced_by.get(role.run_id, "")
    if promoted.fence is FenceSeen.NONE and not flow.silent and not flow.unread and how in FENCED_HERE:
        which = "the fence that its failover left pending" if how == _PENDING else f"its fence ({how})"
        return f"{flow.source} answers, and {which} is not on record any more{then}"
    return ""


def _has_lost_it(promoted: OneWay, run: RunUnderWay) -> bool:
    """Whether a fence that is missing during a return is not missing because of what the return does."""
    if promoted.fence is FenceSeen.GONE:
        return bool(run.held) or run.step in _KEEPS_FENCE
    return bool(run.held) and run.step not in _LIFTS_FENCE


def _after(promoted: OneWay, run: RunUnderWay) -> str:
    """What fences the old primary again while its return is held; empty: the return is at work."""
    if not run.held:
        return ""
    command = typed("drkit", "reprotect", "--flow", promoted.flow.name)
    where = f"; the return {run.run_id} is held at {run.step or 'LOCK'}"
    role = promoted.role
    if run.aborting or (role is not None and role.planned):  # a return puts up no fence of a switchover
        pay = typed("drkit", "fence", "pay", "--flow", promoted.flow.name)
        return f"{where}: {command} --abort, then: {pay}"
    return f"{where}: {command} --resume fences it again"
