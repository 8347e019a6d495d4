"""``drkit``: finds the command, loads only that one, and handles every error."""

from __future__ import annotations

from collections.abc import Sequence
import faulthandler
import sys
import tempfile
import traceback
from typing import Final, NamedTuple, NoReturn

import click

from drkit import __version__
from drkit.cli.common import equip
from drkit.cli.ending import end_with
from drkit.cli.loading import INTERRUPTED, work
from drkit.cli.session import Session, common_options
from drkit.cli.streams import drop_stdout, is_of_the_system, prepare, refused_by_the_system
from drkit.cli.talk import say, show
from drkit.errors import DrkitError, Failed, Usage
from drkit.masking import scrubbed
from drkit.next_command import completed

_PIPE_CLOSED: Final = 141
"""Exit code by which a shell reports a program ended by SIGPIPE."""


class _Row(NamedTuple):
    module: str
    attribute: str
    help: str


# The help texts are here so that `drkit --help` loads no command, and so neither Spark nor Kafka.
_COMMANDS: Final = {
    "demo": _Row("drkit.cli.commands.demo", "demo", "The whole story on two local clusters."),
    "local": _Row(
        "drkit.cli.commands.local", "local", "A primary/standby pair of local clusters to play with."
    ),
    "config": _Row("drkit.cli.commands.config", "config", "What is set and from where; whether it can work."),
    "replicate": _Row(
        "drkit.cli.commands.replicate", "replicate", "Copy from source to target, exactly once."
    ),
    "status": _Row(
        "drkit.cli.commands.status", "status", "Roles, lag, what a failover now would lose, what is wrong."
    ),
    "failover": _Row(
        "drkit.cli.commands.failover",
        "failover",
        "Move topics and their groups to the standby, or roll it back.",
    ),
    "reprotect": _Row(
        "drkit.cli.commands.back.reprotect",
        "reprotect",
        "Make the old primary the standby of the new one, after a failover.",
    ),
    "failback": _Row(
        "drkit.cli.commands.back.failback",
        "failback",
        "Bring clients home to the cluster that they were failed over from.",
    ),
    "fence": _Row(
        "drkit.cli.commands.fence",
        "fence",
        "How the old primary is fenced; apply a pending fence, or lift it.",
    ),
    "divergence": _Row(
        "drkit.cli.commands.divergence",
        "diverged",
        "What the old primary has and the new one has not, after a failover.",
    ),
    "replay": _Row(
        "drkit.cli.commands.replay",
        "replay",
        "Append what only the old primary had to the new one, from an export.",
    ),
    "repoint": _Row("drkit.cli.commands.repoint", "repoint", "The cluster that clients are pointed to."),
    "translate": _Row(
        "drkit.cli.commands.translate", "translate", "A group's exact position on the other cluster."
    ),
    "verify": _Row("drkit.cli.commands.verify", "verify", "Compare source and target, record by record."),
    "watch": _Row(
        "drkit.cli.commands.watch", "watch", "Is the primary lost? Says what to run, or in mode auto runs it."
    ),
    "control": _Row(
        "drkit.cli.commands.control", "control", "The control key: whose records count in drkit's topics."
    ),
    "fence-agent": _Row(
        "drkit.cli.commands.fence_agent",
        "fence_agent",
        "Beside the primary: stops writes when its lease is lost.",
    ),
    "chaos": _Row(
        "drkit.cli.commands.chaos", "chaos", "Break a local pair on purpose, and judge what drkit did."
    ),
    "drill": _Row(
        "drkit.cli.commands.drills.drill", "drill", "Rehearse a failover; reports that can be judged again."
    ),
    "explain": _Row("drkit.cli.commands.explain", "explain", "What a refusal, a hold or an event means."),
    "completion": _Row(
        "drkit.cli.commands.completion", "completion", "What makes bash, zsh or fish complete drkit's words."
    ),
    "help": _Row("drkit.cli.commands.help", "help_on", "The help of drkit, or of one of its commands."),
}


class _Commands(click.Group):
    """A group that loads a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  likewise
        row = _COMMANDS.get(cmd_name)
        if row is None:
            return None
        command: click.Command = getattr(work(row.module), row.attribute)
        equip(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  likewise
        with formatter.section("Commands"):
            formatter.write_dl([(name, row.help) for name, row in _COMMANDS.items()])


@click.command(
    cls=_Commands,
    params=common_options(),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, prog_name="drkit")
def root() -> None:
    """Keep a standby Kafka cluster ready and move consumers to it; no record is lost or repeated."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command and exit with its code: 0 done, 1 failed, 2 usage or configuration, 3 refused."""
    # When a C library ends the process, nothing else would show why.
    prepare()
    faulthandler.enable()
    end_with(lambda: run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run a command; every error becomes a message and an exit code, never a traceback."""
    # Known before parsing: a usage error is an answer in JSON too.
    asked = Session(as_json="--json" in arguments, typed=tuple(arguments))
    try:
        code = root.main(list(arguments), prog_name="drkit", obj=asked, standalone_mode=False)
        sys.stdout.flush()
    except DrkitError as error:
        error.hint = completed(error.hint, asked.given)
        return _failed(error, as_json=asked.as_json)
    except click.ClickException as error:
        return _answer_usage(error, as_json=asked.as_json)
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        # The reader closed the pipe; the interpreter must not complain at its last flush.
        drop_stdout()
        return _PIPE_CLOSED
    except Exception as error:  # noqa: BLE001  the last line of defence: a user gets a sentence, no traceback
        return _failed(_unexpected(error, asked), as_json=asked.as_json)
    return code if isinstance(code, int) else 0


def _failed(error: DrkitError, *, as_json: bool) -> int:
    _emit_error(error, as_json=as_json)
    return error.exit_code


def _emit_error(error: DrkitError, *, as_json: bool) -> None:
    work("drkit.cli.render").emit_error(error, as_json=as_json)


def _answer_usage(error: click.ClickException, *, as_json: bool) -> int:
    """Show the help for a command without arguments, else the usage error; returns the exit code."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        show(error.format_message())
        return 0
    _emit_error(_usage(error), as_json=as_json)
    return Usage.exit_code


def _usage(error: click.ClickException) -> Usage:
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "drkit"
    return Usage("usage_wrong", where=path, problem=error.format_message().rstrip("."), path=path)


def _unexpected(error: Exception, asked: Session) -> DrkitError:
    if isinstance(error, OSError) and is_of_the_system(error):
        if not error.filename:
            drop_stdout()
        return refused_by_the_system(error)
    if type(error).__module__ == "kafka.errors":
        return Failed(
            "cluster_stopped_answering",
            evidence=f"{type(error).__name__}: {error}",
            hint="drkit config check --connect says which; then the same again",
        )
    text = scrubbed("".join(traceback.format_exception(error)))
    if asked.log_level == "debug":
        say(text)
        hint = "the traceback is above"
    else:
        with tempfile.NamedTemporaryFile(
            "w", prefix="drkit-", suffix=".log", encoding="utf-8", delete=False
        ) as log:
            log.write(text)
        hint = f"the traceback is in {log.name}"
    return Failed(
        "unexpected_error", hint=f"{hint}; please report it", kind=type(error).__name__, error=error
    )
