"""What is told is true while a cluster is dead, a key is wrong, or a run is under way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
import json
from pathlib import Path
import re
import time
from typing import Any

import pytest

from drkit.failover.core.request import RunRequest
from drkit.flow_state.names import journal_topic
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import ALL_KEPT, ensure_own_topic
from drkit.local.cluster import LocalCluster
from drkit.local.ports import PortReservation
from drkit.local.spec import ClusterSpec
from drkit.model import TopicPartition
from drkit.monitoring.board import LOOK_SECONDS, Board, FlowWatch
from drkit.status.pair.model import PairState
from drkit.status.paired import PairedCollector
from drkit.watch.senses import Growth, Watched
from tests.support.errors import sentence
from tests.support.failover.command import drkit
from tests.support.failover.control_key import KEYS, configured
from tests.support.failover.fixtures import world as world
from tests.support.failover.fixtures import world_factory as world_factory
from tests.support.failover.settings_file import toml
from tests.support.failover.world import World
from tests.support.flow_state.keys import KEYS as CONTROL
from tests.support.flows.produce import fill
from tests.support.waiting import eventually

TAIL = 19
DEAD_SECONDS = 40.0


def copied(world: World, number: int = 20) -> str:
    topic = world.name("orders")
    world.create(world.source, topic, 1, {"retention.ms": "-1"})
    fill(world.source, topic, number)
    world.replicate()
    world.copied([topic])
    return topic


@pytest.fixture
def closed() -> Iterator[str]:
    """An address at which nothing listens."""
    ports = PortReservation()
    yield f"127.0.0.1:{ports.reserve()}"
    ports.release()


@pytest.mark.wide
def test_a_pair_is_not_protected_while_a_topic_of_its_plan_has_no_copy(world: World) -> None:
    """499 of 1,000 topics were PROTECTED, and the other 501 were not named."""
    world.flow_fields["refresh_topics_interval_seconds"] = 600
    topic, late = copied(world), world.name("late")
    world.protected([topic])
    world.create(world.source, late, 2, {})
    settings = world.settings
    with closing(PairedCollector(settings, settings.flows[0], groups=False)) as collector:
        pair = collector.look().pair
    assert pair is not None
    states = {t.topic: (t.state, t.why) for t in pair.topics}
    assert states[topic][0] is PairState.PROTECTED
    assert states[late] == (PairState.UNPROTECTED, f"{settings.flows[0].name} has no copy of it")
    assert pair.state is PairState.UNPROTECTED


@pytest.mark.wide
def test_a_pair_without_a_key_is_not_called_silent(world: World, tmp_path: Path) -> None:
    copied(world)
    told = drkit(configured(world, tmp_path, KEYS[0]), "status")
    [flow] = told.data["flows"]
    [fault] = flow["faults"]
    assert (told.code, fault["code"]) == (1, "control_key_mismatch"), told.err
    assert fault["text"].startswith(sentence("state_unsigned"))
    assert "drkit control adopt" in fault["text"]
    assert "does not answer" not in json.dumps(flow)


@pytest.mark.wide
def test_a_wrong_control_key_is_named_and_no_journal_is_to_be_discarded(world: World, tmp_path: Path) -> None:
    right, wrong = tmp_path / "right", tmp_path / "wrong"
    right.mkdir()
    wrong.mkdir()
    configured(world, right, KEYS[0])
    copied(world)
    with world.desk() as desk:  # it has a journal, too
        assert desk.begin([], RunRequest(planned=True, clients_cut="the test has none"))["state"] == "done"
    file = configured(world, wrong, KEYS[1])
    told = drkit(file, "status")
    assert told.code == 1, told.err
    [flow] = told.data["flows"]
    [fault] = flow["faults"]
    assert fault["code"] == "control_key_mismatch"
    assert fault["text"].startswith(sentence("control_key_mismatch"))
    assert re.search(r": it has \w{8}; .* \w{8}, which", fault["text"]), "both keys are named"
    assert "does not answer" not in json.dumps(flow)
    assert told.err.count("record_dropped") <= 1, told.err
    for words in (("failover", "--all", "--dry-run"), ("failover", "--resume")):
        refused = drkit(file, *words)
        assert (refused.code, refused.error) == (3, "control_key_mismatch"), refused.err
        assert "discard" not in refused.err


@pytest.mark.wide
def test_none_is_no_number_of_records_that_were_not_counted(
    world: World, tmp_path: Path, closed: str
) -> None:
    """`at risk 0 records, 205 s` was printed where 1,900 were lost."""
    topic = copied(world)
    world.protected([topic])
    world.stop_replicating()
    fill(world.source, topic, TAIL, first=500)
    plain = world.plain()
    plain["clusters"][world.source.alias]["bootstrap_servers"] = closed
    file = tmp_path / "drkit.toml"
    file.write_text(toml(plain), encoding="utf-8")
    told = drkit(file, "status")
    [flow] = told.data["flows"]
    assert (flow["loss"]["records"], flow["source_answers"]) == (None, False)
    assert flow["loss"]["source_seen_seconds"] > 0
    said = ("--accept-data-loss", "x", "--despite-signs-of-life", "x")
    shown = drkit(file, "failover", "--all", "--dry-run", *said)
    assert re.search(r"^at risk   unknown \(last counted \d+ s ago\), ", shown.err, re.MULTILINE), shown.err
    assert "0 records" not in shown.err + shown.out
    done = drkit(file, "failover", "--all", "--yes", *said)
    assert done.code == 0, done.err
    statement = done.data["loss"]["statement"]
    assert statement.startswith("unknown: anything the primary accepted at or after"), statement
    assert re.search(r"\(last counted \d+ s ago; ", statement), statement


@pytest.mark.wide
def test_what_a_failover_writes_is_no_replication_that_moves(world: World) -> None:
    """`drkit watch` said of a dead primary that replication moves: the failover's own canaries did."""
    topic = copied(world)
    seen: list[str] = []
    growth = Growth(world.target, world.source.alias, lambda: [topic], seen.append, 0.2)
    growth.start()
    try:
        eventually(lambda: growth.began is not None, what="the first look")
        with world.desk() as desk:
            assert desk.begin([], RunRequest(planned=True, clients_cut="none"))["state"] == "done"
        names = (topic, journal_topic(world.source.alias))
        ends = {TopicPartition(name, 0): world.offsets(world.target, name)[0] for name in names}
        eventually(lambda: growth._ends == ends, what="a look since")
        assert seen == []
        growth._run_until = 0.0  # the run is long over
        fill(world.target, topic, 3, first=900)
        assert eventually(lambda: seen, what="a copy that grows")
    finally:
        growth.stop()


