"""A compacted topic was to continue; meanwhile the new primary may remove what deletes its keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from drkit.errors import Refused
from drkit.failover.core.context import StepProgress
from drkit.failover.core.request import RunRequest
from drkit.flow_state.records import ReturnRecord
from drkit.flow_state.topic import StateTopic
from drkit.journal.machine import StepName
from drkit.kafka.admin import Cluster
from drkit.kafka.requests import EARLIEST
from drkit.kafka.topics import alter_topic_configs
from drkit.local.cluster import LocalCluster
from tests.support.errors import coded
from tests.support.failback.broken_off import MAY_COPY, SEED, broken_off
from tests.support.failback.pair import Pair
from tests.support.failback.tail import Case, DeadPrimary
from tests.support.flows.produce import producer, put
from tests.support.shared_clusters import ModuleClusters

REFUSED = coded("deleted_keys_return")
DAY, KEY = "86400000", b"k1"
COMPACT = {"cleanup.policy": "compact", "delete.retention.ms": DAY}


@pytest.fixture
def home(module_cluster: ModuleClusters, target: LocalCluster, tmp_path: Path) -> Iterator[DeadPrimary]:
    primary = module_cluster("primary")
    cases = {name: Case(tail=0, settings=COMPACT) for name in ("meanwhile", "seeded", "opened")}
    found = DeadPrimary(Pair(primary, target, tmp_path / "journal"), primary, cases)
    found.fall()
    out = producer(found.side.target)
    for topic in found.topics:
        put(out, topic, None, KEY)
    assert out.flush(30) == 0
    found.rise()
    yield found
    found.close()


@pytest.mark.wide
@pytest.mark.timeout(400)
def test_a_topic_that_was_to_continue_is_rebuilt(home: DeadPrimary, tmp_path: Path) -> None:
    meanwhile, seeded, opened = home.topics
    _while_it_runs(home, tmp_path / "meanwhile", meanwhile)
    _before_the_seed(home, tmp_path / "seeded", seeded)
    _before_the_copy(home, tmp_path / "opened", opened)
    home.turned()
    home.copied_back()
    for topic in home.topics:
        log = home.side.records(home.side.source, topic)
        assert {r.key: r.value for records in log.values() for r in records}[KEY] is None


def _while_it_runs(home: DeadPrimary, folder: Path, topic: str) -> None:
    """Between the decision and the copy, in one run."""

    def sets(progress: StepProgress) -> None:
        if progress.step is StepName.DEMOTE:
            _keeps_tombstones(home, topic, "1")

    request = home.request(folder, [topic])
    with home.side.desk(tell=sets) as desk, pytest.raises(Refused, check=REFUSED) as caught:
        desk.begin_return(request, topics=[topic])
    _begins_again(home, request, topic, caught.value)


def _before_the_seed(home: DeadPrimary, folder: Path, topic: str) -> None:
    """A run that is resumed compares again, and rebuilds what it has not opened."""
    broken_off(home, folder, topic, SEED)
    assert not _emptied(home, topic), "it was to continue"
    _keeps_tombstones(home, topic, "1")
    with home.side.desk() as desk:
        assert desk.resume(home.request(folder, [topic]))["state"] == "done"
    _is_rebuilt(home, topic)


def _before_the_copy(home: DeadPrimary, folder: Path, topic: str) -> None:
    """Once it is open to drkit its method does not change: the run is held."""
    broken_off(home, folder, topic, MAY_COPY)
    _keeps_tombstones(home, topic, "1")
    request = home.request(folder, [topic])
    with home.side.desk() as desk, pytest.raises(Refused, check=REFUSED) as caught:
        desk.resume(request)
    _begins_again(home, request, topic, caught.value)


def _begins_again(home: DeadPrimary, request: RunRequest, topic: str, error: Refused) -> None:
    """Nothing may be copied there; after an abort the next return rebuilds it."""
    assert f"{topic}: it was promoted " in error.evidence
    assert "the new primary keeps tombstones for 0 s" in error.evidence
    assert "--abort; then the next one rebuilds" in error.hint
    assert topic not in _may_be_copied(home)
    assert not _emptied(home, topic)
    with home.side.desk() as desk:
        assert desk.abort("for the test")["state"] == "aborted"
    with home.side.desk() as desk:
        assert desk.begin_return(request, topics=[topic])["state"] == "done"
    _is_rebuilt(home, topic)


def _is_rebuilt(home: DeadPrimary, topic: str) -> None:
    begun = home.side.run_log().results[StepName.BEGIN]["evidence"]
    assert begun["emptied"] == [topic]
    assert _emptied(home, topic)
    assert topic in _may_be_copied(home)
    _keeps_tombstones(home, topic, DAY)


def _emptied(home: DeadPrimary, topic: str) -> bool:
    return any(home.side.offsets(home.side.source, topic, EARLIEST).values())


def _keeps_tombstones(home: DeadPrimary, topic: str, ms: str) -> None:
    """What a person sets on the new primary."""
    admin = Cluster.connect(home.side.target)
    assert not alter_topic_configs(admin, {topic: {"delete.retention.ms": ms}})


def _may_be_copied(home: DeadPrimary) -> set[str]:
    with StateTopic(home.back.target, home.back.source.alias) as state:
        state.load()
        return set(state.all(ReturnRecord))
