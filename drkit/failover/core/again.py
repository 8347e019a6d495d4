"""The command that goes on after a refusal: it depends on whether a run is under way. Pure."""

from __future__ import annotations

from drkit.failover.core.context import Context
from drkit.failover.core.machine import RETURN


def again(context: Context, more: str = "") -> str:
    """The command of a return after a refusal: it continues the run, or begins one where none is under way.

    :param more: options that it needs besides
    """
    begins = f"{RETURN.command} --flow '{context.flow.name}'"
    command = f"{RETURN.command} --resume" if context.run_id else begins
    return f"{command} {more}" if more else command
