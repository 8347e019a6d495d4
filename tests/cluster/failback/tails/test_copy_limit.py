"""With a limit a topic is emptied when those before it are copied again: they are not on one side alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from drkit.errors import Refused
from drkit.failover.core.context import StepProgress
from drkit.failover.old_primary import emptied as copy_limit
from drkit.journal.machine import StepName
from drkit.local.cluster import LocalCluster
from tests.support.errors import coded
from tests.support.failback.tail import Case, DeadPrimary, Log, dead_primary
from tests.support.failover.truth import values
from tests.support.shared_clusters import ModuleClusters

NAMES = ("first", "second", "third")


@pytest.fixture
def home(module_cluster: ModuleClusters, target: LocalCluster, tmp_path: Path) -> Iterator[DeadPrimary]:
    primary = module_cluster("primary")
    cases = {name: Case("discard", "rebuild", tail=6) for name in NAMES}
    with dead_primary(primary, target, tmp_path, cases) as found:
        yield found


@pytest.mark.wide
def test_the_next_topic_waits_for_the_copy_of_those_before(
    home: DeadPrimary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    side, begun = home.side, list[str]()

    def tell(progress: StepProgress) -> None:
        topic, _, what = progress.what.partition(" ")
        if progress.step is StepName.BEGIN and what == "begins":
            assert all(_is_copied(home, name) for name in begun), "each is on both sides again"
            begun.append(topic)

    request = home.request(tmp_path / "saved", copy_limit=1)
    with side.desk(tell=tell) as desk, monkeypatch.context() as patch:
        patch.setattr(copy_limit, "STALLED_SECONDS", 3.0)
        with pytest.raises(Refused, check=coded("emptied_not_copied_again")) as stalled:
            desk.begin_return(request)
    assert home.back.settings.flows[0].name in stalled.value.hint
    assert len(begun) == 1
    waiting = set(home.topics) - set(begun)
    assert all(values(r) == values(home.before[t][p]) for t in waiting for p, r in _old(home, t).items())

    served = list[str]()

    def copies(progress: StepProgress) -> None:
        tell(progress)
        if (
            "limit" in progress.fields and served != begun
        ):  # this replicator copies what it finds at its start
            served[:] = begun
            home.back.stop_replicating()
            home.back.replicate()

    with side.desk(tell=copies) as desk:
        assert desk.resume(home.request(tmp_path / "saved"))["state"] == "done"
    assert sorted(begun) == sorted(home.topics), "none begins twice"
    home.back.stop_replicating()
    home.turned()
    home.back.replicate()
    home.back.copied(home.topics, dict.fromkeys(home.groups))
    home.nothing_is_lost()
    assert home.same_on_both() > 50


def _old(home: DeadPrimary, topic: str) -> Log:
    return home.side.records(home.side.source, topic)


def _is_copied(home: DeadPrimary, topic: str) -> bool:
    there = home.side.records(home.side.target, topic)
    return all(values(r) == values(there[p]) for p, r in _old(home, topic).items())
