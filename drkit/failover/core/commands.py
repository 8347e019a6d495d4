"""The commands that a failback suggests: they continue the run, or begin one as it was requested. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from drkit.failover.core.context import Context
from drkit.failover.core.request import EVERY_TOPIC, Disposition, RunRequest
from drkit.journal.machine import RETURN, StepName
from drkit.next_command import WHY, NextCommand

_CHOICES: Final = "|".join(Disposition)
"""Quoted where it is printed: typed as it is, the command is refused, and no shell takes it for a pipe."""
NOTHING: Final = RunRequest()
UNTIL_EXPORT: Final = "--until-export"
_APPENDED: Final = f"{Disposition.REPLAY}|{Disposition.QUARANTINE}"
_SHOWN: Final = 10


def retry_command(context: Context, added: RunRequest = NOTHING) -> NextCommand:
    """Return the command after a refusal: it continues the held run, or begins one, with options `added`."""
    if is_held(context):
        return RETURN.resume.plus(*added.options())
    return begin_command(context, context.request.plus(added))


def begin_command(context: Context, request: RunRequest, topics: Sequence[str] = ()) -> NextCommand:
    """Return the command that begins a failback of `topics`, or of those that were named."""
    command = return_command(context.flow.name, topics or context.named_topics, request)
    return command.plus(UNTIL_EXPORT) if context.until_export and not request.dispositions else command


def return_command(flow: str, topics: Sequence[str], request: RunRequest = NOTHING) -> NextCommand:
    """Return the command that begins a failback of some topics, or of all when none is named."""
    named = (word for topic in topics for word in ("--topic", topic))
    return RETURN.typed("--flow", flow, *named, *request.options())


def open_choices(topics: Sequence[str]) -> dict[str, str]:
    """Return the dispositions to choose from, by topic; one for all if there are many topics."""
    return dict.fromkeys(topics if len(topics) <= _SHOWN else [EVERY_TOPIC], _CHOICES)


def decision_commands(context: Context, tails: Collection[str], lost: Sequence[str]) -> str:
    """Return the commands that make the missing decisions.

    :param tails: topics whose records need a disposition
    :param lost: topics that have lost records which no export has: they are given up by name
    """
    choices = open_choices(sorted(set(tails).difference(lost)))
    discarding = RunRequest(dispositions=choices | dict.fromkeys(lost, Disposition.DISCARD), reason=WHY)
    command = str(retry_command(context, discarding))
    if not lost:
        return command
    kept = dict.fromkeys((t for t in lost if t in tails), _APPENDED)
    keeping = RunRequest(dispositions=choices | kept, give_up_history=tuple(lost), reason=WHY)
    return f"{command}; or, to keep what is left: {retry_command(context, keeping)}"


def is_held(context: Context) -> bool:
    """Return whether an error holds the run: one that has changed nothing yet ends with the error."""
    if not context.run_id:
        return False
    has_effects = any(context.effects(row.step) for row in RETURN.rows if row.changes)
    return has_effects or context.journal.result(StepName.DECIDE) is not None
