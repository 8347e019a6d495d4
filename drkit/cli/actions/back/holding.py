"""``drkit reprotect --hold``: have the new primary keep everything, show that, and put it back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from drkit.cli.questions import ask
from drkit.cli.screens.holding import show_held, show_put_back
from drkit.config import FlowSettings, Settings
from drkit.counted import counted
from drkit.errors import Usage
from drkit.failover.checks.run_opening import person
from drkit.failover.core.machine import RETURN
from drkit.failover.new_primary.hold import held_now, hold, put_back
from drkit.failover.service import FailoverService

_HOLD: Final = f"{RETURN.command} --hold"


def hold_topics(
    settings: Settings, flow: FlowSettings, topics: Sequence[str], *, dry_run: bool, yes: bool
) -> None:
    """Have the new primary keep everything of promoted topics, after a question.

    :param flow: the flow that was failed over
    :raises DrkitError: nothing was promoted, or the new primary does not answer, or refuses
    """
    planned = hold(settings, flow, topics, by=person(), effects=False)
    changes = sum(bool(t.changes) for t in planned)
    if dry_run or not changes:
        show_held(planned, flow, done=False)
        return
    if not yes:
        show_held(planned, flow, done=False, asks=True)
        ask(f"Let {flow.target} keep everything of {counted(changes, 'topic')}?", command=_HOLD)
    show_held(hold(settings, flow, topics, by=person()), flow, done=True)


def end_hold(settings: Settings, service: FailoverService) -> None:
    """Put back what is held, and show it; it may be repeated.

    :raises Usage: a return is under way, which copies what is held
    :raises DrkitError: the new primary does not answer, or refuses
    """
    run = service.under_way
    if run is not None and run.table is RETURN:
        raise Usage(
            "failback_under_way",
            where=f"{_HOLD} --abort",
            evidence=f"run {run.run_id}: {run.state}",
            command=RETURN.command,
        )
    show_put_back(put_back(settings, service.flow), service.flow)


def held_still(settings: Settings, flow: FlowSettings) -> str:
    """What is held, and the command that ends it; empty: nothing is.

    :raises DrkitError: the new primary does not answer
    """
    held = held_now(settings, flow)
    if not held:
        return ""
    end = RETURN.typed("--flow", flow.name, "--hold", "--abort")
    return f"{flow.target} keeps everything of {counted(len(held), 'topic')} still; to end that: {end}"


def with_hold(settings: Settings, flow: FlowSettings, report: dict[str, Any]) -> dict[str, Any]:
    """The report of a return that was rolled back, with what is held still.

    :raises DrkitError: the new primary does not answer
    """
    line = held_still(settings, flow)
    return report | {"next": [*report["next"], line]} if line else report
