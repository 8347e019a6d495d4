"""The common options, given before or after the command's name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import click

from drkit.cli.loading import work

if TYPE_CHECKING:
    from drkit.next_command import Given


@dataclass
class Session:
    """The common options of one run."""

    config: str = ""
    overrides: tuple[str, ...] = ()
    as_json: bool = False
    log_format: Literal["console", "json"] = "console"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    typed: tuple[str, ...] = ()
    """All words after ``drkit``."""
    flow: str = ""
    """The value of the command's ``--flow``."""

    @property
    def given(self) -> Given:
        """Options for printed commands; the value of a secret is not printed."""
        masking = work("drkit.masking")  # loaded here: a help needs neither module

        def unseen(word: str) -> str:
            """A ``KEY=VALUE``, in one word with ``--set`` or not, without the value of a secret."""
            start, key, rest = word.rpartition("--set=") if word.startswith("--set=") else ("", "", word)
            name, equals, _ = rest.partition("=")
            return f"{start}{key}{name}={masking.MASK}" if equals and masking.is_secret(name) else word

        given: Given = work("drkit.next_command").Given(
            tuple(map(unseen, self.typed)), self.config, tuple(map(unseen, self.overrides)), self.flow
        )
        return given


def session() -> Session:
    """The session of the running command."""
    context = click.get_current_context(silent=True)
    found = context.find_root().obj if context else None
    return found if isinstance(found, Session) else Session()


def common_options() -> list[click.Parameter]:
    """New instances of the common options; their values land in the :class:`Session`."""
    formats, levels = click.Choice(["console", "json"]), click.Choice(["debug", "info", "warning", "error"])
    return [
        _option(
            "--config",
            type=click.Path(readable=False),
            metavar="FILE",
            help="Configuration file.  [default: $DRKIT_CONFIG, else ./drkit.toml]",
        ),
        _option(
            "--set",
            "overrides",
            multiple=True,
            metavar="KEY=VALUE",
            help="Override one setting, e.g. 'flows.primary->standby.tasks=4'. May be repeated.",
        ),
        _option("--json", "as_json", is_flag=True, help="Print JSON."),
        _option("--log-format", type=formats, help="Log format on stderr.  [default: console]"),
        _option(
            "--log-level",
            type=levels,
            metavar="LEVEL",
            help="Minimum log level: debug, info, warning or error.  [default: info]",
        ),
    ]


def _option(*names: str, **settings: Any) -> click.Option:
    return click.Option(names, expose_value=False, callback=_keep, **settings)


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    # Not given here (None, or a flag that is off): the value given before the command's name applies.
    if value:
        known = context.find_root().ensure_object(Session)
        if parameter.multiple:
            value = (*getattr(known, str(parameter.name)), *value)
        setattr(known, str(parameter.name), value)


def to_type(text: str) -> str:
    """The text, with every command in it complete, ready to type."""
    return str(work("drkit.next_command").with_given_options(text, session().given))
