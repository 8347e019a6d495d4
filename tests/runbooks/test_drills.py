"""Each page of a drill is executed."""

from __future__ import annotations

import pytest

from tests.support.runbooks.catalogue import wide
from tests.support.runbooks.scene import Scene
from tests.support.runbooks.stage import execute
from tests.support.runbooks.stages.drills import STAGES


@pytest.mark.wide
@wide(STAGES)
def test_its_commands_end_what_it_is_about(page: str, scene: Scene) -> None:
    execute(STAGES[page], scene)
