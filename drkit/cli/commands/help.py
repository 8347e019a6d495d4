"""``drkit help``: the same as ``--help``."""

from __future__ import annotations

import click

from drkit.cli.help import command
from drkit.cli.talk import show


@command(
    "help",
    examples={
        "drkit help": "List all commands and the common options",
        "drkit help failover": "The same as drkit failover --help",
        "drkit help fence lift": "The same as drkit fence lift --help",
    },
)
@click.argument("words", metavar="[COMMAND]...", nargs=-1)
@click.pass_context
def help_on(context: click.Context, words: tuple[str, ...]) -> None:
    """Show the help of drkit or of a command."""
    outer = context.find_root()
    for word in words:
        if not isinstance(outer.command, click.Group):
            break
        name, found, _ = outer.command.resolve_command(outer, [word])
        if found is not None:
            outer = click.Context(found, info_name=name, parent=outer)
    show(outer.get_help())
