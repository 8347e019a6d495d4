"""``drkit demo``: the whole story on two local clusters."""

from __future__ import annotations

from pathlib import Path

from drkit.cli.render import emit
from drkit.cli.screens.demo import RichScreen
from drkit.cli.session import session
from drkit.demo.story import tell


def demo(file: Path, *, keep: bool, rate: int) -> None:
    """Run ``drkit demo``."""
    as_json = session().as_json
    measured = tell(RichScreen(quiet=as_json), keep=file if keep else None, rate=rate)
    if as_json:
        emit(measured)
