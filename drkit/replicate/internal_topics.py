"""The topics in which a flow keeps what it knows: still those of before and readable, or a clear word.

Without its state or its offset map a flow would copy everything once more behind what it has copied. So it
refuses to go on when one of them is missing, or is another topic of the same name (KIP-516), or holds a
record in place of one of drkit's that nobody can read.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from drkit import observe
from drkit.config import FlowSettings
from drkit.errors import Refused
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import Topic, describe_topics, list_offsets
from drkit.model import TopicPartition
from drkit.offset_map.topic import topic_name as map_topic_name
from drkit.replicate.state_topic import (
    BULK_PRODUCER_ID,
    CONTROL,
    FLOW,
    LEASE,
    OFFSET_MAP,
    PRODUCER_IDS,
    SKIPS,
    TAKEOVER,
    StateTopic,
    ensure_offset_map,
    topic_key,
)

_NEEDED: Final = (PRODUCER_IDS, BULK_PRODUCER_ID, OFFSET_MAP, FLOW, SKIPS, TAKEOVER, topic_key(""), "role/")
"""Beginnings of keys of the state without which a flow would do something else than before."""
_OF_OTHERS: Final = frozenset({LEASE, CONTROL})
"""What an older value of would be wrong by now; whoever needs them writes them all the time."""


class InternalTopics:
    """Looks after both topics for one run of a flow, the holder of its lease.

    :param state: loaded
    :raises Refused: what was copied is not known any more
    :raises DrkitError: the target does not answer
    """

    def __init__(self, target: Cluster, flow: FlowSettings, state: StateTopic) -> None:
        self._target, self._flow, self._state = target, flow, state
        self._map = map_topic_name(flow.source)
        self._told: set[str] = set()
        refuse_unreadable(state, target.alias)
        if OFFSET_MAP not in state.values:
            self._refuse_lost_state()
        ensure_offset_map(target, flow, state)
        self._state_id = self._described()[state.name].topic_id

    def check(self) -> None:
        """Look whether both are there and the same.

        :raises Refused: one is not
        :raises DrkitError: the target does not answer
        """
        found = self._described()
        self._refuse_other(self._state.name, found.get(self._state.name), self._state_id, "the flow's state")
        ours = UUID(self._state.values[OFFSET_MAP]["topic_id"])
        self._refuse_other(self._map, found.get(self._map), ours, "the offset map")

    def restore(self) -> None:
        """Tell of records that are not drkit's; where one hides what drkit wrote, write that again.

        :raises DrkitError: it cannot be written
        """
        for key, why in list(self._state.unreadable.items()):
            if f"{key} {why}" in self._told:
                continue
            self._told.add(f"{key} {why}")
            known = self._state.values.get(key) if key not in _OF_OTHERS else None
            observe.event(
                "internal_topic_unreadable", level="warning", flow=self._flow.name, topic=self._state.name,
                cluster=self._target.alias, key=key, reason=why, restored=known is not None,
                hint=_WHO_WRITES,
            )  # fmt: skip
            if known is not None:
                self._state.put(key, known)

    def _described(self) -> dict[str, Topic]:
        return describe_topics(self._target, [self._state.name, self._map])

    def _refuse_other(self, name: str, found: Topic | None, expected: UUID, what: str) -> None:
        if found is not None and found.topic_id == expected:
            return
        raise Refused(
            f"{what} was deleted while the flow ran",
            where=f"{name} on {self._target.alias}",
            evidence=f"it had the id {expected}, now {found.topic_id if found else 'it is missing'}",
            hint=_anew(self._map, self._state.name),
        )

    def _refuse_lost_state(self) -> None:
        """Nothing says that the flow ever ran, but its offset map does."""
        found = describe_topics(self._target, [self._map]).get(self._map)
        if found is None:
            return
        at = [TopicPartition(self._map, number) for number in found.partitions]
        records = sum(list_offsets(self._target, at, "latest").values())
        if not records:
            return  # made a moment ago by a run that was killed before it could say so
        raise Refused(
            "the flow's state was deleted: nobody knows any more what was copied, or with which producers",
            where=f"{self._state.name} on {self._target.alias}",
            evidence=f"it knows no offset map, but {self._map} is there, written to {records} times",
            hint=_anew(self._map, self._state.name),
        )


def refuse_unreadable(state: StateTopic, alias: str) -> None:
    """Nobody may go by a state of which a part cannot be read.

    :param state: loaded
    :raises Refused: a record hides one of drkit's that compaction has removed
    """
    lost = {k: why for k, why in state.unreadable.items() if k.startswith(_NEEDED) and k not in state.values}
    if lost:
        key, why = next(iter(lost.items()))
        raise Refused(
            "the flow's state holds a record that is not drkit's, in place of one that it needs",
            where=f"{state.name} on {alias}",
            evidence=f"key {key}, {why}" + (f"; and {len(lost) - 1} more" if len(lost) > 1 else ""),
            hint=f"{_WHO_WRITES}; write what stood there again under this key, or {_anew('', state.name)}",
        )


_WHO_WRITES: Final = "find out who writes there besides drkit, and deny it"


def _anew(offset_map: str, state: str) -> str:
    topics = " and ".join(name for name in (offset_map, state) if name)
    return f"to copy from the start, delete the copied topics, {topics} on the target"
