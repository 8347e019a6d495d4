"""One picture of `drkit status --watch` after the other, and the status as data."""

from __future__ import annotations

from collections.abc import Sequence
import sys
from typing import Any

from drkit.cli.render import emit, emit_line
from drkit.cli.screens.status_view import Shown, short, view
from drkit.cli.session import session
from drkit.cli.talk import clear_screen
from drkit.status.model import FlowStatus


def show_again(found: Sequence[FlowStatus], shown: Shown) -> None:
    """A line of JSON, or the screen anew."""
    if session().as_json:
        emit_line(as_data(found, shown))
        return
    if sys.stdout.isatty():
        clear_screen()
    show(found, shown)


def show(found: Sequence[FlowStatus], shown: Shown) -> None:
    """The flows for people: one line for each, or all that was found."""
    if shown.short:
        emit([short(f) for f in found])
    else:
        emit({f.flow: view(f, shown) for f in found})


def as_data(found: Sequence[FlowStatus], shown: Shown) -> dict[str, Any]:
    """Everything; of groups only those that were asked for by name."""
    if shown.short:
        return {"flows": [_short(f.as_dict(details=False)) for f in found]}
    flows = [f.as_dict() for f in found]
    if shown.groups:
        for flow in flows:
            flow["groups"] = [g for g in flow["groups"] or () if g["group"] in shown.groups]
    return {"flows": flows}


def _short(status: dict[str, Any]) -> dict[str, Any]:
    return {name: status[name] for name in ("flow", "role", "health", "faults", "loss")}
