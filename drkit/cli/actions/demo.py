"""``drkit demo``: the whole story on two local clusters."""

from __future__ import annotations

from pathlib import Path

from drkit.cli.render import emit
from drkit.cli.screens.demo import RichScreen
from drkit.cli.session import session
from drkit.demo.acts import Ending
from drkit.demo.story import tell
from drkit.errors import Usage


def demo(file: Path, *, keep: bool, rate: int, until: str, drill: bool, report: Path) -> None:
    """Run ``drkit demo``. Raises Usage for `keep` with `drill`, which leaves no clusters."""
    if keep and drill:
        raise Usage("keep_and_drill", where="drkit demo")
    measured = tell(
        RichScreen(quiet=session().as_json),
        keep=file if keep else None,
        rate=rate,
        until=Ending(until),
        drill=report if drill else None,
    )
    emit(measured, shown=())
