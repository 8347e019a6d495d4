"""``drkit``: finds the command, loads only that one, and handles every error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
import faulthandler
import os
import sys
from typing import Any, Final, NamedTuple, NoReturn

import click

from drkit import __version__
from drkit.cli.common import COMPLETE, equip
from drkit.cli.ending import end_with
from drkit.cli.help import DocumentedGroup
from drkit.cli.loading import INTERRUPTED, work
from drkit.cli.session import Session, common_options
from drkit.cli.streams import drop_stdout, prepare

_PIPE_CLOSED: Final = 141
"""Exit code by which a shell reports a program ended by SIGPIPE."""


class _Row(NamedTuple):
    module: str
    attribute: str
    help: str


# The sentences are here so that `drkit --help` loads no command, and so neither Spark nor Kafka.
_SECTIONS: Final = {
    "Every day": {
        "replicate": _Row(
            "drkit.cli.commands.replicate", "replicate", "Copy from source to target, exactly once."
        ),
        "status": _Row(
            "drkit.cli.commands.status",
            "status",
            "Show lag, current RPO, group readiness and faults of each flow.",
        ),
        "watch": _Row(
            "drkit.cli.commands.watch", "watch", "Detect a lost primary; propose or start a failover."
        ),
        "verify": _Row("drkit.cli.commands.verify", "verify", "Compare source and target, record by record."),
    },
    "Failover": {
        "failover": _Row(
            "drkit.cli.commands.failover",
            "failover",
            "Move topics and their consumer groups to the standby.",
        ),
        "fence": _Row("drkit.cli.commands.fence", "fence", "Show, apply or lift fences of the old primary."),
        "repoint": _Row(
            "drkit.cli.commands.repoint", "repoint", "Show or change the cluster that clients connect to."
        ),
        "translate": _Row(
            "drkit.cli.commands.translate",
            "translate",
            "Print a group's equivalent offset on the other cluster.",
        ),
    },
    "Back home": {
        "failback": _Row(
            "drkit.cli.commands.back.failback", "failback", "Move clients back to the original primary."
        ),
        "reprotect": _Row(
            "drkit.cli.commands.back.reprotect",
            "reprotect",
            "Turn the old primary into the new standby after a failover.",
        ),
        "divergence": _Row(
            "drkit.cli.commands.divergence",
            "diverged",
            "List records that exist only on the old primary.",
        ),
        "replay": _Row(
            "drkit.cli.commands.replay", "replay", "Append records from an export to the new primary."
        ),
    },
    "Rehearse": {
        "drill": _Row("drkit.cli.commands.drills.drill", "drill", "Rehearse a failover and keep a report."),
        "chaos": _Row(
            "drkit.cli.commands.chaos", "chaos", "Break a local pair of clusters and check drkit's promises."
        ),
    },
    "Set up": {
        "config": _Row("drkit.cli.commands.config", "config", "Show and validate the configuration."),
        "control": _Row(
            "drkit.cli.commands.control",
            "control",
            "Manage the key that authenticates drkit's internal records.",
        ),
        "fence-agent": _Row(
            "drkit.cli.commands.fence_agent",
            "fence_agent",
            "Run next to the primary; block writes when its lease expires.",
        ),
        "files": _Row(
            "drkit.cli.files", "files", "Write systemd units, manifests, alert rules, a dashboard."
        ),
        "completion": _Row("drkit.cli.commands.completion", "completion", "Print a shell completion script."),
    },
    "Learn": {
        "demo": _Row("drkit.cli.commands.demo", "demo", "Run a guided demo on two local clusters."),
        "local": _Row(
            "drkit.cli.commands.local", "local", "Start and stop a pair of local clusters to try drkit."
        ),
        "explain": _Row(
            "drkit.cli.commands.explain",
            "explain",
            "Explain a page, code, event, alert, setting or word.",
        ),
        "help": _Row("drkit.cli.commands.help", "help_on", "Show the help of drkit or of a command."),
    },
}
_COMMANDS: Final = {name: row for rows in _SECTIONS.values() for name, row in rows.items()}


class _Commands(DocumentedGroup):
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

    def sections(self, ctx: click.Context) -> Iterator[tuple[str, Mapping[str, str]]]:  # noqa: ARG002  likewise
        for heading, rows in _SECTIONS.items():
            yield heading, {name: row.help for name, row in rows.items()}


@click.command(
    cls=_Commands,
    params=common_options(),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    examples={
        "drkit status": "Check lag, RPO and faults",
        "drkit watch --once 5": "Is the primary lost?",
        "drkit failover --all --dry-run": "What would a failover do and lose?",
        "drkit failover --all": "Fail over",
        "drkit explain night": "How to decide at night",
    },
)
@click.version_option(__version__, prog_name="drkit")
def root() -> None:
    """Keep a standby Kafka cluster ready, and move clients to it and back.

    A planned switchover loses and repeats nothing. An unplanned failover reports its loss to the offset.
    """


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
        code = _invoke(list(arguments), asked)
        sys.stdout.flush()
    except (click.Abort, KeyboardInterrupt, EOFError) as error:
        if not isinstance(error, click.Abort):
            work("drkit.cli.talk").say()  # ends the line with the terminal's ^C
        return INTERRUPTED
    except BrokenPipeError:
        # The reader closed the pipe; the interpreter must not complain at its last flush.
        drop_stdout()
        return _PIPE_CLOSED
    except Exception as error:  # noqa: BLE001  the last line of defence: a user gets a sentence, no traceback
        return int(work("drkit.cli.error_answer").answer_error(error, asked))
    return code if isinstance(code, int) else 0


def _invoke(arguments: list[str], asked: Session) -> Any:
    """Parse and run a command, as click's own main does, but without its exit code for a closed pipe."""
    if instruction := os.environ.get(COMPLETE):
        completion = work("click.shell_completion")
        return completion.shell_complete(root, {}, "drkit", COMPLETE, instruction)
    try:
        with root.make_context("drkit", arguments, obj=asked) as context:
            return root.invoke(context)
    except click.exceptions.Exit as ended:
        return ended.exit_code
