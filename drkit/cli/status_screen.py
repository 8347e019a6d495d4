"""One picture of `drkit status --watch` after the other."""

from __future__ import annotations

from collections.abc import Sequence
import json
import sys
from typing import Final

import click

from drkit.cli.render import emit
from drkit.cli.session import session
from drkit.cli.status_view import view
from drkit.replicate.status import FlowStatus

_CLEAR: Final = "\x1b[H\x1b[2J"


def show_again(found: Sequence[FlowStatus], *, partitions: bool) -> None:
    """A line of JSON, or the screen anew."""
    if session().as_json:
        sys.stdout.write(json.dumps({"flows": [f.as_dict() for f in found]}) + "\n")
        sys.stdout.flush()
        return
    if sys.stdout.isatty():
        click.echo(_CLEAR, nl=False)
    emit({f.flow: view(f, partitions=partitions) for f in found})
