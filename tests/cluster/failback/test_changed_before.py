"""What people change right before a switchover or failover: they delete a topic, or set something on one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from drkit.config import ClusterSettings
from drkit.failover.core.request import RunRequest
from drkit.flow_state.records import Ends, SourceSeenRecord
from drkit.flow_state.topic import StateTopic
from drkit.journal.machine import StepName
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import alter_topic_configs, delete_topics, topic_configs, topic_names
from drkit.model import TopicPartition
from tests.support.failback.pair import CUT, Pair
from tests.support.failover.command import drkit
from tests.support.failover.settings_file import written
from tests.support.failover.truth import values
from tests.support.flows.produce import fill
from tests.support.waiting import eventually

LEFT = 9
MINUTES = "600000000"
CUT_OFF = ("--clients-cut", CUT, "--yes")


@pytest.mark.wide
@pytest.mark.timeout(400)
def test_a_deleted_topic_holds_nothing(pair: Pair, tmp_path: Path) -> None:
    there, back = pair.now, pair.other
    _, gone = topics = [there.name(name) for name in ("orders", "gone")]
    for topic in topics:
        there.create(there.source, topic, 2, {"retention.ms": "-1"})
        fill(there.source, topic, 40)
    group, at = there.name("readers"), TopicPartition(gone, 0)
    there.commit(there.source, group, {at: 7})
    there.replicate()
    there.copied(topics, {group: None})
    copied = {p: values(r) for p, r in there.records(there.target, gone).items()}
    file = written(there, tmp_path)
    over, home = ("--flow", there.settings.flows[0].name), ("--flow", back.settings.flows[0].name)

    assert not delete_topics(Cluster.connect(there.source), [gone])
    eventually(lambda: gone in _why(file, over, gone), 30, lambda: _why(file, over, gone))
    said = drkit(file, "failover", *over, "--all", "--planned", *CUT_OFF)
    assert said.code == 0, said.err
    opened = f"opened on {there.target.alias} as copied: {gone} (deleted on the source"
    assert opened in str(said.data)
    there.stop_replicating()
    assert there.all_committed(group) == {at: 7}
    said = drkit(file, "reprotect", *over, *CUT_OFF, "--reason", "a test")
    assert said.code == 0, said.err
    back.replicate()
    back.copied(topics)
    assert {p: values(r) for p, r in back.records(back.target, gone).items()} == copied

    assert not delete_topics(Cluster.connect(back.source), [gone])
    eventually(lambda: gone in _why(file, home, gone), 30, lambda: _why(file, home, gone))
    said = drkit(file, "failover", *home, "--all", "--planned", *CUT_OFF)
    assert said.code == 0, said.err
    back.stop_replicating()
    assert {p: values(r) for p, r in back.records(back.target, gone).items()} == copied


@pytest.mark.wide
def test_what_a_deleted_topic_had_that_was_not_copied_is_lost(pair: Pair) -> None:
    """Without a switchover it counts: what is noted of the topic's ends says how much."""
    there = pair.now
    orders, gone = topics = [there.name(name) for name in ("orders", "gone")]
    for topic in topics:
        there.create(there.source, topic, 2, {"retention.ms": "-1"})
        fill(there.source, topic, 40)
    there.replicate()
    there.copied(topics)
    there.stop_replicating()
    copied = there.offsets(there.source, gone)
    fill(there.source, gone, LEFT, first=300)
    ends = there.offsets(there.source, gone)
    with StateTopic(there.target, there.source.alias) as state:
        state.load()
        seen = state.get(SourceSeenRecord)  # as a flow that lags has noted it
        assert seen is not None
        noted = {TopicPartition(gone, p): Ends(0, end) for p, end in ends.items()}
        state.put(replace(seen, ends={**seen.ends, **noted}))
    assert not delete_topics(Cluster.connect(there.source), [gone])
    eventually(lambda: gone not in topic_names(Cluster.connect(there.source)), 30, "the deletion")

    with there.desk() as desk:
        loss = desk.begin([], RunRequest(accept_data_loss="for the test"))["loss"]
    parts = {(p["topic"], p["partition"]): p for p in loss["partitions"]}
    for p, end in ends.items():
        part, left = parts[gone, p], end - copied[p]
        assert (part["lost_from"], part["records"]) == (copied[p], left)
        not_copied = f", {left} records were not copied before" if left else ""
        assert part["reason"] == f"deleted on the source{not_copied}"
        assert parts[orders, p]["records"] == 0
        assert not parts[orders, p]["reason"]
    assert loss["records"] == LEFT
    assert f"lost: {LEFT} records" in loss["statement"]


@pytest.mark.wide
def test_a_setting_of_the_last_minute_goes_with_the_clients(pair: Pair) -> None:
    there, back, topic = pair.now, pair.other, pair.now.name("orders")
    shorter = there.name("shorter")
    for name in (topic, shorter):
        there.create(there.source, name, 2, {"retention.ms": MINUTES, "segment.ms": "70000000"})
        fill(there.source, name, 40)
    there.replicate()
    there.copied([topic, shorter])
    changed = {"retention.ms": "-1", "segment.ms": None, "max.message.bytes": "2000000"}
    source = Cluster.connect(there.source)
    assert not alter_topic_configs(source, {topic: changed, shorter: changed | {"retention.ms": "60000000"}})
    report = pair.switch()
    [notes] = [step["notes"] for step in report["steps"] if step["step"] == StepName.SNAPSHOT]
    assert any("settings followed" in note for note in notes), notes
    assert any(f"{shorter}: retention.ms {MINUTES} → 60000000" in note for note in notes), notes
    expected = ("-1", None, "2000000")
    assert _settings(there.target, topic) == expected
    assert _settings(there.target, shorter) == (MINUTES, None, "2000000"), "the copy keeps its records"
    assert pair.reprotect()["state"] == "done"
    back.replicate()
    back.copied([topic, shorter])
    assert _settings(there.source, topic) == expected, "they were not taken back"
    assert _settings(there.source, shorter) == (MINUTES, None, "2000000"), "from then on it is passive"


def _settings(cluster: ClusterSettings, topic: str) -> tuple[str | None, ...]:
    found = topic_configs(Cluster.connect(cluster), [topic])[topic]
    asked = [found[name] for name in ("retention.ms", "segment.ms", "max.message.bytes")]
    return tuple(setting.value if setting.is_set_on_topic else None for setting in asked)


def _why(file: Path, flow: tuple[str, str], topic: str) -> str:
    [told] = drkit(file, "status", *flow).data["flows"]
    [found] = [t for t in told["pair"]["topics"] if t["topic"] == topic]
    why: str = found["why"]
    return f"{topic}: {why}" if "no such topic any more" in why else why
