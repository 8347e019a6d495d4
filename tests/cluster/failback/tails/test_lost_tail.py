"""The old primary loses records that were never copied, while a return waits, or between two returns.

What an export has of them is decided about, and appended from there; what none has is given up by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from drkit.errors import Refused
from drkit.failover.core.context import Context
from drkit.failover.returning import begin
from drkit.failover.returning import seeds as keeping
from drkit.failover.returning.deciding import Undecided
from drkit.flow_state.records import UnreplayedRecord
from drkit.flow_state.topic import StateTopic
from drkit.journal.entries import EntryKind
from drkit.journal.machine import RunState, StepName
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import alter_topic_configs, topic_configs
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from tests.support.errors import coded
from tests.support.failback.killed import KilledReturns
from tests.support.failback.pair import Pair
from tests.support.failback.tail import Case, DeadPrimary, dead_primary
from tests.support.failover.orchestrator import Kill, Orchestrators
from tests.support.failover.truth import values
from tests.support.flows.compare import Seen
from tests.support.shared_clusters import ModuleClusters

REPLAYED = Case("replay", "rebuild")
KEPT = Case("replay", "keep", tail=6)


@pytest.fixture
def home(module_cluster: ModuleClusters, target: LocalCluster, tmp_path: Path) -> Iterator[DeadPrimary]:
    primary = module_cluster("primary")
    cases = {
        "aborted": REPLAYED, "held": REPLAYED, "partly": REPLAYED, "apart": Case("quarantine", "rebuild"),
        "never": Case("discard", "rebuild"), "some": REPLAYED,
    }  # fmt: skip
    with dead_primary(primary, target, tmp_path, cases) as found:
        yield found


@pytest.mark.wide
@pytest.mark.timeout(900)
def test_what_the_old_primary_has_lost_is_taken_from_its_export(home: DeadPrimary, tmp_path: Path) -> None:
    aborted, held, partly, apart, never, some = home.topics

    _saved(home, aborted, tmp_path / "first")
    _is_loud(home, aborted, tmp_path / "first")
    _lost(home, aborted)
    _refused_without_a_decision(home, aborted, tmp_path / "second")
    _returned(home, aborted, tmp_path / "second")

    _saved(home, held, tmp_path / "held")
    _lost(home, held)
    with home.side.desk() as desk:
        assert desk.resume(home.request(tmp_path / "held", [held]))["state"] == "done"

    _saved(home, partly, tmp_path / "third")
    _aborted(home)
    _lost(home, partly, but=4)
    _returned(home, partly, tmp_path / "fourth")

    _saved(home, apart, tmp_path / "fifth")
    _aborted(home)
    _lost(home, apart, but=4)
    _returned(home, apart, tmp_path / "sixth")
    quarantine = {v for r in _log(home, f"{apart}.divergent.{home.term}").values() for v in r}
    assert quarantine == {v for r in home.tails[apart].values() for v in values(r)}

    _gone_for_ever(home, never, some, tmp_path)
    assert set(_ended(home).values()) == {"replayed", "quarantined"}

    home.turned()
    home.copied_back()
    for topic in (aborted, held, partly):
        _once_on_both(home, topic)


@pytest.fixture
def stage(
    module_cluster: ModuleClusters, target: LocalCluster, orchestrators: Orchestrators, tmp_path: Path
) -> Iterator[KilledReturns]:
    primary = module_cluster("primary")
    cases = {"whole": KEPT, "killed": KEPT, "appended": KEPT}
    found = DeadPrimary(Pair(primary, target, tmp_path / "journal"), primary, cases)
    yield KilledReturns(found, orchestrators, tmp_path / "saved")
    found.close()


@pytest.mark.wide
@pytest.mark.timeout(900)
def test_a_tail_that_is_kept_and_lost_on_the_way_is_refused(stage: KilledReturns, tmp_path: Path) -> None:
    home, side = stage.home, stage.home.side
    whole, killed, appended = home.topics
    assert not stage.begun(whole)

    # Killed right before it is appended; then somebody sets the old primary's retention.
    assert stage.begun(killed, Kill(f"{StepName.BEGIN} append {killed} {EntryKind.INTENT}", "after"))
    assert not alter_topic_configs(Cluster.connect(side.source), {killed: {"retention.ms": "86400000"}})
    _lost(home, killed)
    with side.desk() as desk, pytest.raises(Refused, check=coded("keep_tail_lost")):
        desk.resume(home.request(tmp_path / "saved", [killed]))
    assert _retention(home, killed) == "-1", "it is held again before anything else"
    _rebuilt(stage, killed, tmp_path / "killed")

    # Lost while it is appended.
    append = keeping.append_kept

    def loses(context: Context, topic: str) -> dict[TopicPartition, keeping.AppendedTail]:
        found = append(context, topic)
        _lost(home, topic)
        return found

    with side.desk() as desk, pytest.MonkeyPatch.context() as patch:
        patch.setattr(begin, "append_kept", loses)
        with pytest.raises(Refused, check=coded("keep_tail_lost")):
            desk.begin_return(home.request(tmp_path / "saved", [appended]), topics=[appended])
    _rebuilt(stage, appended, tmp_path / "appended")

    home.turned()
    home.copied_back()
    for topic in home.topics:
        _once_on_both(home, topic)


def _saved(home: DeadPrimary, topic: str, folder: Path) -> None:
    """A return that exports the records of a topic, and is held there."""
    request = home.request(folder, [topic])._replace(dispositions={}, methods={})
    with home.side.desk() as desk, pytest.raises(Undecided):
        desk.begin_return(request, topics=[topic], decides_later=True)
    assert home.side.run_log().state is RunState.HELD


def _aborted(home: DeadPrimary) -> list[str]:
    with home.side.desk() as desk:
        report = desk.abort("for the test")
    assert report["state"] == "aborted"
    left: list[str] = report["next"]
    return left


def _is_loud(home: DeadPrimary, topic: str, folder: Path) -> None:
    """An abort says that the old primary removes again what only it has, where that is saved, what to do."""
    left = "; ".join(_aborted(home))
    assert f"work again, and may remove what only it has of {topic}: drkit reprotect" in left
    assert f"the export stays: {folder}" in left
    assert "nothing is left" not in left


def _lost(home: DeadPrimary, topic: str, but: int = 0) -> None:
    """What retention does.

    :param but: how many offsets of each partition it leaves
    """
    side = home.side
    for p, end in side.offsets(side.source, topic).items():
        side.delete_records(topic, p, end - but, side.source)


def _refused_without_a_decision(home: DeadPrimary, topic: str, folder: Path) -> None:
    """The plan, too, names what is gone, and where it is."""
    request = home.request(folder, [topic])
    with home.side.desk() as desk:
        said = [
            line for lines in desk.rehearse_return(request, [topic]).lines for line in str(lines).split("\n")
        ]
        assert any("in an export alone" in line for line in said), said
        with pytest.raises(Undecided, check=coded("decision_missing")) as caught:
            desk.begin_return(request._replace(dispositions={}), topics=[topic])
    assert caught.value.topics == {topic: sum(map(len, home.tails[topic].values()))}
    assert "in an export alone" in caught.value.evidence


def _returned(home: DeadPrimary, topic: str, folder: Path) -> None:
    with home.side.desk() as desk:
        report = desk.begin_return(home.request(folder, [topic]), topics=[topic])
    assert report["state"] == "done"
    [notes] = [s["notes"] for s in report["steps"] if s["step"] == StepName.DECIDE]
    assert any("in an export alone" in n for n in notes), notes
    assert not any("nothing is given up" in n for n in notes)


def _gone_for_ever(home: DeadPrimary, never: str, some: str, folder: Path) -> None:
    """What is gone before an export has it is named by its offsets, and given up by name only."""
    _lost(home, never)
    _lost(home, some, but=4)
    for topic, given_up in (
        (never, {"dispositions": {never: "discard"}}),
        (some, {"give_up_history": (some,)}),
    ):
        said = home.request(folder / topic, [topic])
        everything = said._replace(dispositions={"*": said.dispositions[topic]})
        with home.side.desk() as desk, pytest.raises(Undecided) as caught:
            desk.begin_return(everything, topics=[topic])
        assert "gone, and in no export" in caught.value.evidence
        assert f"--disposition {topic}=discard" in caught.value.hint
        with home.side.desk() as desk:
            assert desk.begin_return(said._replace(**given_up), topics=[topic])["state"] == "done"


def _rebuilt(stage: KilledReturns, topic: str, folder: Path) -> None:
    """The way out that the refusal names."""
    home = stage.home
    _aborted(home)
    with home.side.desk() as desk, pytest.raises(Refused, check=coded("keep_unproven")):
        desk.begin_return(home.request(folder, [topic]), topics=[topic])
    home.cases[topic] = REPLAYED
    with home.side.desk() as desk:
        report = desk.begin_return(home.request(folder, [topic], same="content"), topics=[topic])
    assert report["state"] == "done"


def _retention(home: DeadPrimary, topic: str) -> str | None:
    return topic_configs(Cluster.connect(home.side.source), [topic])[topic]["retention.ms"].value


def _once_on_both(home: DeadPrimary, topic: str) -> None:
    """Each record of the tail is once on the new primary, and at home."""
    for cluster in (home.back.source, home.back.target):
        log = home.back.records(cluster, topic)
        for p, records in home.tails[topic].items():
            tail, there = Counter(_of_tail(records)), Counter(_of_tail(log[p]))
            assert {record: there[record] for record in tail} == tail, (topic, p, cluster.alias)


def _of_tail(records: Collection[Seen]) -> list[tuple[object, ...]]:
    return [(s.key, s.value, s.timestamp) for s in records]


def _log(home: DeadPrimary, topic: str) -> dict[int, Collection[bytes | None]]:
    side = home.side
    return {p: values(r) for p, r in side.records(side.target, topic).items()}


def _ended(home: DeadPrimary) -> dict[str, str | None]:
    """What was decided about exports, and how it ended."""
    with StateTopic(home.side.target, home.side.source.alias) as state:
        state.load()
        return {name: record.ended for name, record in state.all(UnreplayedRecord).items()}
