"""Display of ``drkit failback``: what it waits for, and the report of each stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from drkit.cli.screens.failover import shown
from drkit.cli.session import to_type
from drkit.cli.talk import say
from drkit.config import FlowSettings
from drkit.counted import counted
from drkit.failover.way_home import HomeStage, Ways
from drkit.status.pair.model import PairStatus, PairTopic
from drkit.visible import visible

_TITLES: Final = {
    HomeStage.RETURN: "home is the standby",
    HomeStage.SWITCH: "clients are home",
    HomeStage.TURN: "the other cluster is the standby",
}


class Waiting:
    """Lines on stderr while the copy at home is not in step: one for each change."""

    def __init__(self, back: FlowSettings) -> None:
        self._back = back
        self.last = "nothing is known yet"

    def show(self, pair: PairStatus | None, left: Sequence[PairTopic]) -> None:
        """Show what is left, unless it is as before."""
        line = _line(pair, left)
        if line != self.last:
            self.last = line
            say(to_type(visible(f"{self._back.target} is not in step yet: {line}")))


def _line(pair: PairStatus | None, left: Sequence[PairTopic]) -> str:
    if pair is None or not pair.topics:
        return "its state is unknown"
    some = f"{counted(len(left), 'topic')} of {len(pair.topics)}"
    records = [t.records for t in left]
    known = [n for n in records if n is not None]
    more = f", {sum(known):,} records left" if known and len(known) == len(records) else ""
    why = next((t.why for t in left if t.why), "")
    return f"{some}{more}" + (f"; {left[0].topic}: {why}" if why else "")


def shown_stage(stage: HomeStage, report: Mapping[str, Any], *, verbose: bool) -> list[dict[str, Any] | str]:
    """The report of a stage for a person."""
    done = report["state"] == "done"
    return [f"{stage}: {_TITLES[stage] if done else report['state']}", *shown(report, verbose=verbose)]


def home_line(ways: Ways) -> str:
    """What holds once every stage is done."""
    home, other = ways.there.source, ways.there.target
    return f"home: clients are on {home}, and {other} is its standby; whether it is in step: drkit status"
