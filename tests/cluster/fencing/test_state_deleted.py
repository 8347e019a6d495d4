"""The flow's state is deleted behind FENCE: the record on the source has what the fence replaced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from drkit.config import ClusterSettings
from drkit.failover.fencing import methods
from drkit.flow_state.names import state_topic
from drkit.journal.machine import RunState
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import topic_configs
from tests.support.failover.command import Said, drkit
from tests.support.failover.orchestrator import Kill, Orchestrators
from tests.support.failover.orchestrator_parent import AFTER
from tests.support.failover.settings_file import written
from tests.support.failover.world import World
from tests.support.flows.produce import answers
from tests.support.waiting import eventually

pytestmark = pytest.mark.wide
SIZE = "max.message.bytes"


def fenced(world: World, tmp_path: Path) -> tuple[Path, str]:
    """Begin a switchover that dies behind the fence, and delete the flow's state."""
    topic, _ = world.copy_orders()
    with Orchestrators() as others:
        at = Kill("DRAIN  intent", AFTER)
        assert others.run(world.plain(), "begin", groups=[], request={"planned": True}, kill=at).killed
    world.stop_replicating()
    world.delete(world.target, state_topic(world.source.alias))
    assert answers(world.source, topic, [b"x"]) == ["MSG_SIZE_TOO_LARGE"]
    return written(world, tmp_path), topic


def restarted(world: World, file: Path) -> None:
    """Copy again, with a new state."""
    world.replicate()
    eventually(lambda: drkit(file, "fence", "show").code == 0, 60, "a new state")


def faults(file: Path) -> dict[str, str]:
    (flow,) = drkit(file, "status").data["flows"]
    return {f["code"]: f["text"] for f in flow["faults"]}


def own_size(world: World, topic: str) -> str | None:
    found = topic_configs(Cluster.connect(world.source), [topic])[topic][SIZE]
    return found.value if found.is_set_on_topic else None


@contextmanager
def set_again(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Another tool sets the size again as soon as it is changed."""
    lift = methods.lift_sizes

    def lifted(settings: ClusterSettings, sizes: Mapping[str, str | None]) -> None:
        lift(settings, sizes)
        methods.raise_sizes(settings, sizes)

    with patch.context() as changed:
        changed.setattr(methods, "lift_sizes", lifted)
        changed.setattr(methods, "_SEEN_SECONDS", 0.5, raising=False)
        yield


def shown(said: Said) -> list[str]:
    return [t["topic"] for t in said.data["topics"]]


def test_an_abort_lifts_the_fence_by_the_record_on_the_source(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, topic = fenced(world, tmp_path)
    alone = faults(file)["both_closed"]
    assert topic in alone
    assert "drkit replicate" in alone
    assert "drkit failover --abort" in alone
    restarted(world, file)
    with set_again(monkeypatch):
        failed = drkit(file, "failover", "--abort", "--yes")
    assert (failed.code, failed.error) == (1, "fence_remains"), failed
    assert topic in failed.err
    assert world.run_log().state is RunState.ABORTING
    assert topic in shown(drkit(file, "fence", "show"))
    done = drkit(file, "failover", "--abort", "--yes")
    assert done.code == 0, done
    assert own_size(world, topic) is None
    assert answers(world.source, topic, [b"late"]) == [None]
    assert not shown(drkit(file, "fence", "show"))
    assert "both_closed" not in faults(file)


def test_the_record_of_a_fence_that_remains_is_kept(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its run is not in the journal any more: the record on the source alone has it."""
    file, topic = fenced(world, tmp_path)
    world.delete(world.target, f"drkit-failover.{world.source.alias}.internal")
    restarted(world, file)
    lift = ("fence", "lift", "--accept-divergence", "x", "--yes")
    with set_again(monkeypatch):
        failed = drkit(file, *lift)
    assert (failed.code, failed.error) == (1, "fence_remains"), failed
    assert shown(drkit(file, "fence", "show")) == [topic]
    lifted = drkit(file, *lift)
    assert lifted.data["lifted"] == [topic], lifted
    assert own_size(world, topic) is None
    assert answers(world.source, topic, [b"late"]) == [None]
