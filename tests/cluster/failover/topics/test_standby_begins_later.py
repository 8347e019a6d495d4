"""The standby has removed copied records that the primary keeps: status, failovers and positions say so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drkit.errors import Refused
from drkit.failover.core.request import RunRequest
from drkit.flow_state.records import ConfigsRecord
from drkit.flow_state.topic import StateTopic
from drkit.model import TopicPartition
from drkit.status.look import StatusCollector
from drkit.status.model import FlowStatus
from tests.support.errors import coded
from tests.support.failback.pair import Pair, Side
from tests.support.failover.command import drkit
from tests.support.failover.settings_file import written
from tests.support.flows.produce import aged, fill
from tests.support.shared_clusters import ModuleClusters
from tests.support.waiting import eventually

RECORDS, READ, REMOVED = 1000, 200, 700
DAY_MS = 86_400_000
LATER = coded("standby_begins_later")


@pytest.fixture
def pair(module_cluster: ModuleClusters, tmp_path: Path) -> Iterator[Pair]:
    standby = module_cluster("standby")
    found = Pair(module_cluster("primary"), standby, tmp_path / "journal")
    yield found
    found.close()


def _looked(side: Side) -> FlowStatus:
    settings = side.settings
    with closing(StatusCollector(settings, settings.flows[0])) as collector:
        return collector.look()


def _missing(status: FlowStatus) -> dict[TopicPartition, int]:
    return {TopicPartition(p.topic, p.partition): p.missing for p in status.partitions if p.missing}


def _codes(status: FlowStatus) -> set[str]:
    return {f.code for f in status.faults}


def _copied(side: Side, config: dict[str, str], **how: Any) -> tuple[str, str]:
    """A topic with a copy of everything, and a group that has read a part of it."""
    topic, group = side.name("t"), side.name("lags")
    side.create(side.source, topic, 1, config)
    fill(side.source, topic, RECORDS, **how)
    side.commit(side.source, group, {TopicPartition(topic, 0): READ})
    side.replicate()
    side.copied([topic], {group: 1})
    return topic, group


def _lost(side: Side) -> tuple[str, str]:
    topic, group = _copied(side, {"retention.ms": "-1"})
    side.delete_records(topic, 0, REMOVED, side.target)
    return topic, group


@pytest.mark.wide
def test_a_switchover_is_refused_until_the_records_are_given_up(pair: Pair, tmp_path: Path) -> None:
    side = pair.now
    topic, group = _lost(side)
    at = TopicPartition(topic, 0)

    status = _looked(side)
    assert (_missing(status), "standby_begins_later" in _codes(status)) == ({at: REMOVED}, True)
    file = written(side, tmp_path)
    [part] = drkit(file, "status", "--flow", side.settings.flows[0].name).data["flows"][0]["pair"]["parts"]
    assert (part["state"], part["topics"]) == ("unprotected", 1), part
    assert "has removed records" in part["why"]
    found = drkit(file, "translate", "--flow", side.settings.flows[0].name, "--group", group).data
    (line,) = found["positions"] if isinstance(found, dict) else found
    assert line["answer"] == "unavailable", line
    with side.desk() as desk, pytest.raises(Refused, check=LATER) as refused:
        desk.begin([], RunRequest(planned=True))
    assert (f"{topic}-0: {REMOVED}" in refused.value.evidence, "--give-up-history" in refused.value.hint) == (
        True,
        True,
    )
    side.commit(side.source, group, {at: READ + 50})  # a round looks at the group again
    eventually(lambda: _refused_group(side, group), 30, "the group is named by a checkpoint round")
    assert side.committed(side.target, group)[at].offset == READ, "not moved over the gap"

    report = pair.switch(give_up_history=(topic,))
    loss = report["loss"]
    assert (report["state"], loss["records"], loss["exact"]) == ("done", REMOVED, False)
    assert "nothing is lost" not in loss["statement"]
    notes = [n for step in report["steps"] for n in step["notes"]]
    assert any(group in n and "skips" in n for n in notes), notes
    assert not any("1 position of" in n for n in notes), "it is no exact one"
    assert side.committed(side.target, group)[at].offset == REMOVED


def _refused_group(side: Side, group: str) -> bool:
    groups = _looked(side).groups
    assert groups is not None
    return any(g.group == group and not g.ready for g in groups.groups)


def test_an_unplanned_failover_states_what_both_sides_have_lost(pair: Pair) -> None:
    """Noted while the primary answers; what is removed after that is found as well."""
    side = pair.now
    topic, group = _lost(side)
    eventually(lambda: _missing(_looked(side)), what="the look")
    side.stop_replicating()
    side.brokers[0].kill()
    side.delete_records(topic, 0, REMOVED + 100, side.target)
    assert _missing(_looked(side)) == {TopicPartition(topic, 0): REMOVED + 100}
    with side.desk() as desk:
        report = desk.begin([], RunRequest(accept_data_loss="it is dead"))
    assert report["state"] == "done"
    assert report["loss"]["records"] >= REMOVED + 100
    assert f"{REMOVED + 100} records that the standby has removed: {topic}-0@0" in report["loss"]["statement"]
    assert side.committed(side.target, group)[TopicPartition(topic, 0)].offset == REMOVED + 100


@pytest.mark.wide
def test_without_a_retention_on_record_it_is_unknown(pair: Pair) -> None:
    """An older replicator did not note the source's settings: "nothing is lost" is not known."""
    side = pair.now
    topic, _ = _lost(side)
    side.stop_replicating()
    with StateTopic(side.target, side.source.alias) as state:
        state.load()
        state.put(replace(state.all(ConfigsRecord)[topic], retention=None), topic)
    unknown = f"no retention of {topic} is on record"
    for answers in (True, False):
        if not answers:
            side.brokers[0].kill()
        [text] = [f.text for f in _looked(side).faults if f.code == "standby_begins_later"]
        assert (f"{REMOVED} records" in text, unknown in text) == (True, True), text
    with side.desk() as desk:
        report = desk.begin([], RunRequest(accept_data_loss="it is dead"))
    loss = report["loss"]
    assert (loss["records"] >= REMOVED, loss["exact"]) == (True, False)
    assert f"how many the source keeps is unknown: {unknown}" in loss["statement"], loss
    notes = [n for step in report["steps"] for n in step["notes"]]
    assert not any("1 position of" in n for n in notes), "it is no exact one"