@pytest.mark.wide
def test_what_others_write_to_the_journal_hides_no_replication_that_moves(world: World) -> None:
    """Without heartbeats the copies are the only sign that a primary beyond reach is alive."""
    topic, journal = copied(world), journal_topic(world.source.alias)
    target = world.target.with_control(CONTROL)
    ensure_own_topic(Cluster.connect(target), journal, ALL_KEPT)
    seen: list[str] = []
    growth = Growth(target, world.source.alias, lambda: [topic], seen.append, 0.2)
    growth.start()
    try:
        eventually(lambda: TopicPartition(journal, 0) in growth._ends, what="the first look")
        fill(target, journal, 3)
        eventually(lambda: growth._ends[TopicPartition(journal, 0)] == 3, what="a look at the journal")
        assert seen == [], "it is no copy"
        fill(target, topic, 3, first=900)
        assert eventually(lambda: seen, what="a copy that grows")
    finally:
        growth.stop()


@pytest.mark.wide
def test_figures_do_not_stand_still_while_the_primary_is_dead(target: LocalCluster, tmp_path: Path) -> None:
    """For 105 s after a kill the heartbeat stayed 4.1 s old, and the dead primary was no fault any more."""
    with LocalCluster(ClusterSpec("dying")) as primary:
        world = World(primary, target, tmp_path)
        try:
            copied(world)
            settings = world.settings
            watch = FlowWatch(settings, Watched(settings.flows[0]), seconds=LOOK_SECONDS)
            watch._began = float("-inf")  # it is no young one
            board = Board()
            board.watches = [watch]
            watch.start()
            eventually(lambda: watch.figures is not None, 30, "the first look")
            primary.kill()
            _told_of_a_dead_primary(board, watch)
            watch.stop()
        finally:
            world.close()


