"""``drkit``: finds the command, loads only that one, and handles every error."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
import faulthandler
import io
import os
import sys
from typing import Any, Final, NoReturn

import click

from drkit import __version__
from drkit.cli.common import COMPLETE, equip
from drkit.cli.help import DocumentedGroup
from drkit.cli.loading import INTERRUPTED, work
from drkit.cli.session import Session, common_options


def end_with(work: Callable[[], int]) -> NoReturn:
    """Run a command, and end the process with its exit code.

    Python ends as always: threads that are no daemons are waited for, and what is registered with
    :mod:`atexit` runs. Then the process ends at once, without the exit handlers of C libraries. librdkafka's
    threads, and Python's daemon threads, are still at work. OpenSSL's handler frees what a thread of
    librdkafka uses to authenticate, and three of a hundred refused logins ended by SIGSEGV or SIGABRT.
    """
    code = 1

    def end() -> None:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)

    atexit.register(end)  # the first that is registered is the last that is called
    try:
        code = work()
    except SystemExit as asked:
        code = asked.code if isinstance(asked.code, int) else int(asked.code is not None)
    sys.exit(code)


class _Terminal(io.FileIO):
    """A terminal that may go away while a failover is past OPEN: what is written then is dropped."""

    def write(self, data: Any) -> int:
        with suppress(OSError):
            return super().write(data)
        return len(data)


def prepare() -> None:
    """Make closed streams drop all output, and escape characters that an encoding lacks."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115  to the end
        elif isinstance(stream, io.TextIOWrapper):
            if name == "stderr" and stream.isatty():
                raw = io.BufferedWriter(_Terminal(stream.fileno(), "w", closefd=False))
                sys.stderr = stream = io.TextIOWrapper(raw, stream.encoding, line_buffering=True)
            stream.reconfigure(errors="backslashreplace")


def drop_stdout() -> None:
    """Drop buffered output: the interpreter's last flush must not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


_PIPE_CLOSED: Final = 141
"""Exit code of a shell for a program that SIGPIPE ended."""


# The sentences are here so that `drkit --help` loads no command, and so neither Spark nor Kafka.
_SECTIONS: Final = {
    "Every day": {
        "replicate": "Copy from source to target, exactly once.",
        "status": "Show lag, current RPO, group readiness and faults of each flow.",
        "watch": "Detect a lost primary; propose or start a failover.",
        "verify": "Compare source and target, record by record.",
    },
    "Failover": {
        "failover": "Move topics and their consumer groups to the standby.",
        "fence": "Show, apply or lift fences of the old primary.",
        "repoint": "Show or change the cluster that clients connect to.",
        "translate": "Print a group's equivalent offset on the other cluster.",
    },
    "Back home": {
        "failback": "Move clients back to the original primary.",
        "reprotect": "Turn the old primary into the new standby after a failover.",
        "divergence": "List records that exist only on the old primary.",
        "replay": "Append records from an export to the new primary.",
    },
    "Rehearse": {
        "drill": "Rehearse a failover and keep a report.",
        "chaos": "Break a local pair of clusters and check drkit's promises.",
    },
    "Set up": {
        "config": "Show and validate the configuration.",
        "control": "Manage the key that authenticates drkit's internal records.",
        "fence-agent": "Run next to the primary; block writes when its lease expires.",
        "files": "Write systemd units, manifests, alert rules, a dashboard.",
        "completion": "Print a shell completion script.",
    },
    "Learn": {
        "demo": "Run a guided demo on two local clusters.",
        "local": "Start and stop a pair of local clusters to try drkit.",
        "explain": "Explain a page, code, event, alert, setting or word.",
        "help": "Show the help of drkit or of a command.",
    },
}
_COMMANDS: Final = {name: text for commands in _SECTIONS.values() for name, text in commands.items()}
_PACKAGE: Final = "drkit.cli.commands"
_ELSEWHERE: Final = {
    "failback": "drkit.cli.commands.back.failback:failback",
    "reprotect": "drkit.cli.commands.back.reprotect:reprotect",
    "divergence": "drkit.cli.commands.divergence:diverged",
    "drill": "drkit.cli.commands.drills.drill:drill",
    "fence-agent": "drkit.cli.commands.fence_agent:fence_agent",
    "files": "drkit.cli.files:files",
    "help": "drkit.cli.commands.help:help_on",
}
"""Module and name of each command that is not in the module of its name."""


class _Commands(DocumentedGroup):
    """A group that loads a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  likewise
        if cmd_name not in _COMMANDS:
            return None
        module, _, attribute = _ELSEWHERE.get(cmd_name, f"{_PACKAGE}.{cmd_name}:{cmd_name}").partition(":")
        command: click.Command = getattr(work(module), attribute)
        equip(command)
        return command

    def sections(self, ctx: click.Context) -> Iterator[tuple[str, Mapping[str, str]]]:  # noqa: ARG002  likewise
        yield from _SECTIONS.items()


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
