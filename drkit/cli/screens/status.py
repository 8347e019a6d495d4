"""One picture of `drkit status --watch` after the other, and the status as data."""

from __future__ import annotations

from collections.abc import Sequence
import sys
from typing import Any

from drkit.cli.render import emit, emit_line
from drkit.cli.screens.status_view import Shown, view
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
    emit({f.flow: view(f, shown) for f in found})


def as_data(found: Sequence[FlowStatus], shown: Shown) -> dict[str, Any]:
    """Everything; of groups only those that were asked for by name."""
    flows = [f.as_dict() for f in found]
    if shown.groups:
        for flow in flows:
            flow["groups"] = [g for g in flow["groups"] or () if g["group"] in shown.groups]
    return {"flows": flows}
