"""An open transaction on the source, from its first record to the death of the primary: what it holds back
is at risk, a hanging one is a fault, and a failover says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from drkit.cli import main as cli
from drkit.failover.core.request import RunRequest
from drkit.flow_state.records import SourceSeenRecord
from drkit.local.cluster import LocalCluster
from drkit.local.spec import ClusterSpec
from drkit.monitoring.board import FlowWatch
from drkit.monitoring.metrics import FlowCollector, FlowFigures
from drkit.status.model import FlowStatus
from drkit.status.progress import Progress
from tests.support.failover.command import drkit
from tests.support.failover.open_transaction import OPEN, WAITING, Story
from tests.support.failover.settings_file import written
from tests.support.failover.world import World
from tests.support.flows.produce import fill, producer, put
from tests.support.waiting import eventually

COPIED = 20


@pytest.fixture(scope="module")
def story(target: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    # A producer may write in a transaction that no coordinator knows: that is how they come to hang.
    properties = {"transaction.partition.verification.enable": "false"}
    primary = LocalCluster(ClusterSpec("held", properties=properties)).start()
    world = World(primary, target, tmp_path_factory.mktemp("journal"), open_transaction_seconds=0.5)
    world.failover_fields["rpo_seconds"] = 600.0
    made = Story(world, primary)
    try:
        world.create(world.source, made.topic, 1, {"retention.ms": "-1"})
        fill(world.source, made.topic, COPIED)
        world.replicate()
        world.copied([made.topic])
        yield made
    finally:
        world.close()
        primary.stop()


@pytest.fixture(scope="module")
def seen(story: Story) -> FlowStatus:
    """The status with a transaction that its coordinator knows, at the end of the allowed time."""
    eventually(story.well, 60, "health")
    story.open(story.world.name("hangs"))
    return eventually(story.faulty, 60, "the fault")


@pytest.mark.wide
def test_what_it_holds_back_is_no_lag_and_is_at_risk(story: Story, seen: FlowStatus):
    [topic], [part] = seen.topics, [p for p in seen.partitions if p.topic == story.topic]
    assert (topic.records, topic.held_back) == (0, OPEN + WAITING)
    assert (part.frontier, part.source_end) == (COPIED, COPIED)
    assert part.high_watermark == COPIED + OPEN + WAITING
    assert part.held_back.acknowledged == WAITING
    loss = seen.loss
    assert (loss.records, loss.held_back, loss.acknowledged) == (OPEN + WAITING, OPEN + WAITING, WAITING)
    assert not loss.exact
    assert (loss.seconds or 0.0) > 0


@pytest.mark.wide
def test_the_fault_names_producer_age_and_what_ends_it(story: Story, seen: FlowStatus):
    [open_one] = seen.open_transactions
    assert (open_one.topic, open_one.partition, open_one.start_offset) == (story.topic, 0, COPIED)
    assert (open_one.transactional_id, open_one.state) == (story.world.name("hangs"), "Ongoing")
    assert (open_one.held_back, open_one.timeout_seconds) == (OPEN + WAITING, 900.0)
    assert (open_one.age_seconds or 0.0) > 0.5
    [fault] = [f for f in seen.faults if f.code == "hanging_transaction"]
    for words in (
        f"{story.topic}-0 on {story.world.source.alias}", f"producer id {open_one.producer_id}",
        f"{OPEN + WAITING} records from offset {COPIED} on", "aborts it after 900 s", open_one.command,
    ):  # fmt: skip
        assert words in fault.text
    assert seen.health == "fault"


@pytest.mark.wide
@pytest.mark.usefixtures("seen")
def test_a_failover_of_a_primary_that_answers_would_say_it(story: Story):
    with story.world.desk() as desk:
        found = desk.rehearse([], RunRequest())
    risk = found.survey.risk
    assert (risk.records, risk.held_back, risk.acknowledged) == (OPEN + WAITING, OPEN + WAITING, WAITING)
    assert not risk.exact
    assert (risk.seconds or 0.0) > 0
    held = f"up to {OPEN + WAITING} records held back by open transactions ({WAITING} acknowledged)"
    assert [x for x in found.lines if held in x.effect.why]


@pytest.mark.wide
@pytest.mark.usefixtures("seen")
def test_the_command_says_it_to_people_and_programs(
    story: Story, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = written(story.world, tmp_path)
    assert cli.run(["--config", str(file), "status"]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    number = OPEN + WAITING
    assert f"up to {number} records" in shown
    assert f"of them up to {number} held back by an open transaction of producer id" in shown
    assert f"({WAITING} acknowledged)" in shown
    told = drkit(file, "status").data["flows"][0]
    assert told["loss"]["held_back"] == number
    [open_one] = told["open_transactions"]
    assert open_one["transactional_id"] == story.world.name("hangs")
    [part] = [p for p in told["partitions"] if p["topic"] == story.topic]
    assert part["held_back"]["records"] == number


@pytest.mark.wide
def test_the_metrics_have_it(story: Story, seen: FlowStatus):
    figures = FlowFigures(seen, 1.0)
    found = {f.name: f.samples for f in FlowCollector(lambda: [figures], lambda: 1.0).collect()}
    [held] = found["drkit_held_back_records"]
    assert (held.labels["topic"], held.value) == (story.topic, OPEN + WAITING)
    ages = {s.labels["cluster"]: s.value for s in found["drkit_open_transaction_seconds"]}
    assert ages[story.world.source.alias] > 0.5
    assert ages[story.world.target.alias] == 0.0
    assert [s.value for s in found["drkit_rpo_records"]] == [OPEN + WAITING]


class Watched:
    """A flow that is only watched."""

    progress: Progress | None = None

    def __init__(self, story: Story) -> None:
        self.flow = story.world.settings.flows[0]


@pytest.mark.wide
@pytest.mark.usefixtures("seen")
def test_the_command_ends_it_and_all_is_well(story: Story):
    watch = FlowWatch(story.world.settings, Watched(story))
    with capture_logs() as logged:
        watch._take(story.look(), 1.0)
        watch._take(story.look(), 2.0)
        [open_one] = story.look().open_transactions
        story.run(open_one.command)
        well = eventually(story.well, 60, "health")
        watch._take(well, 3.0)
    assert (well.loss.held_back, well.open_transactions) == (0, ())
    assert well.topics[0].held_back == 0
    told = [e for e in logged if e["event"] in {"hanging_transaction", "transaction_ended"}]
    assert [e["event"] for e in told] == ["hanging_transaction", "transaction_ended"], "each of them once"
    assert told[0]["end_it"] == open_one.command


@pytest.mark.wide
def test_one_that_no_coordinator_knows_is_ended_by_a_marker(story: Story):
    """It hangs: no time limit ends it, ever."""
    world, topic = story.world, story.topic
    start = world.offsets(world.source, topic)[0]
    producer_id = story.hang()
    found = eventually(story.faulty, 60, "the fault")
    [open_one] = found.open_transactions
    assert (open_one.transactional_id, open_one.state, open_one.timeout_seconds) == (None, None, None)
    assert (open_one.producer_id, open_one.start_offset) == (producer_id, start)
    [fault] = [f for f in found.faults if f.code == "hanging_transaction"]
    assert "no coordinator ends it" in fault.text
    assert f"abort --topic {topic} --partition 0 --start-offset {start}" in open_one.command
    story.run(open_one.command)
    assert eventually(story.well, 60, "health").loss.held_back == 0


@pytest.mark.wide
def test_a_foreign_one_on_the_target_is_named(story: Story):
    world = story.world
    out = producer(world.target, transactional_id=world.name("stranger"))
    out.init_transactions(30)
    out.begin_transaction()
    other = world.name("payments")
    world.create(world.source, other, 1, {"retention.ms": "-1"})
    fill(world.source, other, 1)
    world.stop_replicating()
    world.replicate()
    world.copied([other])
    put(out, other, b"open", b"open", partition=0)
    assert out.flush(30) == 0
    found = eventually(story.faulty, 60, "the fault")
    [open_one] = [t for t in found.open_transactions if not t.source]
    assert (open_one.cluster, open_one.topic) == (world.target.alias, other)
    assert open_one.transactional_id == world.name("stranger")
    assert found.loss.held_back == 0, "the target's readers wait, nothing is at risk"
    out.abort_transaction(30)
    eventually(lambda: not story.look().open_transactions, 60, "its end")


@pytest.mark.wide
def test_a_failover_says_what_was_held_back_when_the_primary_died(story: Story, tmp_path: Path):
    """P32: the stated loss includes what could not be copied."""
    world, topic = story.world, story.topic
    fill(world.source, topic, 1)  # a marker at the end would count as a record once the source is gone
    world.copied([topic])
    first = world.offsets(world.source, topic)[0]
    story.open(world.name("dies"))

    def noted() -> bool:
        _, end, mark, *held = world.state()[SourceSeenRecord.KEY]["topics"][topic]["0"]
        return bool((end, mark) == (first, first + OPEN + WAITING) and held)

    eventually(noted, 60, "the note of the source's ends")
    story.primary.kill()
    dead = story.look()
    assert (dead.loss.held_back, dead.loss.acknowledged) == (OPEN + WAITING, WAITING)
    assert dead.loss.records == OPEN + WAITING

    # Heartbeats went on passing meanwhile: their age alone would allow it.
    held_ms = world.state()[SourceSeenRecord.KEY]["topics"][topic]["0"][3][2]
    with world.desk() as desk:
        risk = desk.rehearse([], RunRequest()).survey.risk
    assert (risk.records, risk.held_back, risk.acknowledged) == (OPEN + WAITING, OPEN + WAITING, WAITING)
    assert (risk.seconds or 0.0) >= (world.state()[SourceSeenRecord.KEY]["at_ms"] - held_ms) / 1000
    told = drkit(written(world, tmp_path), "failover", "--all", "--dry-run").out
    said = f"up to {OPEN + WAITING} records held back by open transactions ({WAITING} acknowledged)"
    assert said in told

    with world.desk() as desk:
        report = desk.begin((), RunRequest())
    loss = report["loss"]
    assert said in loss["statement"]
    assert (loss["records"], loss["held_back"]) == (OPEN + WAITING, OPEN + WAITING)
    [part] = [p for p in loss["partitions"] if p["topic"] == topic]
    assert (part["lost_from"], part["end"], part["high_watermark"]) == (first, first, first + OPEN + WAITING)
