"""The offsets that earlier verifications reached, stored in the flow's state topic on the target."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from drkit.clock import wall_ms
from drkit.config import ClusterSettings
from drkit.flow_state.records import VerifiedRecord
from drkit.flow_state.topic import StateTopic
from drkit.model import TopicPartition


class Checked(NamedTuple):
    """A partition that was found equal."""

    partition: TopicPartition
    """Of the source."""
    ids: tuple[UUID, UUID]
    """Of the topic on both sides: another generation was not checked."""
    source_offset: int
    """The frontier at that time."""
    target_offset: int


def read(state: StateTopic, ids: tuple[UUID, UUID], partition: TopicPartition) -> tuple[int, int] | None:
    """Source and target offset up to which these two topics were found equal, if they ever were."""
    found = state.get(VerifiedRecord, VerifiedRecord.name_of(partition))
    if found is None or (found.source_id, found.target_id) != ids:
        return None
    return found.source_offset, found.target_offset


def remember(target: ClusterSettings, source: str, found: Iterable[Checked]) -> None:
    """Store what was found equal.

    :raises Failed: the state topic does not accept it
    """
    state = StateTopic(target, source)
    try:
        for each in found:
            record = VerifiedRecord(*each.ids, each.source_offset, each.target_offset, wall_ms())
            state.put(record, VerifiedRecord.name_of(each.partition))
    finally:
        state.close()
