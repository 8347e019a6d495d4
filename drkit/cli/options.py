"""Options with a heading, and the options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import click

from drkit.cli.loading import work

if TYPE_CHECKING:
    from pathlib import Path

_METAVARS: Final = {"--flow": "SOURCE->TARGET", "--group": "GROUP", "--topic": "TOPIC"}


class OptionGroup(StrEnum):
    """Headings of the options in a command's help, in their order."""

    MOVES = "What moves"
    SELECTION = "Selection"
    HOW = "How"
    ACCEPT = "Refusals to accept"
    RESUME = "Resume and roll back"
    OTHER = "Other actions"
    SPARK = "Spark"
    METRICS = "Metrics and live page"
    OUTPUT = "Output"


class Option(click.Option):
    """An option with the heading that it is listed under.

    :param group: the heading
    :param default_is: what applies without the option, if click does not know it
    """

    def __init__(
        self, declarations: tuple[str, ...], *, group: OptionGroup, default_is: str = "", **settings: Any
    ) -> None:
        text = settings.pop("help") + (" May be repeated." if settings.get("multiple") else "")
        settings.setdefault("metavar", _METAVARS.get(declarations[0]))
        settings.setdefault("show_default", bool(settings.get("default")))
        super().__init__(
            declarations, help=f"{text}  [default: {default_is}]" if default_is else text, **settings
        )
        self.group = group
        self.type.name = self.type.name.removesuffix(" range")  # else "1x" is no "valid float range"

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """Convert a value; an empty path is refused, because it would be the current folder."""
        if value == "" and isinstance(self.type, click.Path):
            self.type.fail("the path is empty", self, ctx)
        return super().type_cast_value(ctx, value)


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def option(*declarations: str, group: OptionGroup, **settings: Any) -> Decorator:
    """Add an option to a command, below a heading of its help."""
    return click.option(*declarations, cls=Option, group=group, **settings)


def flag(*declarations: str, group: OptionGroup, help: str) -> Decorator:  # noqa: A002  click's own word
    """Add an option without a value."""
    return option(*declarations, group=group, help=help, is_flag=True)


def text(*declarations: str, metavar: str, group: OptionGroup, help: str) -> Decorator:  # noqa: A002  click's own word
    """Add an option for any text, which is empty if it is not given."""
    return option(*declarations, group=group, help=help, metavar=metavar, default="")


def accept(declaration: str, text_of_help: str, metavar: str = "REASON") -> Decorator:
    """Add an option whose text is recorded: why a refusal is accepted, or how it is met."""
    return text(declaration, metavar=metavar, group=OptionGroup.ACCEPT, help=text_of_help)


def flow(default_is: str = "the only one", group: OptionGroup = OptionGroup.SELECTION) -> Decorator:
    """Add ``--flow``: one flow."""
    return option("--flow", group=group, default_is=default_is, help="The flow.")


def flows(*, name: str = "names") -> Decorator:
    """Add a ``--flow`` that may be repeated."""
    return option(
        "--flow", name, multiple=True, group=OptionGroup.SELECTION, default_is="all", help="A flow."
    )


def topics(text: str, default_is: str = "all", group: OptionGroup = OptionGroup.SELECTION) -> Decorator:
    """Add a ``--topic`` that may be repeated."""
    return option("--topic", "topics", multiple=True, group=group, default_is=default_is, help=text)


def together(options: Sequence[Decorator]) -> Decorator:
    """Return a decorator that adds several options, in this order."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for each in reversed(options):
            command = each(command)
        return command

    return add


def spark(default_is: str = "this machine") -> Decorator:
    """Add the options of commands that run Spark jobs.

    :param default_is: where they run without ``--master``
    """
    group = OptionGroup.SPARK
    options = (
        option("--master", group=group, metavar="URL", default_is=default_is, help="Spark master."),
        option("--conf", group=group, multiple=True, metavar="KEY=VALUE", help="A Spark property."),
        option(
            "--spark-properties",
            group=group,
            type=click.Path(dir_okay=False),
            callback=_to_path,
            help="File with Spark properties, such as secrets.",
        ),
    )
    return together(options)


def _to_path(_context: click.Context, _option: click.Parameter, value: str | None) -> Path | None:
    path: Path | None = work("pathlib").Path(value) if value else None  # late: drkit --help needs no pathlib
    return path


def dry_run(text: str = "Show what would be done; change nothing.") -> Decorator:
    """Add ``--dry-run``."""
    return flag("--dry-run", group=OptionGroup.HOW, help=text)


def yes(text: str = "Do not ask for confirmation.") -> Decorator:
    """Add ``--yes``."""
    return flag("--yes", group=OptionGroup.HOW, help=text)


def acls_only_home(text: str) -> Decorator:
    """Add ``--acls-only-home``."""
    choice = click.Choice(["remove", "keep"])
    return option("--acls-only-home", type=choice, default=None, group=OptionGroup.ACCEPT, help=text)


def metrics(page: str, port_is: str = "") -> Decorator:
    """Add the options of commands that serve metrics.

    :param port_is: the port without ``--metrics-port``
    """
    group, host, port = OptionGroup.METRICS, "host of [metrics], 127.0.0.1", click.IntRange(0, 65535)
    serve, listen = f"Serve /metrics, /healthz and {page}.", "Address to listen on."
    options = (
        option("--metrics-port", type=port, metavar="PORT", group=group, default_is=port_is, help=serve),
        option("--metrics-address", metavar="ADDRESS", group=group, default_is=host, help=listen),
    )
    return together(options)


def take_over() -> Decorator:
    """Add ``--take-over``."""
    text = "Do not wait for the lock: the process that held it is dead."
    return flag("--take-over", group=OptionGroup.RESUME, help=text)


def verbose() -> Decorator:
    """Add ``--verbose``."""
    return flag("--verbose", group=OptionGroup.OUTPUT, help="Report the notes and seconds of each step.")
