"""Display of ``drkit failback``: what it waits for, and the report of each stage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from drkit.cli.screens.failover import shown
from drkit.cli.session import to_type
from drkit.cli.talk import say
from drkit.config import FlowSettings
from drkit.failover.failback import FailbackStage, FlowPair
from drkit.visible import visible

_TITLES: Final = {
    FailbackStage.RETURN: "the original primary is the standby",
    FailbackStage.SWITCH: "clients are on the original primary",
    FailbackStage.TURN: "the other cluster is the standby",
}


def show_wait(back: FlowSettings, state: str) -> None:
    """Show on stderr how far the copy at home is."""
    say(to_type(visible(f"{back.target} is not in step yet: {state}")))


def shown_stage(
    stage: FailbackStage, report: Mapping[str, Any], *, verbose: bool
) -> list[dict[str, Any] | str]:
    """The report of a stage for a person."""
    done = report["state"] == "done"
    return [f"{stage}: {_TITLES[stage] if done else report['state']}", *shown(report, verbose=verbose)]


def home_line(ways: FlowPair) -> str:
    """What holds once every stage is done."""
    home, other = ways.there.source, ways.there.target
    return f"done: clients are on {home}, and {other} is its standby. Is it in step? drkit status"
