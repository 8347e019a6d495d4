"""What the source has is noted on the target at the first look after a turn, though nobody writes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

from drkit.config import Settings
from drkit.flow_state.records import ReturnRecord, SourceSeenRecord
from drkit.flow_state.topic import StateTopic
from drkit.model import TopicPartition
from drkit.status.facts import noted_ends
from drkit.status.paired import PairedCollector
from tests.support.flows.flow import Flow
from tests.support.flows.produce import fill


def turns_noted(state: StateTopic) -> Mapping[str, int] | None:
    """The turns that the newest note names."""
    state.load()
    note = state.records.get(SourceSeenRecord)
    assert note is not None
    return note.returns


def is_due(collector: PairedCollector) -> bool:
    """Whether the next look is to be noted though a note was made a moment ago."""
    return collector.is_note_due


def test_a_turn_is_noted_though_the_ends_are_the_same(flow: Flow, topic_name: str) -> None:
    """A note that did not change was not written again, and one from before the turn counts for nothing.

    So a failover called the copy of a quiet topic not wholly copied back, for as long as nobody wrote.
    """
    flow.create_both(topic_name, 1)
    fill(flow.source, topic_name, 5)
    ours = flow.settings.model_copy(update={"topics": (topic_name,), "emit_heartbeats": False})
    settings = Settings(clusters={c.alias: c for c in (flow.source, flow.target)}, flows=(ours,))
    with (
        StateTopic(flow.target, flow.source.alias) as state,
        closing(PairedCollector(settings, ours, scan_up_to=0, groups=False)) as collector,
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
    ours = flow.settings.model_copy(update={"topics": (f"{topic_name}.*",), "emit_heartbeats": False})
    settings = Settings(clusters={c.alias: c for c in (flow.source, flow.target)}, flows=(ours,))
    with closing(PairedCollector(settings, ours, scan_up_to=0, groups=False)) as collector:
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
