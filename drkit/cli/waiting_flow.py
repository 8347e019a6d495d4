"""The flow that a command about a return is for, where none is named."""

from __future__ import annotations

from collections.abc import Callable

from drkit.cli.session import session
from drkit.config import FlowSettings, Settings
from drkit.errors import ClusterUnreachable, ConfigError
from drkit.failover.returning.waiting import may_wait, pairs_of_flows

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
    raise ConfigError(
        f"{len(found)} flows {several}: which one?",
        where="--flow",
        hint=", ".join(f"--flow '{f.name}'" for f in found),
    )
