"""What the source has is noted on the target at the first look after a turn, though nobody writes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

import pytest

from drkit.config import Settings
from drkit.errors import DrkitError
from drkit.failover.core.context import Scope
from drkit.failover.loss.silent import noted_copied
from drkit.flow_state.names import state_topic
from drkit.flow_state.records import ReturnRecord, SourceSeenRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import alter_topic_configs
from drkit.model import TopicPartition
from drkit.status.facts import noted_ends
from drkit.status.paired import PairedCollector
from tests.support.flows.flow import Flow
from tests.support.flows.produce import aged, fill


def turns_noted(state: StateTopic) -> Mapping[str, int] | None:
    """The turns that the newest note names."""
    state.load()
    note = state.records.get(SourceSeenRecord)
    assert note is not None
    return note.returns


def is_due(collector: PairedCollector) -> bool:
    """Whether the next look is to be noted though a note was made a moment ago."""
    return collector.is_note_due


def looking(flow: Flow, topics: str) -> PairedCollector:
    """What a replicator of some topics notes with."""
    ours = flow.settings.model_copy(update={"topics": (topics,), "emit_heartbeats": False})
    settings = Settings(clusters={c.alias: c for c in (flow.source, flow.target)}, flows=(ours,))
    return PairedCollector(settings, ours, scan_up_to=0, groups=False)


def test_a_turn_is_noted_though_the_ends_are_the_same(flow: Flow, topic_name: str) -> None:
    """A note that did not change was not written again, and one from before the turn counts for nothing.

    So a failover called the copy of a quiet topic not wholly copied back, for as long as nobody wrote.
    """
    flow.create_both(topic_name, 1)
    fill(flow.source, topic_name, 5)
    with (
        StateTopic(flow.target, flow.source.alias) as state,
        closing(looking(flow, topic_name)) as collector,
    ):
        collector.look()
        collector.remember_source()
        assert turns_noted(state) == {}
        state.put(ReturnRecord("over", "turn", 1), topic_name)
        assert not noted_ends(state.records)
        collector.look()
        collector.remember_source()
        assert turns_noted(state) == {"turn": 1}
        assert noted_ends(state.records)[TopicPartition(topic_name, 0)].end == 5


def test_a_new_topic_is_noted_at_the_first_look_that_sees_it(flow: Flow, topic_name: str) -> None:
    """A note is otherwise made every 10 s, or later: a primary that died until then left a loss unknown.

    A partition whose copy has not begun has no age: what is noted then is noted again once it has.
    """
    first, second = topic_name, f"{topic_name}-second"
    flow.create_both(first, 1)
    with closing(looking(flow, f"{topic_name}.*")) as collector:
        assert not is_due(collector), "nothing was seen yet"
        collector.look()
        assert is_due(collector)
        collector.remember_source()
        assert not is_due(collector)
        flow.create_both(second, 1)
        collector.look()
        assert is_due(collector)
        collector.remember_source()
        assert not is_due(collector)


def test_a_topic_that_waits_says_nothing_of_the_others(flow: Flow, topic_name: str) -> None:
    """After a return of some topics the others wait; a failover of those that came back was refused."""
    back, waits = topic_name, f"{topic_name}-waits"
    flow.create_both(back, 1)
    flow.create_both(waits, 1)
    fill(flow.source, waits, 5, timestamp=aged(600_000))
    with (
        StateTopic(flow.target, flow.source.alias) as state,
        closing(looking(flow, f"{topic_name}.*")) as collector,
    ):
        collector.look()
        collector.remember_source()
        state.load()
        note = state.records.get(SourceSeenRecord)
    assert note is not None
    assert note.copied_ms is not None
    assert note.copied_ms <= note.at_ms - 600_000
    scopes = (
        Scope({topic: topic for topic in topics}, (), whole_flow=all_)
        for topics, all_ in (((back,), False), ((waits,), False), ((back, waits), False), ((back,), True))
    )
    late = note.copied_ms
    assert [noted_copied(note, scope) for scope in scopes] == [note.at_ms, late, late, late]


def test_a_note_that_is_refused_is_not_sent_at_each_look(flow: Flow, topic_name: str) -> None:
    """As one of a very large flow is, which the target's limit for a record refuses: megabytes every 5 s."""
    flow.create_both(topic_name, 1)
    target, name = Cluster.connect(flow.target), state_topic(flow.source.alias)
    with closing(looking(flow, topic_name)) as collector:
        collector.look()
        assert not alter_topic_configs(target, {name: {"max.message.bytes": "10"}})
        with pytest.raises(DrkitError):
            collector.remember_source()
        assert not is_due(collector)
        assert not alter_topic_configs(target, {name: {"max.message.bytes": None}})
        collector.look()
        collector.remember_source()
        fill(flow.source, topic_name, 1)
        collector.look()
        assert not is_due(collector), "it was noted"
