"""The answer to an error of a command: a message on stderr, and its exit code. Loaded at the first error."""

from __future__ import annotations

import errno
import tempfile
import traceback

import click

from drkit.cli.main import drop_stdout
from drkit.cli.render import emit_error
from drkit.cli.session import Session
from drkit.cli.talk import say, show
from drkit.errors import DrkitError, Failed, Usage
from drkit.masking import scrubbed
from drkit.next_command import with_given_options


def answer_error(error: Exception, session: Session) -> int:
    """Print an error, or the help for a command without arguments; return the exit code."""
    match error:
        case click.exceptions.NoArgsIsHelpError():
            show(error.format_message())
            return 0
        case click.ClickException():
            shown: DrkitError = _usage_of(error)
        case DrkitError():
            error.hint = with_given_options(error.hint, session.given)
            shown = error
        case _:
            shown = _unexpected(error, session)
    emit_error(shown, as_json=session.as_json)
    return shown.exit_code


def _unexpected(error: Exception, session: Session) -> DrkitError:
    if isinstance(error, OSError) and _is_of_the_system(error):
        if not error.filename:
            drop_stdout()
        where = str(error.filename or "standard output")
        return Failed("system_refused", where=where, evidence=error.strerror or str(error))
    text, at = scrubbed("".join(traceback.format_exception(error))), "above"
    if session.log_level == "debug":
        say(text)
    else:
        try:
            with tempfile.NamedTemporaryFile(
                "w", prefix="drkit-", suffix=".log", encoding="utf-8", delete=False
            ) as log:
                log.write(text)
            at = f"in {log.name}"
        except OSError as no_file:
            at = f"not kept ({no_file}); --log-level debug shows it"
    hint = f"the traceback is {at}; please report it"
    return Failed("unexpected_error", hint=hint, kind=type(error).__name__, error=error)


def _is_of_the_system(error: OSError) -> bool:
    """Return whether the error names a file, or a full or read-only disk: no fault of the program."""
    return bool(error.filename) or error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EROFS}


def _usage_of(error: click.ClickException) -> Usage:
    """Convert an error of click to one of drkit: lower case, on one line, with what to type instead."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "drkit"
    hint = f"{path} --help"
    match error:
        case click.NoSuchOption(option_name=name, possibilities=near):
            problem = f"no such option '{name}'"
            hint = f"did you mean '{near[0]}'?" if near else hint
        case click.MissingParameter(param=click.Parameter() as missing):
            problem = f"missing {missing.param_type_name} '{missing.human_readable_name}'"
            if isinstance(missing, click.Option):
                problem = f"missing option '{missing.opts[0]}'"
            if isinstance(missing.type, click.Choice):
                *others, last = map(str, missing.type.choices)
                hint = f"choose {', '.join(others)} or {last}"
        case click.BadParameter(param=click.Argument() as argument):
            problem = f"invalid {argument.human_readable_name}: {error.message}".rstrip(".")
        case _:
            text = " ".join(error.format_message().split()).rstrip(".")
            problem = text[:1].lower() + text[1:]
    return Usage("usage_wrong", where=path, hint=hint, problem=problem, path=path)
