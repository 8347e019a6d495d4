"""The old primary answers half the time: its return is resumed until it is done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from drkit.config import ClusterSettings
from drkit.errors import DrkitError
from drkit.failover.core.request import RunRequest
from drkit.journal.lost import violations
from drkit.journal.machine import RunState, StepName
from drkit.local.cluster import LocalCluster
from tests.support.failback.flapping import Flapping
from tests.support.failback.tail import Case, DeadPrimary, dead_primary
from tests.support.failover.truth import values
from tests.support.flows.compare import read
from tests.support.shared_clusters import ModuleClusters
from tests.support.waiting import eventually

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]
MOST_TRIES = 80
TAKES_WRITES = ("old_primary_takes_writes", "fence_leaks", "still takes writes")
"""Codes, and the words of a proof in other errors."""
CASES = {
    "thrown": Case("discard", "rebuild"),
    "again": Case("replay", "rebuild", transactions=True),
    "apart": Case("quarantine", "rebuild"),
    "kept": Case("replay", "keep"),
    "clean": Case(tail=0),
}


@pytest.fixture
def primary(module_cluster: ModuleClusters) -> LocalCluster:
    return module_cluster("primary", linked=("CLIENT",))


@pytest.fixture
def home(module_cluster: ModuleClusters, primary: LocalCluster, tmp_path: Path) -> Iterator[DeadPrimary]:
    with dead_primary(primary, module_cluster("standby"), tmp_path, CASES) as found:
        yield found


@pytest.mark.parametrize("seed", [1, 2])
def test_a_return_ends_and_nothing_is_emptied_unsaved(
    home: DeadPrimary, primary: LocalCluster, tmp_path: Path, seed: int
) -> None:
    direct = ClusterSettings(alias="direct", bootstrap_servers=primary.bootstrap("PROBE"))
    request, seen = home.request(tmp_path / "saved"), Counter[str]()
    with Flapping(primary.link("CLIENT"), seed=seed) as flapping:
        for _ in range(MOST_TRIES):
            error = _tried(home, request)
            if error is None:
                break
            seen[f"{error.code}: {error.what}"] += 1
            assert error.hint, error.what
            _nothing_is_lost_for_ever(home, direct)
        else:
            raise AssertionError(f"not done after {MOST_TRIES}: {seen}")
        assert flapping.cuts > 2, "the link was cut"
        _nothing_is_lost_for_ever(home, direct)
        home.turned()
        home.back.replicate()
        cuts = flapping.cuts
        eventually(lambda: flapping.cuts > cuts + 5, what="some cuts while it is copied")
    assert not [what for what in seen if any(words in what for words in TAKES_WRITES)], (
        "what does not answer takes no writes"
    )
    assert home.side.run_log().state is RunState.DONE
    assert not violations(home.side.run_log())
    home.back.copied(home.topics, dict.fromkeys(home.groups))
    home.nothing_is_lost()
    assert home.same_on_both() > 200
    home.positions_are_right()
    home.reads_are_whole()


def _tried(home: DeadPrimary, request: RunRequest) -> DrkitError | None:
    """Begin the return, or continue it; why it was held, None: it is done."""
    with home.side.desk() as desk:
        try:
            if desk.under_way is None:
                desk.begin_return(request)
            else:
                desk.resume(request)
        except DrkitError as error:
            return error
    return None


def _nothing_is_lost_for_ever(home: DeadPrimary, direct: ClusterSettings) -> None:
    """What the old primary has no more of its own records is in a verified export, record by record."""
    gone = []
    for topic, log in home.tails.items():
        there = read(direct, topic)
        gone += [topic for p, tail in log.items() if not {*values(tail)} <= {*values(there[p])}]
    if gone:
        exported = home.side.run_log().results[StepName.EXPORT]["evidence"]
        home.manifest_is_the_truth(exported["manifest"], exported["sha256"])
