"""Consumers that never left the old primary, or come while it returns: nothing is copied to them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from drkit.errors import Refused
from drkit.failover.core.context import StepProgress
from drkit.failover.core.request import RunRequest
from drkit.journal.machine import RunState, StepName
from drkit.kafka.groups.requests import listed_groups
from drkit.local.cluster import LocalCluster
from tests.support.errors import coded
from tests.support.failback.staying import Staying
from tests.support.failback.tail import Case, DeadPrimary, dead_primary
from tests.support.failover.truth import values
from tests.support.shared_clusters import ModuleClusters
from tests.support.waiting import eventually

READERS = coded("members_on_old_primary")
EVICT = "--evict-readers"


@pytest.fixture
def home(module_cluster: ModuleClusters, target: LocalCluster, tmp_path: Path) -> Iterator[DeadPrimary]:
    primary = module_cluster("primary")
    with dead_primary(primary, target, tmp_path, {n: Case(tail=0) for n in ("left", "comes")}) as found:
        yield found


@pytest.mark.wide
@pytest.mark.timeout(400)
def test_nothing_comes_back_to_a_consumer_that_stays(home: DeadPrimary, tmp_path: Path) -> None:
    left, comes = home.topics
    _stays(home, left, comes, home.request(tmp_path / "saved", [left]))
    _comes(home, comes, home.request(tmp_path / "saved", [comes]))
    home.turned()
    home.copied_back()
    assert home.same_on_both() > 100


def _stays(home: DeadPrimary, topic: str, other: str, request: RunRequest) -> None:
    """Members are refused whether they have committed, and whatever the flow's filter says of their group."""
    cluster, clean = home.side.source, {p: values(r) for p, r in home.before[topic].items()}
    committed, new, outside, shares = f"{topic}-lags", f"{topic}-new", f"audit-{topic}", f"shares-{topic}"
    elsewhere = f"{topic}-elsewhere"
    with ExitStack() as stack:
        apart = stack.enter_context(ExitStack())
        for group in (committed, outside):
            stack.enter_context(Staying(cluster, group, topic))
        stack.enter_context(Staying(cluster, new, topic, group_protocol="consumer"))
        apart.enter_context(Staying(cluster, shares, topic, share=True))
        stack.enter_context(Staying(cluster, elsewhere, other))
        everyone = {committed, new, outside, shares, elsewhere}
        eventually(lambda: everyone <= _stable(home), 60, lambda: str(_stable(home)))
        error = _refused(home, topic, request)
        assert "4 groups have" in str(error)
        assert all(f"{group}: {group} on " in error.evidence for group in everyone - {elsewhere})
        assert EVICT in error.hint
        apart.close()
        assert home.side.run_log().opening.get("table") != "return", "nothing was changed"
        error = _refused(home, topic, request._replace(evict_readers=True))
        assert any(f"{group}: " in error.evidence for group in everyone), "a client joins again"
        assert "--resume" in error.hint
        assert home.side.run_log().state is RunState.HELD
        assert {p: values(r) for p, r in home.side.records(cluster, topic).items()} == clean
    with home.side.desk() as desk:
        assert desk.resume(request)["state"] == "done"


def _comes(home: DeadPrimary, topic: str, request: RunRequest) -> None:
    """A consumer that joins after the first look is seen before the topic may be copied."""
    with ExitStack() as stack:

        def joins(progress: StepProgress) -> None:
            if progress.step is StepName.DEMOTE:
                stack.enter_context(Staying(home.side.source, f"{topic}-late", topic))
                eventually(lambda: f"{topic}-late" in _stable(home), 60)

        with home.side.desk(tell=joins) as desk, pytest.raises(Refused, check=READERS) as caught:
            desk.begin_return(request, topics=[topic])
        assert f"{topic}-late: " in caught.value.evidence
        assert home.side.run_log().state is RunState.HELD
        with home.side.desk() as desk, pytest.raises(Refused, check=READERS):
            desk.resume(request._replace(evict_readers=True))
    with home.side.desk() as desk:
        assert desk.resume(request)["state"] == "done"


def _refused(home: DeadPrimary, topic: str, request: RunRequest) -> Refused:
    with home.side.desk() as desk, pytest.raises(Refused, check=READERS) as caught:
        desk.begin_return(request, topics=[topic])
    return caught.value


def _stable(home: DeadPrimary) -> set[str]:
    return {g for g, found in listed_groups(home.side.source).items() if found.state == "Stable"}
