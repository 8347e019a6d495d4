"""``drkit help``: the same as ``--help``."""

from __future__ import annotations

import click

from drkit.cli.talk import show


@click.command("help")
@click.argument("words", metavar="[COMMAND]...", nargs=-1)
@click.pass_context
def help_on(context: click.Context, words: tuple[str, ...]) -> None:
    """Show the help of drkit, or of the command that is named, as in: drkit help fence lift."""
    outer = context.find_root()
    for word in words:
        if not isinstance(outer.command, click.Group):
            break
        name, found, _ = outer.command.resolve_command(outer, [word])
        if found is not None:
            outer = click.Context(found, info_name=name, parent=outer)
    show(outer.get_help())
