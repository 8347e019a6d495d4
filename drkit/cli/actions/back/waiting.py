"""The flow that a command about a return is for, where none is named."""

from __future__ import annotations

from drkit.cli.actions.back.reprotect import chosen_flow
from drkit.cli.session import session
from drkit.config import FlowSettings, Settings


def flow_that_waits(settings: Settings, name: str | None) -> FlowSettings:
    """The flow of that name; without one, the only one, or the only one that waits for a return.

    Commands that are printed from then on name it.

    :raises ConfigError: no flow has that name, or it is not clear which is meant
    :raises DrkitError: a cluster does not answer
    """
    chosen = chosen_flow(settings, name, is_under_way=False)
    if len(settings.flows) > 1:
        session().flow = chosen.name
    return chosen
