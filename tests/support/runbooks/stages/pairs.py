"""Stages of a pair after a failover: what ``drkit status`` says of it, and its fences."""

from __future__ import annotations

from typing import Final

from confluent_kafka import Producer

from tests.support.failback.pair import Pair
from tests.support.failover.world import World
from tests.support.flows.produce import fill, producer
from tests.support.runbooks.scene import Scene
from tests.support.runbooks.stage import Stages

STAGES: Final = Stages()
_STATUS: Final = "drkit status"
_CUT: Final = "the listener is closed"
HOLDING: Final = {"open_transactions": "hold", "transaction_wait_seconds": 0.3}
"""A fence that an open transaction holds."""


def switch_over(scene: Scene, more: str = "") -> Pair:
    """Move clients to the standby as planned; the return has not begun.

    :param more: further options of the failover
    """
    pair = scene.pair()
    scene.copied(pair.now)
    scene.prepare(f"drkit failover --flow 'primary->standby' --all --planned --yes {more}")
    pair.now.stop_replicating()
    return pair


def fail_over(scene: Scene, tail: int = 6) -> Pair:
    """Lose a primary that has records of its own, fail over, and bring it back without its fence."""
    pair = scene.pair()
    side = pair.now
    topic = scene.copied(side)
    side.stop_replicating()
    if tail:
        fill(side.source, topic, tail, first=100)
    scene.silence(side.source)
    reasons = '--accept-data-loss "a test" --despite-signs-of-life "a test"'
    scene.prepare(f"drkit failover --flow 'primary->standby' --all --yes {reasons}")
    fill(side.target, topic, 5, first=500)
    scene.servers.clear()
    return pair


def begin_transaction(scene: Scene, side: World, topic: str) -> Producer:
    """Write to the source in a transaction that stays open."""
    out = producer(side.source, transactional_id=f"{topic}-open", transaction_timeout_ms=600_000)
    out.init_transactions(30)
    out.begin_transaction()
    out.produce(topic, b"open", b"open", partition=0)
    assert out.flush(30) == 0
    scene.cleanups.callback(out.purge)
    return out


def hold_in_fence(scene: Scene, side: World, topic: str) -> None:
    """Begin a switchover that an open transaction holds after the fence."""
    begin_transaction(scene, side, topic)
    side.failover_fields["fence"] = HOLDING
    scene.prepare("drkit failover --flow 'primary->standby' --all --planned --yes", 3)


@STAGES.of("fence-owed", _STATUS, "fence_owed")
def bring_back_without_a_fence(scene: Scene) -> None:
    fail_over(scene)


@STAGES.of("pair-both-open", _STATUS)
def let_both_take_writes(scene: Scene) -> None:
    fail_over(scene)


@STAGES.of("pair-diverged", _STATUS, branches=("the old primary is to be the standby",))
def bring_back_with_records_of_its_own(scene: Scene) -> None:
    fail_over(scene)
    scene.values["PLACE"] = str(scene.folder / "saved")


@STAGES.of("pair-unprotected", _STATUS, branches=("its return has not begun",))
def begin_no_return(scene: Scene) -> None:
    switch_over(scene)


@STAGES.of("fence-lift-pending", _STATUS, "fence_lift_pending")
def abort_while_the_primary_is_silent(scene: Scene) -> None:
    world = scene.world()
    hold_in_fence(scene, world, scene.copied(world))
    scene.silence(world.source)
    scene.prepare("drkit failover --flow 'primary->standby' --abort --yes")
    scene.servers.clear()


@STAGES.of("pair-both-closed", _STATUS)
def leave_a_fence_behind(scene: Scene) -> None:
    abort_while_the_primary_is_silent(scene)


@STAGES.of("reprotect-fence-refuses-drkit", "drkit reprotect --dry-run")
def cut_nobody_off(scene: Scene) -> None:
    switch_over(scene)