def _told_of_a_dead_primary(board: Board, watch: FlowWatch) -> None:
    flow = watch.name

    def codes() -> set[str]:
        return {f["code"] for f in board.health()[1]["flows"][flow]["faults"]}

    eventually(lambda: "source_unreachable" in codes(), 30, "the fault")
    began, ages = time.monotonic(), []

    def is_long_dead() -> bool:
        assert "source_unreachable" in codes()
        [shown] = board.status()["flows"]
        metrics = board.metrics().decode()
        beat = float(_metric(metrics, "drkit_heartbeat_age_seconds"))
        ages.append((shown["age_seconds"], beat, shown["heartbeat"]["age_seconds"]))
        assert float(_metric(metrics, "drkit_rpo_seconds")) > 0
        assert not _metric(metrics, "drkit_rpo_records")
        return time.monotonic() - began > DEAD_SECONDS

    eventually(is_long_dead, 2 * DEAD_SECONDS)
    assert max(age for age, _, _ in ages) < 25, "a look that waits is no load"
    assert ages[-1][1] - ages[0][1] > DEAD_SECONDS - 5, "the heartbeat is as old as it is"
    assert all(abs(beat - page) < 2 for _, beat, page in ages)


def _metric(text: str, name: str) -> Any:
    found = re.search(rf"^{name}\{{[^}}]*\}} (\S+)$", text, re.MULTILINE)
    return found[1] if found else ""


@pytest.mark.wide
def test_a_journal_file_of_another_pair_is_not_this_one_s(
    source: LocalCluster, target: LocalCluster, tmp_path: Path
) -> None:
    """Aliases are the same in every environment: `--resume` searched for a run of the tutorial's pair."""
    first = World(source, target, tmp_path / "journal")
    second = World(target, source, tmp_path / "journal", tag=first.tag)
    for side in (first, second):
        side.flow_fields["topics"] = [f"{side.tag}-{side.brokers[0].spec.name}.*"]
    try:
        topic = f"{first.tag}-{first.brokers[0].spec.name}"
        first.create(first.source, topic, 1, {})
        fill(first.source, topic, 5)
        first.replicate()
        first.copied([topic])
        with first.desk() as desk:
            assert desk.begin([], RunRequest(planned=True, clients_cut="none"))["state"] == "done"
        [left] = (tmp_path / "journal").glob("*.jsonl")
        lines = left.read_text().splitlines(keepends=True)
        left.write_text("".join(lines[:-1]))  # the process died before the end
        for report in (tmp_path / "journal").glob("*.report.json"):
            report.unlink()
        ensure_own_topic(Cluster.connect(second.target), f"drkit-state.{second.source.alias}.internal", {})
        file = tmp_path / "drkit.toml"
        file.write_text(toml(second.plain()), encoding="utf-8")
        other = drkit(file, "failover", "--resume")
        assert (other.code, other.error) == (2, "no_run"), other.err
        _delete(first, journal_topic(first.source.alias))
        file.write_text(toml(first.plain()), encoding="utf-8")
        own = drkit(file, "failover", "--resume")
        assert (own.code, own.error) == (3, "journal_run_lost"), own.err
    finally:
        second.close()
        first.close()


def _delete(world: World, topic: str) -> None:
    admin = world._admins[world.target.alias]
    admin.delete_topics([topic])[topic].result(30)
    eventually(lambda: topic not in admin.list_topics(timeout=5).topics, what="the deletion")
