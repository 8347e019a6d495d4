"""An old primary that comes back with other topics than it had: each class returns, or is refused by name.

What is refused is done as its answer says, to the end. Every record and offset of both sides is compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from drkit.errors import Refused
from drkit.journal.machine import StepName
from drkit.local.cluster import LocalCluster
from tests.support.errors import coded
from tests.support.failback.changed import ChangedPrimary
from tests.support.failback.pair import Pair
from tests.support.failback.tail import Case
from tests.support.flows.produce import fill
from tests.support.shared_clusters import ModuleClusters

CASES = {
    "regressed": Case(tail=0),
    "thrown": Case("discard", tail=0),
    "again": Case("replay", tail=0),
    "gone": Case(tail=5),
    "recreated": Case("quarantine", tail=0),
    "fewer": Case("discard", tail=0),
    "empty": Case(tail=0),
    "more": Case(tail=0),
    "wider": Case("replay", tail=0),
}
REGROWN = ("thrown", "again")
FEW, MANY = 1, 3
OTHERS = {"thrown": 20, "again": 90}
"""Other records that were written to a shorter log: its end is before that of the copy, or after it."""


@pytest.fixture
def home(module_cluster: ModuleClusters, target: LocalCluster, tmp_path: Path) -> Iterator[ChangedPrimary]:
    primary = module_cluster("primary")
    found = ChangedPrimary(Pair(primary, target, tmp_path / "journal"), primary, CASES)
    found.fall()
    yield found
    found.close()


@pytest.mark.wide
def test_each_class_comes_home(home: ChangedPrimary, tmp_path: Path) -> None:
    _changes(home)
    side, name = home.side, home.side.name
    with side.desk() as desk:
        request = home.request(tmp_path / "saved")
        with pytest.raises(Refused, check=coded("fewer_partitions")) as caught:
            desk.begin_return(request)
        assert f"{name('more')}-2" in caught.value.evidence
        assert f"{name('wider')}-2" in caught.value.evidence
    untouched = {t: side.records(side.source, t) for t in home.topics if not side.topic(side.source, t).error}
    assert untouched == {t: log for t, log in home.before.items() if log}
    home.grow_copy(name("wider"), MANY)
    side.delete(side.source, name("more"))
    home.look_again()
    with side.desk() as desk:
        wrong = {**request.dispositions, name("recreated"): "replay"}
        with pytest.raises(Refused, check=coded("replay_recreated")) as caught:
            desk.begin_return(request._replace(dispositions=wrong))
        assert f"--disposition {name('recreated')}=quarantine" in caught.value.hint
    home.come_home(request)
    exported = side.run_log().results[StepName.EXPORT]["evidence"]
    home.manifest_is_the_truth(exported["manifest"], exported["sha256"])
    home.copied_back()
    home.nothing_is_lost()
    assert home.same_on_both() > 400
    home.positions_are_right()
    home.reads_are_whole()


def _changes(home: ChangedPrimary) -> None:
    """What became of each topic between the death of the primary and its return."""
    side, name = home.side, home.side.name
    shorter = [name(what) for what in ("regressed", *REGROWN)]
    home.truncate(shorter)
    home.rise()
    for topic in shorter:
        home.is_shorter(topic)
    for what in REGROWN:
        fill(side.source, name(what), OTHERS[what], first=9000, enable_idempotence=True)
    side.delete(side.source, name("gone"))
    home.recreate(name("recreated"), MANY - 1, 12)
    home.recreate(name("fewer"), FEW, 12)
    home.recreate(name("empty"), MANY - 1, 0)
    for what in ("more", "wider"):
        side.grow(side.source, name(what), MANY)
        fill(side.source, name(what), 6, first=9500)
    home.look_again()
