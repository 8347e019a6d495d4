"""Checks a flow's internal topics: they are the same as before and readable, or the flow is refused.

Without its state or its offset map a flow would copy everything again after the records already copied. So
it refuses to continue when one of them is missing, is another topic of the same name (KIP-516), or holds an
unreadable record instead of one of drkit's.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from drkit import observe
from drkit.clock import wall_ms
from drkit.config import FlowSettings
from drkit.control_key import WHO_WRITES
from drkit.errors import Refused
from drkit.flow_state.creation import ensure_offset_map
from drkit.flow_state.names import offset_map_topic
from drkit.flow_state.records import (
    ControlKeyRecord,
    ControlRecord,
    LeaseRecord,
    OffsetMapRecord,
    StandbyRecord,
)
from drkit.flow_state.repair import restore
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.requests import TopicMetadata
from drkit.kafka.topics import describe_topics, list_offsets
from drkit.model import TopicPartition

_OF_OTHERS: Final = frozenset({LeaseRecord.KEY, ControlRecord.KEY})
"""Keys of which an older value is wrong by now; their writers renew them all the time."""


class InternalTopics:
    """Looks after both topics for one run of a flow, the holder of its lease.

    :param state: loaded
    :raises Refused: it is unknown what was copied
    :raises DrkitError: the target does not answer
    """

    def __init__(self, target: Cluster, flow: FlowSettings, state: StateTopic) -> None:
        self._target, self._flow, self._state = target, flow, state
        self._map = offset_map_topic(flow.source)
        self._reported: set[str] = set()
        state.records.refuse_damaged()
        if state.get(OffsetMapRecord) is None:
            self._refuse_lost_state()
        ensure_offset_map(target, flow, state)
        control = target.settings.control
        if control is not None and state.get(ControlKeyRecord) is None:
            state.put(ControlKeyRecord(wall_ms(), control.current.fingerprint))
        self._state_id = self._described()[state.name].topic_id

    def check(self) -> None:
        """Check that both topics exist and are the same as before.

        :raises Refused: one is missing or another topic
        :raises DrkitError: the target does not answer
        """
        found = self._described()
        self._refuse_other(self._state.name, found.get(self._state.name), self._state_id, "the flow's state")
        recorded = self._state.get(OffsetMapRecord)
        assert recorded is not None  # noqa: S101  created or refused at the start
        self._refuse_other(self._map, found.get(self._map), recorded.topic_id, "the offset map")

    def restore(self) -> None:
        """Report records that are not drkit's; where one hides a record of drkit, write that again.

        :raises DrkitError: it cannot be written
        """
        records = self._state.records
        found = [*records.unreadable.items(), *records.forged.items()]
        new = [(key, why) for key, why in found if f"{key} {why}" not in self._reported]
        if not new or self._is_hidden():
            return
        for key, why in new:
            self._reported.add(f"{key} {why}")
            restored = not _is_of_others(key) and restore(self._state, key)
            observe.event(
                "internal_topic_unreadable", level="warning", flow=self._flow.name, topic=self._state.name,
                cluster=self._target.alias, key=key, reason=why, restored=restored,
                hint=WHO_WRITES,
            )  # fmt: skip

    def _is_hidden(self) -> bool:
        """Whether an open transaction hides later records, which may be newer than the loaded state."""
        at = TopicPartition(self._state.name, 0)
        return list_offsets(self._target, [at], "latest", committed=False)[at] > self._state.position

    def _described(self) -> dict[str, TopicMetadata]:
        return describe_topics(self._target, [self._state.name, self._map])

    def _refuse_other(self, name: str, found: TopicMetadata | None, expected: UUID, what: str) -> None:
        if found is not None and found.topic_id == expected:
            return
        raise Refused(
            "internal_topic_deleted",
            where=f"{name} on {self._target.alias}",
            evidence=f"it had the id {expected}, now {found.topic_id if found else 'it is missing'}",
            hint=_anew(self._map, self._state.name),
            what=what,
        )

    def _refuse_lost_state(self) -> None:
        """Nothing says that the flow ever ran, but its offset map does."""
        found = describe_topics(self._target, [self._map]).get(self._map)
        if found is None:
            return
        at = [TopicPartition(self._map, number) for number in found.leaders]
        records = sum(list_offsets(self._target, at, "latest").values())
        if not records:
            return  # made a moment ago by a run that was killed before it could say so
        raise Refused(
            "state_deleted",
            where=f"{self._state.name} on {self._target.alias}",
            evidence=f"it knows no offset map, but {self._map} is there, written to {records} times",
            hint=_anew(self._map, self._state.name),
        )


def _is_of_others(key: str) -> bool:
    return key in _OF_OTHERS or key.startswith(StandbyRecord.KEY)


def _anew(offset_map: str, state: str) -> str:
    topics = " and ".join(name for name in (offset_map, state) if name)
    return f"to copy from the start, delete the copied topics, {topics} on the target"
