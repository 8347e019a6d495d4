"""The screens of `drkit status --watch`, and the status as data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
import sys
from typing import Any, Final, NamedTuple

from drkit.cli.render import emit, emit_line
from drkit.cli.screens.status_view import Shown, short, view
from drkit.cli.session import session
from drkit.cli.talk import clear_screen
from drkit.status.model import FlowStatus
from drkit.status.pair.text import PairLine, pair_lines


class DrillsView(NamedTuple):
    """The drills of the shown flows."""

    line: str
    """Empty: there are none."""
    rows: list[dict[str, Any]]


NO_DRILLS: Final = DrillsView("", [])


def show_again(found: Sequence[FlowStatus], shown: Shown, drills: DrillsView) -> None:
    """Print a line of JSON, or redraw the screen."""
    if session().as_json:
        emit_line(as_data(found, shown, drills))
        return
    if sys.stdout.isatty():
        clear_screen()
    show(found, shown, drills)


def show(found: Sequence[FlowStatus], shown: Shown, drills: DrillsView = NO_DRILLS) -> None:
    """Print the pairs, flows and drills for people: one line for each, or all details of flows."""
    if shown.short:
        lines = (f"{name}  {line.word}  {line.text}" for name, pair in pairs_of(found) for line in pair)
        last = [f"drills  {drills.line}"] if drills.line else []
        emit([*lines, *(short(f) for f in found), *last])
    else:
        more = {"drills": drills.line} if drills.line else {}
        pairs = {
            name: [{"protection": line.word, "": line.text} for line in pair]
            for name, pair in pairs_of(found)
        }
        emit({**pairs, **{f.flow: view(f, shown) for f in found}, **more})


def pairs_of(found: Sequence[FlowStatus]) -> Iterator[tuple[str, list[PairLine]]]:
    """Each pair of clusters once, with what is said of it: from both of its flows the same is seen."""
    known = set()
    for status in found:
        if status.pair is not None and status.pair.clusters not in known:
            known.add(status.pair.clusters)
            yield " and ".join(status.pair.clusters), pair_lines(status.pair)


def as_data(found: Sequence[FlowStatus], shown: Shown, drills: DrillsView = NO_DRILLS) -> dict[str, Any]:
    """The whole status; of groups only those requested by name."""
    more = {"drills": drills.rows} if drills.rows else {}
    if shown.short:
        return {"flows": [_short(f.as_dict(details=False)) for f in found]} | more
    flows = [f.as_dict() for f in found]
    if shown.groups:
        for flow in flows:
            flow["groups"] = [g for g in flow["groups"] or () if g["group"] in shown.groups]
    return {"flows": flows} | more


def _short(status: dict[str, Any]) -> dict[str, Any]:
    return {name: status[name] for name in ("flow", "role", "health", "faults", "loss")}
