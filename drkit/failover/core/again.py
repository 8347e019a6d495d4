"""The command that leads on after a refusal: it depends on whether a run is under way. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from drkit.failover.core.choices import Disposition
from drkit.failover.core.context import Context
from drkit.failover.core.machine import RETURN, StepName
from drkit.failover.core.said import UNTIL_EXPORT, begin_words, chosen_among, decision_words, merged
from drkit.next_command import typed

_CHOICES: Final = "|".join(Disposition)
_APPENDED: Final = f"{Disposition.REPLAY}|{Disposition.QUARANTINE}"
_WHY: Final = '--reason "WHY"'
_SHOWN: Final = 10


def again(context: Context, *more: str, without: Collection[str] = ()) -> str:
    """The command of a return after a refusal: it continues the run, or begins one where none is held.

    A run knows what was said of it; a command that begins one says it again.

    :param more: options that it needs besides, each as it is typed
    :param without: options that were given and are left out, by name or as they are typed
    """
    if is_held(context):
        return " ".join((f"{RETURN.command} --resume", *more))
    return anew(context, *more, without=without)


def anew(
    context: Context, *more: str, without: Collection[str] = (), among: Collection[str] | None = None
) -> str:
    """The command that begins a return as this one was asked for.

    :param more: as for :func:`again`
    :param without: likewise
    :param among: topics that would return: choices for others are left out; None: they do not differ
    """
    request = context.request if among is None else chosen_among(context.request, among)
    words = [w for w in context.words if w != UNTIL_EXPORT or not request.dispositions]  # decided meanwhile
    given = [*words, *begin_words(request), *decision_words(request)]
    left = (word for word in given if word not in without and word.partition(" ")[0] not in without)
    return " ".join((f"{RETURN.command} --flow '{context.flow.name}'", *merged(left, more)))


def failed_places(context: Context) -> list[str]:
    """The option with the place to which the run could not export, as it is typed; empty: it could."""
    tried = context.effects(StepName.EXPORT).values()
    failed = (e.get("intent", {}).get("to") for e in tried if e.get("result") is None)
    return [typed("--export-to", to) for to in failed if to]


def to_decide(context: Context, tails: Collection[str], lost: Sequence[str]) -> str:
    """The command that decides what is missing, with what was said already.

    :param tails: topics whose records need a disposition
    :param lost: topics of which something is gone, and in no export: it is given up by name
    """
    choices = [f"--disposition {t}={_CHOICES}" for t in sorted(set(tails).difference(lost))]
    choices = choices if len(choices) <= _SHOWN else [f"--disposition TOPIC={_CHOICES}"]
    command = again(context, *choices, *(f"--disposition {t}={Disposition.DISCARD}" for t in lost), _WHY)
    if not lost:
        return command
    kept = [f"--disposition {t}={_APPENDED}" for t in lost if t in tails]
    given_up = [f"--give-up-history {t}" for t in lost]
    return f"{command}; or, to keep what is left: {again(context, *choices, *kept, *given_up, _WHY)}"


def is_held(context: Context) -> bool:
    """Whether the run of a return is held by an error: one that has changed nothing yet ends with it."""
    if not context.run_id:
        return False
    has_effects = any(context.effects(row.step) for row in RETURN.rows if row.changes)
    return has_effects or context.journal.result(StepName.DECIDE) is not None
