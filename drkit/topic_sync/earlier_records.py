"""Records that a topic of the target holds before drkit has copied anything into it.

Most often another tool copied them, such as MirrorMaker 2. Copying from the start would then put every record
there a second time, so the topic is left out until an operator says what the records are (decision 29).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from drkit.config import FlowSettings
from drkit.errors import DrkitError, Refused
from drkit.flow_state.records import GenerationRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.clients import Message
from drkit.kafka.reading.log_reader import read_partitions
from drkit.kafka.topics import list_offsets
from drkit.model import TopicPartition
from drkit.topic_sync.rules import Pair

_TAKEOVER: Final = "takeover_from_mm2 = true continues where MirrorMaker 2 stopped"
_APPEND: Final = 'on_target_not_empty = "append" copies everything after these records'
_DELETE: Final = "delete the copy on the target to copy it from the start"

Unexplained = Callable[[Collection[str]], Mapping[str, str]]
"""Of topics of the target that are new to a flow: those with records of unknown origin, and what to do."""
Ranges = dict[TopicPartition, tuple[int, int]]
"""Partition of the target → first offset and end offset."""


class EarlierRecords:
    """Looks into topics of the target that are new to a flow.

    :param state: of the flow; a topic that it knows was looked at when it was new
    :param unexplained: those whose records no flow in the other direction accounts for, and what to do
    """

    def __init__(
        self, target: Cluster, flow: FlowSettings, state: StateTopic, unexplained: Unexplained
    ) -> None:
        self._target, self._flow, self._state = target, flow, state
        self._unexplained = unexplained
        self._refused: dict[str, tuple[Ranges, Refused]] = {}

    def refused(self, pairs: Iterable[Pair]) -> dict[str, DrkitError]:
        """Source topics whose copies hold unexplained records, each with the reason and the ways out.

        :raises DrkitError: the target does not answer
        """
        flow = self._flow
        if flow.on_target_not_empty == "append" or flow.takeover_from_mm2:
            return {}
        new = [p for p in pairs if self._is_new(p)]
        hints = self._unexplained([p.target_name for p in new])
        new = [p for p in new if p.target_name in hints]
        held = self._held([at for pair in new for at in _partitions(pair)])
        found: dict[str, tuple[Ranges, Refused]] = {}
        for pair in new:
            ranges = {at: held[at] for at in _partitions(pair) if at in held}
            known = self._refused.get(pair.source.name)
            if known is not None and known[0] == ranges:
                found[pair.source.name] = known
            elif ranges and (times := self._first_times(ranges)):
                hint = hints[pair.target_name]
                found[pair.source.name] = ranges, self._refusal(pair, ranges, times, hint)
        self._refused = found
        return {name: error for name, (_, error) in found.items()}

    def _is_new(self, pair: Pair) -> bool:
        """A copy that was there before drkit; heartbeats are no data, and MirrorMaker 2 writes them too."""
        known, name = self._state.get(GenerationRecord, pair.source.name), pair.source.name
        if pair.target is None or self._flow.is_heartbeats(name):
            return False
        return known is None or known.target_id != pair.target.topic_id

    def _held(self, partitions: list[TopicPartition]) -> Ranges:
        starts = list_offsets(self._target, partitions, "earliest")
        ends = list_offsets(self._target, partitions, "latest")
        return {at: (starts[at], ends[at]) for at in partitions if ends[at] > starts[at]}

    def _first_times(self, ranges: Ranges) -> dict[TopicPartition, int]:
        """Time in ms of the first record that consumers see; a partition of markers alone is left out."""
        found: dict[TopicPartition, int] = {}

        def take(message: Message) -> bool:
            at = TopicPartition(message.topic() or "", message.partition() or 0)
            found.setdefault(at, message.timestamp()[1])
            return True

        read_partitions(self._target.settings, {at: start for at, (start, _) in ranges.items()}, take)
        return found

    def _refusal(self, pair: Pair, ranges: Ranges, times: dict[TopicPartition, int], hint: str) -> Refused:
        records = sum(end - start for at, (start, end) in ranges.items() if at in times)
        first = datetime.fromtimestamp(max(0, min(times.values())) / 1000, UTC)
        return Refused(
            "foreign_records_in_copy",
            where=f"topic {pair.source.name}, flow {self._flow.name}: {pair.target_name} on"
            f" {self._target.alias}",
            evidence=f"up to {records} {'record' if records == 1 else 'records'} in {len(times)} of"
            f" {len(pair.source.leaders)} partitions, the earliest of"
            f" {first.isoformat(timespec='seconds').replace('+00:00', 'Z')}",
            hint=f"{hint}; or {_APPEND}" if hint else f"{_TAKEOVER}; {_APPEND}; or {_DELETE}",
        )


def _partitions(pair: Pair) -> list[TopicPartition]:
    assert pair.target is not None  # noqa: S101  only copies that are there are looked into
    return [TopicPartition(pair.target_name, number) for number in sorted(pair.target.leaders)]
