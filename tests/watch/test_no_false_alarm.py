"""With the default settings nothing that passes by itself is a HOLD or a LOST."""

from __future__ import annotations

from collections.abc import Iterator
import random

import pytest

from tests.watch.disturbances import no_alarm
from tests.watch.test_detection import ready
from tests.watch.world import Lookout, World


@pytest.fixture(scope="module")
def watched(world: World) -> Iterator[Lookout]:
    made = Lookout(world.settings(detection={}), "o1")
    made.start()
    ready(made)
    yield made
    made.stop()


@pytest.mark.parametrize("name", ["pause", "flap", "restart"])
def test_no_alarm(world: World, watched: Lookout, name: str):
    no_alarm(world, watched, name, random.Random(7))
