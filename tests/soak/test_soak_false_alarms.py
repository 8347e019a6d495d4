"""Ten minutes of each kind of trouble that is no loss: none of them is ever taken for LOST.

DRKIT_SOAK_MINUTES sets another time. Kinds that leave the primary's brokers alone run side by side.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
import os
import sys

import pytest

from drkit.local.cluster import LocalCluster, start_together
from drkit.local.spec import ClusterSpec
from tests.support.watch import undisturbed
from tests.support.watch.false_alarms import ALONE, BESIDE_OTHERS
from tests.support.watch.undisturbed import Scene, Story
from tests.support.watch.world import World

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]
SECONDS = 60 * float(os.environ.get("DRKIT_SOAK_MINUTES", "10"))


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    primary, standby = undisturbed.primary(), LocalCluster(ClusterSpec("standby"))
    world = None
    try:
        start_together(primary, standby)
        world = World(primary, standby, beat=1.0)
        world.replicate()
        yield Scene(world, SECONDS, tmp_path_factory.mktemp("scene"))
    finally:
        if world is not None:
            world.close()
        primary.stop()
        standby.stop()


def played(scene: Scene, name: str) -> Story:
    story = Story(name)
    {**ALONE, **BESIDE_OTHERS}[name](scene.of(name), story)
    return story


@pytest.fixture(scope="module")
def beside(scene: Scene, request: pytest.FixtureRequest) -> Iterator[dict[str, Future[Story]]]:
    """All kinds of the selected tests that disturb no other, begun together."""
    wanted = [n for n in BESIDE_OTHERS if any(f"[{n}]" in item.name for item in request.session.items)]
    with ThreadPoolExecutor(len(wanted)) as pool:
        yield {name: pool.submit(played, scene, name) for name in wanted}


def judge(story: Story) -> None:
    sys.stdout.write(f"\n{story.told()}\n")  # the figures of a run
    assert story.disturbances > 1
    assert story.lost == 0, story.told()


@pytest.mark.parametrize("name", sorted(BESIDE_OTHERS))
def test_what_leaves_the_primary_alone_is_no_loss(beside: dict[str, Future[Story]], name: str) -> None:
    judge(beside[name].result())


@pytest.mark.parametrize("name", sorted(ALONE))
def test_what_disturbs_it_is_no_loss(scene: Scene, name: str) -> None:
    judge(played(scene, name))
    scene.world.primary.resume()
    scene.world.primary.restart()
    scene.world.standby.resume()
    scene.world.standby.restart()
