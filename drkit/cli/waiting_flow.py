"""The flow that a command about a return is for, where none is named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from drkit.cli.session import session
from drkit.config import FlowSettings, Settings
from drkit.errors import ClusterUnreachable, ConfigError, DrkitError
from drkit.failover.core.reverse import state_of
from drkit.failover.returning.waiting import may_wait, pairs_of_flows
from drkit.flow_state.records import PendingFence, PendingLift

Looked = Callable[[Settings, FlowSettings, FlowSettings], bool]
"""Whether a flow, with the one in the other direction, is meant."""


def flow_that_waits(settings: Settings, name: str | None) -> FlowSettings:
    """The flow of that name; without one, the only one, or the only one that waits for a return.

    Commands that are printed from then on name it.

    :raises ConfigError: no flow has that name, or it is not clear which is meant
    :raises DrkitError: a cluster does not answer
    """
    chosen = only_flow(settings, name, may_wait, "no topic of them waits for a return", "wait for a return")
    if len(settings.flows) > 1:
        session().flow = chosen.name
    return chosen


def flow_that_owes(settings: Settings, name: str | None) -> FlowSettings:
    """The flow of that name; without one, the only one that owes a fence or its lift, or else waits.

    :raises ConfigError: no flow has that name, or it is not clear which is meant
    :raises DrkitError: a cluster does not answer
    """
    found = []
    for flow in settings.flows if name is None and len(settings.flows) > 1 else ():
        with suppress(DrkitError), state_of(settings, flow) as state:  # of one that is dead, or not ours
            owes = state is not None and (state.get(PendingFence) or state.get(PendingLift)) is not None
            found += [flow] if owes else []
    if len(found) > 1:
        raise _which(found, "owe a fence, or its lift")
    return flow_that_waits(settings, found[0].name if found else name)


def only_flow(settings: Settings, name: str | None, looked: Looked, none: str, several: str) -> FlowSettings:
    """The flow of that name; without one, the only one, or the only one that is meant.

    :param looked: whether a flow is meant
    :param none: what is said where none is
    :param several: what is said of several that are
    :raises ConfigError: no flow has that name, or it is not clear which is meant
    :raises DrkitError: a cluster does not answer
    """
    if name is not None or len(settings.flows) == 1:
        return settings.one_flow(name)
    found, silent = [], None
    for there, back in pairs_of_flows(settings):
        try:
            found += [there] if looked(settings, there, back) else []
        except ClusterUnreachable as error:
            silent = error  # of one direction: the other one may be meant
    if len(found) == 1:
        return found[0]
    if silent is not None:
        raise silent
    if not found:
        return settings.one_flow(None, f"{none}, which one do you mean?")
    raise _which(found, several)


def _which(found: Sequence[FlowSettings], several: str) -> ConfigError:
    return ConfigError(
        f"{len(found)} flows {several}: which one?",
        where="--flow",
        hint=", ".join(f"--flow '{f.name}'" for f in found),
    )
