"""Checkpoints that cannot be translated exactly: refused by partition, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable
import json
from pathlib import Path
from typing import Any

import pytest

from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.errors import ConfigError, Failed, Refused
from drkit.flow_state.names import state_topic
from drkit.model import TopicPartition
from drkit.offsets.spark_query import LoggedBatch, kafka_text
from drkit.translate.spark_checkpoint import CheckpointRequest, Told, translate_checkpoint
from tests.support.errors import coded, sentence
from tests.support.flows.flow import Flow
from tests.support.flows.known_flow import remember
from tests.support.flows.produce import fill, fill_transactions

Ask = Callable[..., Told]


def checkpoint(
    path: Path, *batches: dict[TopicPartition, int], committed: int, more: tuple[str, ...] = ()
) -> Path:
    """A checkpoint with one Kafka source and perhaps others."""
    for folder in ("offsets", "commits"):
        (path / folder).mkdir(parents=True)
    (path / "metadata").write_text('{"id":"0f"}')
    for number, offsets in enumerate(batches):
        texts = {str(i): t for i, t in enumerate((kafka_text(offsets), *more))}
        (path / "offsets" / str(number)).write_bytes(LoggedBatch("v1", "{}", texts).encode())
    for number in range(committed + 1):
        (path / "commits" / str(number)).write_text("v1\n{}")
    return path


class World:
    """A copied topic and a query that has read a part of it."""

    def __init__(self, flow: Flow, topic: str, folder: Path) -> None:
        self.flow, self.topic, self.folder = flow, topic, folder
        flow.create_both(topic, 2)
        fill_transactions(flow.source, [topic], 60, most=12)
        flow.copy(topic)
        remember(flow, topic)
        self.ends = flow.offsets(flow.source, topic)

    def at(self, *offsets: int) -> dict[TopicPartition, int]:
        return {TopicPartition(self.topic, p): o for p, o in enumerate(offsets)}

    def ask(self, path: Path, *, source: ClusterSettings | None = None, **more: Any) -> Told:
        """Translate a checkpoint into the folder ``new``."""
        sides = (source or self.flow.source, self.flow.target)
        flow = FlowSettings(source=self.flow.source.alias, target=self.flow.target.alias)
        settings = Settings(clusters={c.alias: c for c in sides}, flows=(flow,))
        return translate_checkpoint(
            settings, flow, CheckpointRequest(str(path), str(self.folder / "new"), **more)
        )

    def refused(self, path: Path, **more: Any) -> Refused:
        with pytest.raises(Refused) as seen:
            self.ask(path, **more)
        assert not (self.folder / "new").exists()
        return seen.value

    @property
    def gone(self) -> ClusterSettings:
        """The source, when it does not answer any more."""
        return ClusterSettings(alias=self.flow.source.alias, bootstrap_servers="127.0.0.1:1")


@pytest.fixture
def world(flow: Flow, topic_name: str, tmp_path: Path) -> World:
    return World(flow, topic_name, tmp_path)


@pytest.mark.wide
def test_there_and_back(world: World, tmp_path: Path) -> None:
    there = checkpoint(tmp_path / "c", world.at(3, 5), world.at(20, 25), committed=1)
    told = world.ask(there)
    assert told.written == str(tmp_path / "new")
    assert (told.query, told.accepted, told.notes, told.subscribe) == ("0f", "", [], {})
    places = {p.partition: p.to_offset for p in told.positions}
    assert places.keys() == {0, 1}
    new = LoggedBatch.parse((tmp_path / "new" / "offsets" / "1").read_bytes())
    assert json.loads(new.sources["0"] or "") == {world.topic: {str(p): o for p, o in places.items()}}
    back = CheckpointRequest(str(tmp_path / "new"), None, reverse=True)
    flow = FlowSettings(source=world.flow.source.alias, target=world.flow.target.alias)
    clusters = {c.alias: c for c in (world.flow.source, world.flow.target)}
    told = translate_checkpoint(Settings(clusters=clusters, flows=(flow,)), flow, back)
    assert told.written is None
    # From a hole the way back ends at the offset after it, at the same next record.
    again = CheckpointRequest(str(there), None)
    there_again = translate_checkpoint(Settings(clusters=clusters, flows=(flow,)), flow, again)
    assert [p.offset for p in told.positions] == [p.to_offset for p in there_again.positions]
    assert all((p.to_offset or 0) >= o for p, o in zip(told.positions, (20, 25), strict=True))


@pytest.mark.wide
def test_what_is_not_copied_yet(world: World, tmp_path: Path) -> None:
    fill(world.flow.source, world.topic, 30)
    ends = world.flow.offsets(world.flow.source, world.topic)
    assert all(ends[p] > world.ends[p] for p in ends)
    there = checkpoint(tmp_path / "c", world.at(3, 5), world.at(ends[0], 25), committed=1)
    error = world.refused(there)
    assert (
        f"{world.topic}-0 at {ends[0]} (reads on): source offset {ends[0]} is not copied yet"
        in error.evidence
    )
    assert f"{world.topic}-1 " not in error.evidence
    assert "drkit status" in error.hint
    world.flow.copy(world.topic)
    assert world.ask(there).written


@pytest.mark.wide
def test_a_planned_batch_whose_end_died_with_the_source(world: World, tmp_path: Path) -> None:
    beyond = world.ends[0] + 40
    planned = checkpoint(tmp_path / "planned", world.at(3, 5), world.at(beyond, 25), committed=0)
    error = world.refused(planned, source=world.gone)
    assert f"{world.topic}-0 at {beyond} (batch end): records of the planned batch" in error.evidence
    assert f"{world.topic}-1 " not in error.evidence
    assert "--accept-data-loss" in error.hint
    told = world.ask(planned, source=world.gone, accept_data_loss="the site burned down")
    assert told.accepted == "the site burned down"
    assert told.batch.startswith("1 was planned")


@pytest.mark.wide
def test_records_that_retention_has_removed(world: World, tmp_path: Path) -> None:
    world.flow.delete_records(world.topic, 1, 15, world.flow.target)
    there = checkpoint(tmp_path / "c", world.at(3, 2), world.at(20, 5), committed=1)
    error = world.refused(there)
    assert f"{world.topic}-1 at 5 (reads on): records that it has yet to read are gone" in error.evidence
    assert "behind retention: the target begins at 15" in error.evidence
    # History may lie there.
    there = checkpoint(tmp_path / "c2", world.at(3, 2), world.at(20, world.ends[1]), committed=1)
    assert world.ask(there).positions[1].offset == world.ends[1]


@pytest.mark.wide
def test_topics_and_sources_outside_of_the_flow(world: World, tmp_path: Path) -> None:
    other = kafka_text({TopicPartition("elsewhere", 0): 8})
    files = '{"logOffset":1}'
    there = checkpoint(tmp_path / "c", world.at(3, 5), world.at(9, 9), committed=1, more=(other, files))
    error = world.refused(there)
    assert "source 1, elsewhere-0 at 8 (reads on)" in error.evidence
    assert "does not copy the topic elsewhere" in error.evidence
    assert "--keep-source" in error.hint
    with pytest.raises(ConfigError, check=coded("query_source_unknown")) as unknown:
        world.ask(there, keep=("2",))
    assert str(unknown.value) == sentence("query_source_unknown", names="2")
    told = world.ask(there, keep=("1",))
    assert told.kept_sources == ["1"]
    new = LoggedBatch.parse((tmp_path / "new" / "offsets" / "1").read_bytes())
    assert (new.sources["1"], new.sources["2"]) == (other, files)
    with pytest.raises(Refused, check=coded("checkpoint_folder_in_use")):
        world.ask(there, keep=("1",))


@pytest.mark.wide
def test_partitions_that_the_target_does_not_have(world: World, tmp_path: Path) -> None:
    world.flow.grow(world.flow.source, world.topic, 3)
    there = checkpoint(tmp_path / "c", world.at(3, 5, 0), committed=0)
    assert f"{world.topic}-2 at 0 (reads on): the target topic has only 2" in world.refused(there).evidence


@pytest.mark.wide
def test_a_query_without_kafka(world: World, tmp_path: Path) -> None:
    path = checkpoint(tmp_path / "c", committed=-1)
    with pytest.raises(ConfigError, check=coded("query_without_offsets")):
        world.ask(path)


@pytest.mark.wide
def test_a_flow_that_never_ran_has_no_offsets_to_translate_to(
    flow: Flow, topic_name: str, tmp_path: Path
) -> None:
    there = checkpoint(tmp_path / "c", {TopicPartition(topic_name, 0): 3}, committed=0)
    settings = FlowSettings(source=f"never-{topic_name}", target=flow.target.alias)
    sides = (flow.source.model_copy(update={"alias": settings.source}), flow.target)
    with pytest.raises(Failed, check=coded("flow_not_known")) as unknown:
        translate_checkpoint(
            Settings(clusters={c.alias: c for c in sides}, flows=(settings,)),
            settings,
            CheckpointRequest(str(there), str(tmp_path / "new")),
        )
    error = unknown.value
    assert error.where == f"{state_topic(settings.source)} on {flow.target.alias}"
    assert error.evidence == "this topic does not exist"
    assert error.hint == f"copy first: drkit replicate --flow '{settings.name}'"
    assert not (tmp_path / "new").exists()
