"""The reference of all commands, made from the commands themselves.

``python -m tests.commands`` writes ``docs/reference/commands.md`` below the current folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
import re
import sys
from typing import Final

import click

from drkit.cli.help import Documented
from drkit.cli.main import root
from drkit.cli.options import Option, OptionGroup

PAGE: Final = "docs/reference/commands.md"
_HEADER: Final = """\
# Commands

<!-- Generated: `python -m tests.commands`. A test keeps this page equal to the commands' own help. -->

`drkit help failover` and `drkit failover --help` print the same. [Exit codes](exit-codes.md).
Each command takes the [common options](#drkit), before or after its name.
"""


def commands(command: Documented = root, path: str = "drkit") -> Iterator[tuple[str, Documented]]:
    """Every command with the words that call it, in the order of the help."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert isinstance(found, Documented)
            yield from commands(found, f"{path} {name}")


def page() -> str:
    """The whole page."""
    return "\n".join([_HEADER, *(_section(path, command) for path, command in commands())])


def _section(path: str, command: Documented) -> str:
    context = click.Context(command, info_name=path)
    lines = [f"## `{path}`", ""]
    lines += [_prose(command.help or command.short_help or ""), ""]
    lines += ["```text", " ".join(["usage:", path, *command.collect_usage_pieces(context)]), "```", ""]
    if isinstance(command, click.Group):
        lines += _table(("command", "does"), _subcommands(path, command, context))
    own = [p for p in command.params if isinstance(p, Option)]
    for group in OptionGroup:
        lines += _options(group, [p for p in own if p.group is group], context)
    if command is root:
        lines += _options("Common options", command.params, context)
    lines += ["```sh", *(f"# {remark}\n{line}" for line, remark in command.examples.items()), "```", ""]
    return "\n".join(lines)


def _options(heading: str, options: Iterable[click.Parameter], context: click.Context) -> list[str]:
    records = [r for p in options if (r := p.get_help_record(context)) is not None]
    return _table((heading, "meaning"), [(f"`{r[0]}`", r[1]) for r in records]) if records else []


def _subcommands(path: str, group: click.Group, context: click.Context) -> Iterator[tuple[str, str]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        anchor = f"{path} {name}".replace(" ", "-")
        yield f"[`{name}`](#{anchor})", command.get_short_help_str(200)


def _prose(text: str) -> str:
    """A help text as paragraphs of one line each."""
    return "\n\n".join(" ".join(part.split()) for part in re.split(r"\n\s*\n", text.strip()))


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = [head, ("---",) * len(head), *rows]
    return [
        *("| " + " | ".join(" ".join(c.replace("|", "\\|").split()) for c in x) + " |" for x in lines),
        "",
    ]


def main(file: Path) -> None:
    """Write the page."""
    file.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{file}\n")


if __name__ == "__main__":
    main(Path(PAGE))
