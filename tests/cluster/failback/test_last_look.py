"""Right before a topic of the old primary is emptied everything is looked at again.

What is not as it was compared, saved and decided is held, and nothing is emptied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from drkit.errors import Failed, Refused
from drkit.failover.core.context import StepProgress
from drkit.failover.fencing.methods import SizeFence
from drkit.failover.returning.deciding import Undecided
from drkit.journal.machine import RunState, StepName
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import alter_topic_configs, topic_configs
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from tests.support.errors import coded, made
from tests.support.failback.tail import Case, DeadPrimary, dead_primary
from tests.support.failover.truth import values
from tests.support.flows.produce import fill
from tests.support.shared_clusters import ModuleClusters

DAY = "86400000"
FENCE = "max.message.bytes"


@pytest.fixture
def home(module_cluster: ModuleClusters, target: LocalCluster, tmp_path: Path) -> Iterator[DeadPrimary]:
    primary = module_cluster("primary")
    cases = {
        n: Case("discard", tail=6, settings={"retention.ms": DAY})
        for n in ("grows", "commits", "altered", "late")
    }
    with dead_primary(primary, target, tmp_path, cases) as found:
        yield found


@pytest.mark.wide
def test_nothing_is_emptied_that_is_not_as_it_was_decided(home: DeadPrimary, tmp_path: Path) -> None:
    """P41."""
    side = home.side
    grows, commits, altered, late = home.topics

    def a_commit() -> None:
        changed = {"cleanup.policy": "compact", "retention.bytes": "123456789"}
        assert not alter_topic_configs(Cluster.connect(side.source), {commits: changed})
        side.commit(side.source, f"{commits}-lags", {TopicPartition(commits, 0): 1})

    def another_byte() -> None:
        found = (p for p in (tmp_path / "saved").rglob("*.parquet") if altered in p.parts)
        file = next(p for p in found if p.is_file())
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.chmod(0o600)
        file.write_bytes(content)

    _held(home, tmp_path, grows, lambda: _a_record_more(home, grows), "old_primary_changed")
    left = _held(home, tmp_path, commits, a_commit, "group_committed_on_old")
    assert f"set since it was held, and left so: {commits}: retention.bytes=123456789" in left[-1]
    assert f"may remove what only it has of {commits}" in left[-1]
    again = {"cleanup.policy": "delete", "retention.bytes": None}
    assert not alter_topic_configs(Cluster.connect(side.source), {commits: again})
    _held(home, tmp_path, altered, another_byte, "export_altered")
    _written_before_the_guard(home, tmp_path, late)
    _comes_home(home, tmp_path)


def _written_before_the_guard(home: DeadPrimary, folder: Path, topic: str) -> None:
    """A run that dies after it has emptied a topic; somebody writes there before it is resumed."""

    def dies(*_given: object) -> None:
        raise made(Failed, "it dies here", where="", evidence="", hint="")

    request = home.request(folder / "late", [topic])
    with home.side.desk() as desk, pytest.MonkeyPatch.context() as patch:
        patch.setattr(SizeFence, "remove", dies)
        with pytest.raises(Failed, match="it dies here"):
            desk.begin_return(request, topics=[topic])
    _a_record_more(home, topic)
    with home.side.desk() as desk:
        with pytest.raises(Refused, check=coded("old_primary_changed")) as caught:
            desk.resume(request)
        assert "--abort" in caught.value.hint
        assert desk.abort("for the test")["state"] == "aborted"
    with home.side.desk() as desk, pytest.raises(Undecided) as asked:  # about that record, and the export
        desk.begin_return(request._replace(dispositions={}), topics=[topic])
    assert asked.value.topics == {topic: 1 + sum(map(len, home.tails[topic].values()))}


def _a_record_more(home: DeadPrimary, topic: str) -> None:
    """Somebody opens the old primary, and writes there."""
    admin = Cluster.connect(home.side.source)
    assert not alter_topic_configs(admin, {topic: {FENCE: "1048576"}})
    fill(home.side.source, topic, 1, first=9000)
    assert not alter_topic_configs(admin, {topic: {FENCE: "0"}})


def _held(home: DeadPrimary, folder: Path, topic: str, disturb: Callable[[], None], code: str) -> list[str]:
    """A return that is disturbed right before it empties a topic; then it is rolled back.

    :returns: what the roll back has left, as its report says
    """
    side = home.side
    before = {p: values(r) for p, r in side.records(side.source, topic).items()}
    seen: list[str | None] = []

    def tell(progress: StepProgress) -> None:
        if progress.step is StepName.BEGIN and progress.what == f"{topic} begins":
            seen.append(_retention(home, topic))
            disturb()

    with side.desk(tell=tell) as desk:
        with pytest.raises(Refused, check=coded(code)):
            desk.begin_return(home.request(folder / "saved", [topic]), topics=[topic])
        assert seen == ["-1"], "its retention is stopped until the decision"
        assert side.run_log().state is RunState.HELD
        report = desk.abort("for the test")
        assert report["state"] == "aborted"
    now = {p: values(r) for p, r in side.records(side.source, topic).items()}
    assert all(now[p][: len(r)] == r for p, r in before.items()), "nothing was emptied"
    assert _retention(home, topic) == DAY
    left: list[str] = report["next"]
    return left


def _comes_home(home: DeadPrimary, folder: Path) -> None:
    """What was rolled back begins again, with what is there now."""
    home.come_home(home.request(folder / "again"))
    home.copied_back()
    home.nothing_is_lost()
    assert home.same_on_both() > 100
    assert {_retention(home, t) for t in home.topics} == {DAY}


def _retention(home: DeadPrimary, topic: str) -> str | None:
    return topic_configs(Cluster.connect(home.side.source), [topic])[topic]["retention.ms"].value