@pytest.mark.wide
@pytest.mark.parametrize(
    "config", [{"retention.ms": str(DAY_MS)}, {"retention.ms": "-1", "retention.bytes": "1"}]
)
def test_what_the_retention_of_the_source_removes_as_well_is_not_missing(
    pair: Pair, config: dict[str, str]
) -> None:
    """By time or size, at another moment on each side; and what is deleted on the source."""
    side = pair.now
    topic, _ = _copied(side, config, timestamp=aged(2 * DAY_MS))
    for before, cluster in ((300, side.target), (500, side.source), (REMOVED, side.target)):
        side.delete_records(topic, 0, before, cluster)
        assert not _missing(_looked(side)), "its time is over"
    eventually(lambda: side.state()["source-seen"]["topics"][topic]["0"][0] >= REMOVED, 40, "the note")
    side.stop_replicating()
    side.brokers[0].kill()
    assert not _missing(_looked(side)), "the note says so when the source is gone"
    side.delete_records(topic, 0, REMOVED + 100, side.target)
    assert not _missing(_looked(side)), "the first record that is left is older"


@pytest.mark.wide
def test_compaction_of_the_standby_alone_is_found(pair: Pair) -> None:
    side = pair.now
    side.flow_fields["sync_topic_configs"] = False
    topic, _ = _copied(side, {"retention.ms": "-1"})
    side.stop_replicating()
    side.configure(side.target, topic, "cleanup.policy", "compact")
    side.replicate()  # it compares the settings when it begins
    eventually(lambda: "standby_compacted" in _codes(_looked(side)), 90, "the comparison of settings")
    with side.desk() as desk, pytest.raises(Refused, check=LATER) as refused:
        desk.begin([], RunRequest(planned=True))
    assert f"{topic} is compacted on the standby alone" in refused.value.evidence
