"""The common options of every command, and the setup of logging before it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, Final

import click

from drkit.cli.loading import work
from drkit.cli.session import common_options, session

COMPLETE: Final = "_DRKIT_COMPLETE"
"""Variable with which a shell's completion script asks for words."""


def equip(command: click.Command) -> None:
    """Add the common options to a command, or to all commands of a group."""
    taken = {name for p in command.params for name in (p.name, *p.opts)}
    command.params += [o for o in common_options() if not taken & {o.name, *o.opts}]
    runs = True
    if isinstance(command, click.Group):
        runs = command.invoke_without_command
        for child in command.commands.values():
            equip(child)
    if runs and command.callback:
        command.callback = _observed(command.callback)


def _observed(run: Callable[..., Any]) -> Callable[..., Any]:
    if getattr(run, "is_observed", False):
        return run

    @wraps(run)
    def observed(*args: Any, **kwargs: Any) -> Any:
        session().flow = _flow(kwargs)
        context = click.get_current_context(silent=True)
        if context is None or context.invoked_subcommand is None:
            work("drkit.observe").setup(session().log_format, session().log_level)
        return run(*args, **kwargs)

    observed.is_observed = True  # type: ignore[attr-defined]  # a mark, so that once is enough
    return observed


def _flow(options: Mapping[str, Any]) -> str:
    names: Sequence[str] = options.get("names") or ()
    return str(options.get("flow") or (names[0] if len(names) == 1 else ""))
