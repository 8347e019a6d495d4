"""What happens at an entry of the journal, and how it passes again."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from drkit.local.cluster import LocalCluster
from tests.support.failover.walk.stage import APPLICATION, OPERATOR, REPLICATION, Scene

Change = Callable[[Scene], None]


class Event(NamedTuple):
    """One of them."""

    begins: Change
    passes: Change | None = None
    """Some entries later; None: never."""


def _link(*roles: str) -> Event:
    return Event(
        lambda s: s.stage.links(cut=True, roles=roles), lambda s: s.stage.links(cut=False, roles=roles)
    )


def _returns(scene: Scene) -> None:
    if scene.pair.kind == "dead":
        scene.stage.primary.restart()
    else:
        scene.stage.links(cut=False, roles=(OPERATOR, REPLICATION))


def _new_topic(scene: Scene) -> None:
    topic = scene.name("fresh")
    scene.create(scene.source, topic, 2, {"retention.ms": "-1"})
    scene.application.write([topic])


def _member(of: Callable[[Scene], LocalCluster]) -> Change:
    return lambda s: s.joins(of(s), s.shop)


CHANGES: dict[str, Event] = {
    "primary-dies": Event(lambda s: s.stage.primary.kill()),
    "primary-bounces": Event(lambda s: s.stage.primary.kill(), lambda s: s.stage.primary.restart()),
    "primary-returns": Event(_returns),
    "primary-freezes": Event(lambda s: s.stage.primary.freeze(), lambda s: s.stage.primary.resume()),
    "new-topic": Event(_new_topic),
    "new-group": Event(lambda s: s.commits(s.name("late"), s.orders, 11)),
    "new-commit": Event(lambda s: s.commits(s.shop, s.orders, 15)),
    "new-member": Event(_member(lambda s: s.stage.primary)),
    "new-guest": Event(_member(lambda s: s.stage.standby)),
    "standby-loses-broker": Event(lambda s: s.stage.standby.kill(), lambda s: s.stage.standby.restart()),
    "operator-cut": _link(OPERATOR),
    "replicator-cut": _link(REPLICATION),
    "application-cut": _link(APPLICATION),
    "replicator-dies": Event(lambda s: s.stop_replicating(), lambda s: s.replicate()),
}
"""Those that change a cluster, a link or the replicator."""
ANOTHER = {"another-resumes": "--resume", "another-aborts": "--abort"}
"""Events in which an orchestrator of another machine comes while this one is suspended."""
