"""The help of a command: options below headings, then examples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import click

from drkit.cli.loading import work
from drkit.cli.options import Option, OptionGroup

_COMMON: Final = "Common options (--config, --set, --json, --log-level, …): drkit --help"


class Documented(click.Command):
    """A command with examples.

    :param examples: command lines, each with a remark
    """

    def __init__(self, *args: Any, examples: Mapping[str, str], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.examples = examples

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse options; an error names this command, and the option that was meant."""
        typed = tuple(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            # click reads -all as -a -l -l.
            meant = next((f"-{word}" for word in typed if word.startswith(error.option_name)), "")
            if any(meant in parameter.opts for parameter in self.params):
                raise click.NoSuchOption(meant[1:], possibilities=[meant], ctx=ctx) from None
            raise
        except click.UsageError as error:
            # click's parser does not know the command whose option has no value.
            error.ctx = error.ctx or ctx
            raise

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands of a group, then the options below their headings."""
        if isinstance(self, DocumentedGroup):
            _write_commands(dict(self.sections(ctx)), formatter)
        shown = [p for p in self.get_params(ctx) if isinstance(p, Option)]
        for group in OptionGroup:
            records = [p.get_help_record(ctx) for p in shown if p.group is group]
            if listed := [record for record in records if record is not None]:
                with formatter.section(group.value):
                    formatter.write_dl(listed)
        if ctx.parent is None:
            common = [p.get_help_record(ctx) for p in self.get_params(ctx)]
            with formatter.section("Common options"):
                formatter.write_dl([record for record in common if record is not None])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, and where the common options are."""
        with formatter.section("Examples"):
            for line in _example_lines(self.examples, formatter.width - formatter.current_indent):
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")
        if ctx.parent is not None:
            formatter.write(f"\n{_COMMON}\n")


class DocumentedGroup(Documented, click.Group):
    """A command with commands of its own."""

    command_class = Documented

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        """List the commands in the order of their declarations."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command by its name; suggest another one if there is none."""
        name = args[0]
        if self.get_command(ctx, name) is None and name[:1].isalnum() and not ctx.resilient_parsing:
            near = work("drkit.config.tables.fields").closest(name, self.list_commands(ctx))
            hint = f"did you mean '{near}'?" if near else f"{ctx.command_path} --help"
            raise work("drkit.errors").Usage("command_unknown", where=ctx.command_path, hint=hint, name=name)
        return super().resolve_command(ctx, args)

    def sections(self, ctx: click.Context) -> Iterator[tuple[str, Mapping[str, str]]]:
        """Yield headings, each with its commands and a sentence about each of them."""
        found = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        yield "Commands", {name: each.get_short_help_str(200) for name, each in found.items() if each}


def command(
    name: str | None = None, *, examples: Mapping[str, str]
) -> Callable[[Callable[..., Any]], Documented]:
    """Make a command of a function.

    :param examples: command lines, each with a remark
    """
    return click.command(name, cls=Documented, examples=examples)


def group(
    name: str | None = None, *, examples: Mapping[str, str], **settings: Any
) -> Callable[[Callable[..., Any]], DocumentedGroup]:
    """Make a group of commands of a function.

    :param examples: command lines, each with a remark
    """
    return click.group(name, cls=DocumentedGroup, examples=examples, **settings)


def _write_commands(sections: Mapping[str, Mapping[str, str]], formatter: click.HelpFormatter) -> None:
    widest = max(len(name) for commands in sections.values() for name in commands)
    for heading, commands in sections.items():
        with formatter.section(heading):
            formatter.write_dl([(f"{name:{widest}}", text) for name, text in commands.items()])


def _example_lines(examples: Mapping[str, str], width: int) -> Iterator[str]:
    """Yield remarks beside the command lines if all of them fit, else above."""
    widest = max(map(len, examples))
    if all(widest + len(f"  # {remark}") <= width for remark in examples.values()):
        yield from (f"{line:{widest}}  # {remark}" for line, remark in examples.items())
        return
    for line, remark in examples.items():
        yield f"# {remark}"
        yield line
