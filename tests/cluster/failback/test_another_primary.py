"""Another, empty, cluster replaces the old primary only if it is named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
import json
from pathlib import Path
from typing import Any

import pytest

from drkit.config import ClusterSettings
from drkit.errors import Refused
from drkit.failover.core.request import RunRequest
from drkit.failover.returning.deciding import Undecided
from drkit.flow_state.records import (
    ClustersRecord,
    FenceAclsRecord,
    FenceSizesRecord,
    FormerSourcesRecord,
    PendingFence,
    SkipsRecord,
)
from drkit.journal.entries import EntryKind
from drkit.journal.machine import StepName
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import TopicPlan, create_topics, delete_topics, topic_names
from drkit.local.cluster import LocalCluster
from tests.support.errors import coded
from tests.support.failback.killed import KilledReturns
from tests.support.failback.pair import CUT, Pair, Side
from tests.support.failback.tail import REASON, Case, DeadPrimary
from tests.support.failover.command import Said, drkit
from tests.support.failover.orchestrator import Kill, Orchestrators
from tests.support.failover.settings_file import written
from tests.support.failover.truth import values
from tests.support.flows.produce import fill
from tests.support.shared_clusters import ModuleClusters
from tests.support.waiting import eventually


@pytest.fixture
def pair(module_cluster: ModuleClusters, target: LocalCluster, tmp_path: Path) -> Iterator[Pair]:
    found = Pair(module_cluster("primary"), target, tmp_path / "journal")
    yield found
    found.close()


@pytest.fixture
def successor(pair: Pair, source: LocalCluster, target: LocalCluster, tmp_path: Path) -> Iterator[Pair]:
    """The same pair, its primary's name leading to another cluster."""
    found = Pair(source, target, tmp_path / "journal", tag=pair.now.tag)
    yield found
    found.close()


def _is_failed_over(side: Side, topic: str) -> None:
    """Copied, its primary dead, and written to on the standby since."""
    side.create(side.source, topic, 2, {"retention.ms": "-1"})
    fill(side.source, topic, 40)
    side.replicate()
    side.copied([topic])
    side.stop_replicating()
    side.brokers[0].kill()
    with side.desk() as desk:
        assert desk.begin([], RunRequest(accept_data_loss="for the test"))["state"] == "done"
    fill(side.target, topic, 20, first=500)


@pytest.mark.wide
def test_an_empty_cluster_takes_its_place(
    pair: Pair, successor: Pair, source: LocalCluster, tmp_path: Path
) -> None:
    side = pair.now
    topic = side.name("orders")
    _is_failed_over(side, topic)
    _a_third_one_may_protect(side, source, topic, tmp_path)

    side, back = successor.now, successor.other
    with side.desk() as desk, pytest.raises(Refused, check=coded("old_primary_replaced")):
        desk.begin_return(RunRequest(clients_cut=CUT, reason="a test"))
    cluster_id = Cluster.connect(side.source).cluster_id
    _is_rolled_back(side, cluster_id)
    with side.desk() as desk:
        request = RunRequest(clients_cut=CUT, reason="a test", new_primary=cluster_id)
        report = desk.begin_return(request)
    assert report["state"] == "done", report
    assert any("is unknown" in note for step in report["steps"] for note in step["notes"])
    back.replicate()
    back.copied([topic])
    theirs, ours = (back.records(c, topic) for c in (back.source, back.target))
    assert {p: values(r) for p, r in theirs.items()} == {p: values(r) for p, r in ours.items()}
    assert back.exact([topic]) > 60


def _a_third_one_may_protect(side: Side, third: LocalCluster, topic: str, folder: Path) -> None:
    """While the old primary is away: what the flow to a third cluster would do, and why it could not."""
    file, ask = written(side, folder), ("reprotect", "--to", "third")
    lines = file.read_text(encoding="utf-8")

    def types(more: str, code: int) -> Said:
        file.write_text(f"{lines}{more}\n", encoding="utf-8")
        said = drkit(file, *ask)
        assert said.code == code, (said.out, said.err)
        return said

    cluster = f'[clusters.third]\nbootstrap_servers = "{third.bootstrap()}"\n'
    refused = types(cluster, 3)
    assert refused.error == "no_flow_to_third", refused.err
    flow = refused.data["toml"]
    found = types(cluster + flow, 0).data
    assert (found["topics"], found["continues"], found["copied_by"]) == ([topic], False, "")
    assert found["next"][0].startswith("drkit replicate ")
    assert f"--flow '{side.target.alias}->third'" in found["next"][0]
    narrow = flow.replace(json.dumps([f"{side.tag}-.*"]), '["none"]', 1)
    assert "the flow's filters do not choose it" in types(cluster + narrow, 3).err
    itself = cluster.replace(third.bootstrap(), side.target.bootstrap_servers)
    assert types(itself + flow, 3).error == "no_third_cluster"
    there = Cluster.connect(ClusterSettings(alias="third", bootstrap_servers=third.bootstrap()))
    create_topics(there, [TopicPlan(topic, 2)])
    fill(there.settings, topic, 5)
    assert types(cluster + flow, 3).error == "third_incomplete"
    delete_topics(there, [topic])
    eventually(lambda: topic not in topic_names(there), what="an empty third cluster")


