"""Returns between clusters of three brokers, one of which is down when a topic is to be emptied."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from drkit.errors import DrkitError, Refused
from drkit.failover.core.context import StepProgress
from drkit.failover.core.request import RunRequest
from drkit.failover.returning.deciding import Undecided
from drkit.journal.lost import violations
from drkit.journal.machine import RunState, StepName
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import describe_topics
from drkit.local.cluster import LocalCluster
from tests.support.errors import coded
from tests.support.failback.pair import Side
from tests.support.failback.tail import Case, DeadPrimary, dead_primary
from tests.support.failover.truth import values
from tests.support.shared_clusters import ModuleClusters
from tests.support.waiting import eventually

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

BROKERS = 3
CASES = {
    "thrown": Case("discard", "rebuild"),
    "again": Case("replay", "rebuild", transactions=True),
    "clean": Case(tail=0),
}


@pytest.fixture
def clusters(module_cluster: ModuleClusters) -> list[LocalCluster]:
    fields = {"brokers": BROKERS}
    return module_cluster.ready({"primary": fields, "standby": fields})


@pytest.fixture
def home(clusters: list[LocalCluster], tmp_path: Path) -> Iterator[DeadPrimary]:
    primary, standby = clusters
    with dead_primary(primary, standby, tmp_path, CASES) as found:
        yield found


def test_a_broker_of_the_old_primary_dies_when_it_is_emptied(
    home: DeadPrimary, clusters: list[LocalCluster], tmp_path: Path
) -> None:
    """Done without it, or held by name and resumed."""
    side, request = home.side, home.request(tmp_path / "saved")
    dies = lambda topic: clusters[0].broker(_leader(side, topic)).kill()  # noqa: E731
    with side.desk(tell=_once_before_it_is_emptied(dies)) as desk:
        error = _tried(lambda: desk.begin_return(request))
    for alive in (False, True):
        if alive:
            clusters[0].restart()
        if error is not None:
            assert "--resume" in error.hint, error
            with side.desk() as desk:
                error = _tried(lambda: desk.resume(RunRequest()))
    assert error is None, error
    home.turned()
    _is_whole(home)


def test_a_broker_of_the_new_primary_is_down(
    home: DeadPrimary, clusters: list[LocalCluster], tmp_path: Path
) -> None:
    """Nothing is emptied: not by a new return, and not by one that has begun."""
    side, request = home.side, home.request(tmp_path / "saved")
    before = {t: _there(home, t) for t in home.topics}

    def dies(_topic: str = "") -> None:
        clusters[1].broker(0).kill()
        eventually(lambda: not _in_sync(home), what="a replica out of sync")

    dies()
    with side.desk() as desk, pytest.raises(Refused, check=coded("replicas_out_of_sync")):
        desk.begin_return(request)
    _is_saved_meanwhile(side, request)
    assert {t: _there(home, t) for t in home.topics} == before
    clusters[1].restart()
    eventually(lambda: _in_sync(home), what="replicas in sync")
    with side.desk(tell=_once_before_it_is_emptied(dies)) as desk:
        with pytest.raises(Refused, check=coded("replicas_out_of_sync")) as caught:
            desk.begin_return(request)
        assert "--resume" in caught.value.hint
    assert side.run_log().state is RunState.HELD
    assert {t: _there(home, t) for t in home.topics} == before
    clusters[1].restart()
    eventually(lambda: _in_sync(home), what="replicas in sync")
    with side.desk() as desk:
        assert desk.resume(RunRequest())["state"] == "done"
    home.turned()
    _is_whole(home)


def _is_saved_meanwhile(side: Side, request: RunRequest) -> None:
    """What the old primary has is kept and exported without the replica; only a decision waits for it."""
    with side.desk() as desk, pytest.raises(Undecided):
        desk.begin_return(request._replace(dispositions={}), decides_later=True)
    run = side.run_log()
    assert (run.state, "manifest" in run.results[StepName.EXPORT]["evidence"]) == (RunState.HELD, True)
    with side.desk() as desk, pytest.raises(Refused, check=coded("replicas_out_of_sync")):
        desk.resume(request)
    with side.desk() as desk:
        assert desk.abort("the replica comes first")["state"] == "aborted"


def _tried(work: Callable[[], object]) -> DrkitError | None:
    try:
        work()
    except DrkitError as error:
        return error
    return None


def _once_before_it_is_emptied(happens: Callable[[str], None]) -> Callable[[StepProgress], None]:
    """Lets something happen right before the first topic is emptied."""
    done: list[str] = []

    def tell(progress: StepProgress) -> None:
        topic, _, begins = progress.what.partition(" ")
        if progress.step is StepName.BEGIN and begins == "begins" and not done:
            done.append(topic)
            happens(topic)

    return tell


def _leader(side: Side, topic: str) -> int:
    return side.topic(side.source, topic).leaders[0].node


def _in_sync(home: DeadPrimary) -> bool:
    found = describe_topics(Cluster.connect(home.side.target), home.topics)
    return all(len(p.in_sync) == BROKERS for t in found.values() for p in t.leaders.values())


def _there(home: DeadPrimary, topic: str) -> dict[int, list[bytes]]:
    return {p: values(r) for p, r in home.side.records(home.side.source, topic).items()}


def _is_whole(home: DeadPrimary) -> None:
    assert home.side.run_log().state is RunState.DONE
    assert not violations(home.side.run_log())
    home.copied_back()
    home.nothing_is_lost()
    assert home.same_on_both() > 200
    home.positions_are_right()
    home.reads_are_whole()
