"""Five pages are executed in every run: two refusals, a hold, a replay, and the first set-up."""

from __future__ import annotations

import pytest

from tests.support.runbooks.catalogue import SAMPLE, STAGES
from tests.support.runbooks.scene import Scene
from tests.support.runbooks.stage import execute


@pytest.mark.parametrize("page", SAMPLE)
def test_its_commands_end_what_it_is_about(page: str, scene: Scene) -> None:
    execute(STAGES[page], scene)
