"""How far earlier verifications came, remembered in the flow's state topic on the target."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from drkit.clock import wall_ms
from drkit.config import ClusterSettings
from drkit.model import TopicPartition
from drkit.replicate.state_topic import StateTopic


class Checked(NamedTuple):
    """A partition that was found equal."""

    partition: TopicPartition
    """Of the source."""
    ids: tuple[UUID, UUID]
    """Of the topic on both sides: another generation was not checked."""
    source_offset: int
    """The frontier then."""
    target_offset: int


def read(state: StateTopic, ids: tuple[UUID, UUID], partition: TopicPartition) -> tuple[int, int] | None:
    """Source and target offset up to which these two topics were found equal, if they ever were."""
    found = state.values.get(_key(partition))
    if found is None or (found.get("source_id"), found.get("target_id")) != (str(ids[0]), str(ids[1])):
        return None
    return int(found["source_offset"]), int(found["target_offset"])


def remember(target: ClusterSettings, source: str, found: Iterable[Checked]) -> None:
    """Write down what was found equal.

    :raises Failed: the state topic does not take it
    """
    state = StateTopic(target, source)
    try:
        for each in found:
            body = {
                "source_id": str(each.ids[0]),
                "target_id": str(each.ids[1]),
                "source_offset": each.source_offset,
                "target_offset": each.target_offset,
                "at_ms": wall_ms(),
            }
            state.put(_key(each.partition), body)
    finally:
        state.close()


def _key(partition: TopicPartition) -> str:
    return f"verified/{partition.topic}/{partition.partition}"
