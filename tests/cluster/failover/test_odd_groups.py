"""Groups with odd names, all the way of a failover: killed, resumed, with a way of repointing that hangs."""

from __future__ import annotations

from contextlib import redirect_stderr, redirect_stdout
import io
from pathlib import Path
import time

import pytest

from drkit.cli import main as cli
from tests.support.circles import in_soak
from tests.support.failover.odd_groups import Cost, OddGroups, Ran, story
from tests.support.failover.world import World


def here(file: Path, *words: str) -> Ran:
    """The command in this process: one of its own would take seconds to load."""
    out, err, began = io.StringIO(), io.StringIO(), time.monotonic()
    with redirect_stdout(out), redirect_stderr(err):
        code = cli.run(["--config", str(file), *words])
    return Ran(code, out.getvalue(), err.getvalue(), Cost(time.monotonic() - began, 0.0, 0.0))


@pytest.mark.wide
@pytest.mark.parametrize("number", [100, in_soak(300)])
def test_groups_with_odd_names(world: World, number: int) -> None:
    groups = OddGroups(world, number)
    groups.prepare()
    story(groups, here)
