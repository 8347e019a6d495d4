"""Taking over a flow from MirrorMaker 2: its topics stay, copying continues after what it copied.

MM2's stored offset says what is certainly copied; what it copied after that is found by content (see
:mod:`drkit.offsets.alignment`). The result is written into the offset map before the first task starts, so
that for the copy task a partition taken over looks like any other that has been copied before.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple
from uuid import UUID

from drkit import observe
from drkit.config import FlowSettings
from drkit.errors import Refused
from drkit.flow_state.copied_topics import CopiedPartition, map_id_of
from drkit.flow_state.names import offset_map_topic
from drkit.flow_state.producer_ids import ProducerIds
from drkit.flow_state.records import TakenOverPartition, TakeoverRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.raw import ask_once, connections
from drkit.kafka.topics import list_offsets
from drkit.model import TopicPartition
from drkit.offset_map.beginning import begin_partitions
from drkit.offset_map.bucket import parts
from drkit.offset_map.reading import load
from drkit.offset_map.topic import bucket_of, new_nonce
from drkit.offsets import (
    History,
    Intent,
    MapRecord,
    PartitionMap,
    SegmentMap,
)
from drkit.offsets.alignment import Aligned, NotAligned
from drkit.offsets.map_record import Mode
from drkit.offsets.segments import UNKNOWN
from drkit.takeover.mm2_progress import offsets_topic, refuse_living, stored_offsets
from drkit.takeover.look import Compared, compare
from drkit.topic_sync.rules import CopiedTopic, TopicSyncResult

_SHOWN: Final = 5
_LEAVE: Final = "leave it out (topics_exclude), or delete its copy on the target to copy it from the start"


class _Place(NamedTuple):
    """A partition to take over."""

    topic: CopiedTopic
    source: TopicPartition
    target: TopicPartition


class _Seed(NamedTuple):
    """What the offset map is to say of a partition."""

    place: _Place
    stored: int | None
    end: int
    found: Aligned
    whole: bool
    """The segments cover everything on the target."""
    committed: bool
    """MM2 left out records of aborted transactions."""


class Takeover:
    """The takeover of one flow.

    :param ids: of the flow; its live id begins at sequence 0 in every partition taken over
    """

    def __init__(
        self, source: Cluster, target: Cluster, flow: FlowSettings, state: StateTopic, ids: ProducerIds
    ) -> None:
        self._source = source
        self._target = target
        self._flow = flow
        self._state = state
        self._ids = ids
        self._stored: dict[TopicPartition, int] | None = None

    def begin(self, pause: Callable[[float], bool]) -> None:
        """Check that MM2 is gone, and read how far it copied.

        :raises Refused: one of its workers is alive
        :raises DrkitError: the target does not answer
        """
        refuse_living(self._target, self._flow, pause)
        self._stored = stored_offsets(self._target, self._flow)

    def take(self, found: TopicSyncResult) -> None:
        """Write where copying continues for every topic that was not looked at before.

        The first time, all topics or none are taken over: MM2 could still continue. Later, a new topic that
        cannot be taken over is left out of `found`.

        :raises Refused: the position of a partition cannot be proven
        """
        new = {n: t for n, t in found.copied.items() if self._known(n) != _ids_of(t)}
        if not new:
            return
        first = not self._state.all(TakeoverRecord)
        seeds, refused = self._look(new)
        if refused and first:
            raise self._refusal([reason for reasons in refused.values() for reason in reasons])
        for name, reasons in refused.items():
            del found.copied[name]
            found.left_out[name] = f"not taken over from MirrorMaker 2: {reasons[0]}: {_LEAVE}"
            observe.event("takeover_refused", level="warning", flow=self._flow.name, topic=name,
                          reason=reasons[0], hint=_LEAVE)  # fmt: skip
        self._write([s for s in seeds if s.place.source.topic not in refused])
        for name, topic in new.items():
            if name not in refused:
                self._remember(name, topic, [s for s in seeds if s.place.source.topic == name])

    def _look(self, new: dict[str, CopiedTopic]) -> tuple[list[_Seed], dict[str, list[str]]]:
        seeds: list[_Seed] = []
        refused: dict[str, list[str]] = {}
        maps = self._maps(new)
        for place in (p for topic in new.values() for p in _places(topic)):
            known = maps[place.source]
            if known.tail is not None or known.pending:
                continue  # drkit has copied here before
            answer = self._seed(place)
            if isinstance(answer, NotAligned):
                refused.setdefault(place.source.topic, []).append(f"{place.target}: {answer.reason}")
            elif answer is not None:
                seeds.append(answer)
        return seeds, refused

    def _known(self, name: str) -> tuple[UUID, UUID] | None:
        known = self._state.get(TakeoverRecord, name)
        return None if known is None else (known.source_id, known.target_id)

    def _maps(self, topics: dict[str, CopiedTopic]) -> dict[TopicPartition, PartitionMap]:
        places = [p for t in topics.values() for p in _places(t)]
        name, numbers = offset_map_topic(self._flow.source), {self._bucket(p) for p in places}
        with connections("takeover", self._target.settings) as (cluster,):
            buckets = load(cluster.loop, cluster, name, numbers)
        return {p.source: buckets[self._bucket(p)].of(*_ids_of(p.topic), p.source.partition) for p in places}

    def _bucket(self, place: _Place) -> int:
        return bucket_of(*place.source, self._flow.buckets)

    def _seed(self, place: _Place) -> _Seed | NotAligned | None:
        """Where copying continues, or why that is unknown; None: from the start, nothing was copied."""
        stored = None if self._stored is None else self._stored.get(place.source)
        start = list_offsets(self._target, [place.target], "earliest")[place.target]
        end = list_offsets(self._target, [place.target], "latest", committed=True)[place.target]
        if end == 0 and stored is None:
            return None
        if end == 0:
            return NotAligned(f"it is empty, but MirrorMaker 2 says it copied up to source offset {stored}")
        found: Compared | NotAligned = compare(
            (self._source, place.source), (self._target, place.target), (start, end), stored
        )
        if isinstance(found, NotAligned):
            return found
        if not found.committed:
            observe.event("takeover_of_aborted_records", level="warning", flow=self._flow.name,
                          topic=place.target.topic, partition=place.target.partition)  # fmt: skip
        return _Seed(place, stored, end, *found)

    def _write(self, seeds: list[_Seed]) -> None:
        """Write the result into the map."""
        if not seeds:
            return
        wanted = {
            CopiedPartition(*s.place[1:], *_ids_of(s.place.topic)): partial(self._records, s) for s in seeds
        }
        map_id = map_id_of(self._state.records)
        write = partial(begin_partitions, flow=self._flow, wanted=wanted, map_id=map_id)
        ask_once(self._target.settings, "takeover", write, what="write the offsets of a takeover")

    def _records(self, seed: _Seed, _state: PartitionMap, _reign: int) -> list[MapRecord]:
        """Map records of the part already copied, and of the position to continue from."""
        segments = seed.found.segments
        if not seed.whole:
            segments = ((0, 0, UNKNOWN), *segments)
        copied_end = segments[-1][1] + segments[-1][2] if segments and segments[-1][2] > 0 else seed.end
        begins = Intent(
            mode=Mode.REPAIR,
            nonce=new_nonce(),
            history=History(*self._ids.current),
            base_sequence=0,
            downstream=seed.end,
            previous_end=copied_end,
            leader_epoch=-1,
            runs=((seed.found.next_source, 0),),
        )
        return [*(parts(SegmentMap.of(segments), seed.end) if segments else ()), begins]

    def _remember(self, name: str, topic: CopiedTopic, seeds: list[_Seed]) -> None:
        partitions = {
            s.place.source.partition: TakenOverPartition(
                s.stored, s.found.next_source, s.end, s.found.behind, s.committed
            )
            for s in seeds
        }
        self._state.put(TakeoverRecord(*_ids_of(topic), partitions), name)
        if seeds:
            observe.event("taken_over", flow=self._flow.name, topic=name, partitions=len(seeds),
                          found_behind=sum(s.found.behind for s in seeds))  # fmt: skip

    def _refusal(self, reasons: list[str]) -> Refused:
        more = f" (and {len(reasons) - _SHOWN} more)" if len(reasons) > _SHOWN else ""
        missing = "" if self._stored is not None else (
            f"; {offsets_topic(self._flow.source)} does not exist there"
        )  # fmt: skip
        evidence = "; ".join(reasons[:_SHOWN]) + more + missing
        return Refused("takeover_refused", where=self._target.alias, evidence=evidence, flow=self._flow.name)


def _places(topic: CopiedTopic) -> list[_Place]:
    name = topic.source.name
    return [
        _Place(topic, TopicPartition(name, p), TopicPartition(topic.target_name, p))
        for p in sorted(topic.source.leaders)
    ]


def _ids_of(topic: CopiedTopic) -> tuple[UUID, UUID]:
    return topic.source.topic_id, UUID(topic.target_id)