@pytest.mark.wide
@pytest.mark.timeout(900)
def test_what_only_exports_have_is_replayed_after_it(
    pair: Pair, successor: Pair, orchestrators: Orchestrators, tmp_path: Path
) -> None:
    """The old primary dies for good after a return that emptied it was aborted; another takes its place."""
    side = pair.now
    decided = Case("replay", "rebuild", tail=6)
    home = DeadPrimary(pair, side.brokers[0], {"done": decided, "lost": decided, "saved": Case(tail=6)})
    stage = KilledReturns(home, orchestrators, tmp_path / "saved")
    done, lost, saved = home.topics
    assert not stage.begun(done)
    emptied = (StepName.BEGIN, f"empty {done}", EntryKind.RESULT)
    boundaries = [(e.step, e.effect, e.kind) for e in side.run_log().entries]
    assert stage.begun(lost, Kill(boundaries.index(emptied), "after"))
    stage.aborted()
    with side.desk() as desk:
        with pytest.raises(Undecided):
            desk.begin_return(home.request(tmp_path / "saved", [saved]), topics=[saved], decides_later=True)
        manifest = _manifest(side)
        assert desk.abort("for the test")["state"] == "aborted"
    tails = {t: Counter(v for r in home.tails[t].values() for v in values(r)) for t in (lost, saved)}
    assert "unreplayed" in stage.alarms()
    side.brokers[0].kill()

    side = successor.now
    file, flow = written(side, tmp_path), ("--flow", side.settings.flows[0].name)
    request = RunRequest(clients_cut=CUT, reason=REASON, new_primary=Cluster.connect(side.source).cluster_id)
    with side.desk() as desk:
        with pytest.raises(Undecided) as caught:
            desk.begin_return(request)
        assert caught.value.topics == {lost: 6, saved: 6}, "exports have them, and nothing was done with them"
        request = request._replace(dispositions={lost: "replay", saved: "discard"})
        before = Counter(v for r in side.records(side.target, lost).values() for v in values(r))
        assert desk.begin_return(request)["state"] == "done"
    said = drkit(file, "replay", "--from", manifest, "--to-quarantine", *flow, "--yes")
    assert said.code == 0, (said.out, said.err)
    quarantine = next(t for t in side.topics_of_target() if t.startswith(f"{saved}.divergent."))
    for topic, name, had in ((lost, lost, before), (saved, quarantine, Counter())):
        now = Counter(v for r in side.records(side.target, name).values() for v in values(r))
        assert now - had == tails[topic], topic
        assert had <= now
    told = drkit(file, "status", *flow).data["flows"][0]["pair"]
    assert "unreplayed" not in told["alarms"], told


def _manifest(side: Side) -> str:
    """Of the export of the newest run."""
    return str(side.run_log().results[StepName.EXPORT]["evidence"]["manifest"])


@pytest.mark.soak
def test_a_third_cluster_protects_and_takes_over(pair: Pair, source: LocalCluster, tmp_path: Path) -> None:
    """What the command says is done: copied to the third cluster, and failed over to it."""
    side, topic = pair.now, pair.now.name("orders")
    _is_failed_over(side, topic)
    ahead = Side(side.brokers[1], source, tmp_path / "ahead", tag=side.tag, sides="bc")
    ahead.opposite = ahead
    ahead.replicate()
    try:
        ahead.copied([topic])
        with ahead.desk() as desk:
            assert desk.begin([], RunRequest(planned=True))["state"] == "done"
    finally:
        ahead.close()
    theirs, ours = (ahead.records(c, topic) for c in (ahead.source, ahead.target))
    assert {p: values(r) for p, r in theirs.items()} == {p: values(r) for p, r in ours.items()}


def _is_rolled_back(side: Side, cluster_id: str) -> None:
    """After an abort all is known of the old cluster that was known of it before."""
    before = _known(side)
    with side.desk() as desk:
        with pytest.raises(Undecided):
            desk.begin_return(RunRequest(clients_cut=CUT, new_primary=cluster_id), decides_later=True)
        assert _known(side) != before
        assert desk.abort("for the test")["state"] == "aborted"
    assert _known(side) == before
    with side.desk() as desk, pytest.raises(Refused, check=coded("old_primary_replaced")):
        desk.begin_return(RunRequest(clients_cut=CUT, reason="a test"))


def _known(side: Side) -> dict[str, Any]:
    """What the flow's state says of the old primary, but for what ended runs note."""
    kinds = (
        ClustersRecord, FormerSourcesRecord, FenceAclsRecord, FenceSizesRecord, SkipsRecord, PendingFence,
    )  # fmt: skip
    return {kind.KEY: side.state().get(kind.KEY) for kind in kinds}
