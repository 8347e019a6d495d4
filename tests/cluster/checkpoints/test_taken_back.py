"""Checkpoints of groups and topics that are gone are taken back; nothing else may look like a deletion."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import cast
from uuid import UUID

import pytest

from drkit.checkpoints.shard import ShardReport
from drkit.checkpoints.work import CheckpointWork
from drkit.failover.checks.survey import positions_of
from drkit.failover.core.context import Context
from drkit.failover.core.request import RunRequest
from drkit.flow_state.copied_topics import known_of
from drkit.flow_state.records import GenerationRecord
from drkit.flow_state.state import FlowState
from drkit.kafka.admin import Cluster
from drkit.kafka.groups.requests import Committed
from drkit.kafka.requests import metadata
from drkit.kafka.topics import delete_topics
from drkit.mm2_topics.checkpoint_topic import CheckpointTail, CheckpointTopic
from drkit.model import TopicPartition
from drkit.offsets.mm2_records import Checkpoint
from drkit.status.groups_look import GroupLook
from tests.support.flows.flow import Flow
from tests.support.status.checkpoint_world import World
from tests.support.waiting import eventually


class Rounds(World):
    """Rounds as a driver plans them, from both clusters and the flow's state."""

    def __init__(self, flow: Flow, topic: str) -> None:
        super().__init__(flow, topic)
        self.state, self.settings = FlowState(), flow.settings
        self.know(topic, *self.shard.known.topics[topic][1:])
        self.log = CheckpointTail(flow.target, self.checkpoints)

    def know(self, topic: str, source_id: UUID, target_id: UUID) -> None:
        record = GenerationRecord(topic, source_id, target_id)
        self.state.keep(GenerationRecord.key(topic), record, record.encode())

    def next(self) -> ShardReport:
        """The next round of a driver that has just started."""
        work = CheckpointWork((self.flow.source, self.flow.target), self.settings.name)
        try:
            (shard,) = work.of_all(self.settings, self.state) or [replace(self.shard, groups=())]
            report = self.task.run(shard)
        finally:
            work.close()
        assert not report.error, report.error
        return report

    def recorded(self) -> set[str]:
        """The groups that a failover without the source would find; every reader says the same."""
        found = self.flow.ask(self.flow.target, lambda raw: metadata(raw, [self.checkpoints]))
        self.log.read(found[self.checkpoints].topic_id)
        groups = set(self.log.of(None))
        tail = CheckpointTail(self.flow.target, self.checkpoints)
        tail.read(found[self.checkpoints].topic_id)
        tail.close()
        assert set(tail.of(groups | {"another"})) == set(tail.newest) == groups
        assert (tail.unreadable, tail.first_unreadable, tail.gone) == (0, "", self.log.gone)
        return groups

    def left_without_source(self) -> set[str]:
        """The groups of a failover without the source, which `drkit status` names as well."""
        context = SimpleNamespace(
            flow=self.settings, known=known_of(self.state), target=None, target_settings=self.flow.target,
            kept=SimpleNamespace(checkpoints_of=lambda *_: self.log), request=RunRequest(),
            run=lambda question, _, *more: self.flow.ask(self.flow.target, question, *more),
        )  # fmt: skip
        positions, _ = positions_of(cast("Context", context), None)
        look = GroupLook((self.flow.source, self.flow.target), self.settings)
        seen = look.look(self.state, source_answers=False)
        look.close()
        assert not seen.error, seen.error
        assert {group.group for group in seen.groups} == set(positions)
        return set(positions)

    def delete(self, group: str) -> None:
        assert self.ask(self.flow.source, lambda g: g.delete([group])) == {group: 0}


@pytest.fixture
def rounds(flow: Flow, topic_name: str) -> Iterator[Rounds]:
    made = Rounds(flow, topic_name)
    yield made
    made.task.close()


def test_the_round_that_sees_a_deletion_takes_the_checkpoints_back(rounds: Rounds) -> None:
    rounds.settings = rounds.settings.model_copy(update={"groups": (rounds.group, "h-.*")})
    other, stranger = f"h-{rounds.topic}", f"left-{rounds.topic}"
    for group in (rounds.group, other):
        rounds.commit(rounds.flow.source, 5, group)
    rounds.next()
    CheckpointTopic(rounds.flow.target, rounds.checkpoints).write(
        [Checkpoint(stranger, rounds.topic, 0, 1, 1)]
    )
    assert rounds.recorded() == {rounds.group, other, stranger}

    assert rounds.left_without_source() == {rounds.group, other}

    rounds.delete(rounds.group)
    assert rounds.next().forgotten == [rounds.group]
    assert rounds.there(rounds.group) is not None, "its offset on the target stays for days"
    assert rounds.left_without_source() == {other}
    assert rounds.recorded() == {other, stranger}, "a group that the flow leaves out is not looked after"
    assert rounds.log.gone == {rounds.group}
    assert rounds.next().forgotten == []

    rounds.commit(rounds.flow.source, 5)
    assert rounds.group in rounds.next().emitted_groups
    assert rounds.recorded() == {rounds.group, other, stranger}
    assert rounds.log.gone == set()


def test_another_source_under_the_same_name_deletes_nothing(rounds: Rounds) -> None:
    """A primary that was built again is empty: its groups are where they were."""
    rounds.settings = rounds.settings.model_copy(update={"groups": (rounds.group,)})
    rounds.commit(rounds.flow.source, 5)
    rounds.next()
    rounds.delete(rounds.group)
    _, source_id, target_id = rounds.shard.known.topics[rounds.topic]
    rounds.know(rounds.topic, UUID(int=source_id.int ^ 1), target_id)
    assert rounds.next().forgotten == []
    assert rounds.recorded() == {rounds.group}


def test_a_topic_that_is_gone_on_the_target_takes_its_checkpoints_along(rounds: Rounds) -> None:
    rounds.settings = rounds.settings.model_copy(update={"groups": (rounds.group,)})
    more, at = f"{rounds.topic}-more", TopicPartition(f"{rounds.topic}-more", 0)
    rounds.flow.create_both(more, 1)
    rounds.commit(rounds.flow.source, 5)
    rounds.ask(rounds.flow.source, lambda g: g.alter({rounds.group: {at: Committed(0)}}))
    CheckpointTopic(rounds.flow.target, rounds.checkpoints).write([Checkpoint(rounds.group, more, 0, 0, 0)])
    assert rounds.next().forgotten == [], "a topic that is there may be another tool's"
    delete_topics(Cluster.connect(rounds.flow.target), [more])
    eventually(lambda: rounds.next().forgotten == [rounds.group], what="the checkpoint taken back")
    assert rounds.recorded() == {rounds.group}
