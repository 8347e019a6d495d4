"""The flow that a command about a return is for, where none is named."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from drkit.cli.session import session
from drkit.config import FlowSettings, Settings
from drkit.errors import ClusterUnreachable, DrkitError, Usage
from drkit.failover.core.reverse import records_of
from drkit.failover.returning.scope import may_wait, pairs_of_flows
from drkit.flow_state.records import PendingFence, PendingLift
from drkit.pair.promotions import promoted_of

Looked = Callable[[Settings, FlowSettings, FlowSettings], bool]
"""Whether a flow, with the one in the other direction, is meant."""


def flow_that_waits(settings: Settings, name: str | None) -> FlowSettings:
    """The flow of that name; without one, the only one, or the only one that waits for a return.

    Commands that are printed from then on name it.

    :raises Usage: no flow has that name, or it is not clear which is meant
    :raises DrkitError: a cluster does not answer
    """
    chosen = only_flow(settings, name, may_wait, "no topic of them waits for a return", "wait for a return")
    if len(settings.flows) > 1:
        session().flow = chosen.name
    return chosen


def flow_that_owes(settings: Settings, name: str | None) -> FlowSettings:
    """The flow of that name; without one, the only one that owes a fence or its lift, or else waits.

    :raises Usage: no flow has that name, or it is not clear which is meant
    :raises DrkitError: a cluster does not answer
    """
    found = owing_flow(settings, name)
    return found or settings.one_flow(None, "none of them has a pending fence or waits for a return")


def owing_flow(settings: Settings, name: str | None) -> FlowSettings | None:
    """As :func:`flow_that_owes`; None: no flow owes a fence, waits, or has moved without a flow back.

    :raises Usage: no flow has that name, or several may be meant
    :raises DrkitError: a cluster does not answer: what is pending there is unknown
    """
    if name is not None or len(settings.flows) == 1:
        return settings.one_flow(name)
    owing, moved, unread = _owing(settings)
    if len(owing) > 1:
        raise _which(owing, "owe a fence, or its lift")
    found = owing or _meant(settings, may_wait, "wait for a return")
    if not found:
        paired = [there for there, _ in pairs_of_flows(settings)]
        found = [flow for flow in moved if flow not in paired]  # no return ends this
    if len(found) > 1:
        raise _which(found, "have promoted topics, and no flow back")
    if not found and unread is not None:
        raise unread
    if found:
        session().flow = found[0].name
    return found[0] if found else None


def _owing(settings: Settings) -> tuple[list[FlowSettings], list[FlowSettings], DrkitError | None]:
    """The flows that owe a fence or its lift, those with promoted topics, and why one could not be read."""
    owing, moved, unread = list[FlowSettings](), list[FlowSettings](), None
    for flow in settings.flows:
        try:
            state = records_of(settings, flow)
            owes = (state.get(PendingFence) or state.get(PendingLift)) is not None
            owing += [flow] if owes else []
            moved += [flow] if promoted_of(state) else []
        except DrkitError as error:  # of one that is dead, or not ours: another one may be meant
            unread = unread or error
    return owing, moved, unread


def only_flow(settings: Settings, name: str | None, looked: Looked, none: str, several: str) -> FlowSettings:
    """The flow of that name; without one, the only one, or the only one that is meant.

    :param looked: whether a flow is meant
    :param none: what is said where none is
    :param several: what is said of several that are
    :raises Usage: no flow has that name, or it is not clear which is meant
    :raises DrkitError: a cluster does not answer
    """
    if name is not None or len(settings.flows) == 1:
        return settings.one_flow(name)
    found = _meant(settings, looked, several)
    return found[0] if found else settings.one_flow(None, none)


def _meant(settings: Settings, looked: Looked, several: str) -> list[FlowSettings]:
    """Return the only flow that `looked` accepts, or none if each cluster has answered; Usage for several."""
    found, silent = [], None
    for there, back in pairs_of_flows(settings):
        try:
            found += [there] if looked(settings, there, back) else []
        except ClusterUnreachable as error:
            silent = error  # of one direction: the other one may be meant
    if len(found) > 1:
        raise _which(found, several)
    if not found and silent is not None:
        raise silent
    return found


def _which(found: Sequence[FlowSettings], several: str) -> Usage:
    hint = ", ".join(f"--flow '{f.name}'" for f in found)
    return Usage("several_flows_match", where="--flow", hint=hint, count=len(found), several=several)
