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
