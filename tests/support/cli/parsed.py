"""Parse a command line as drkit does, without running it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from drkit.cli.main import root
from drkit.cli.session import Session


def parsed(words: Sequence[str]) -> tuple[Session, dict[str, Any]]:
    """Return the common options and the options of a command line, its ``drkit`` left out.

    Raises click.UsageError.
    """
    said, given = Session(), dict[str, Any]()
    command: click.Command = root
    rest, outer = list(words), None
    while True:
        context = command.make_context(command.name or "drkit", rest, parent=outer, obj=said)
        given |= context.params
        if not isinstance(command, click.Group) or not context._protected_args + context.args:
            return said, given
        name, command_, rest = command.resolve_command(context, context._protected_args + context.args)
        assert name is not None
        assert command_ is not None
        command, outer = command_, context
