"""Begins the direction of a flow after a turn: its cut in the flow's state, and its seeds in the map.

Seeds are described in :mod:`drkit.offsets.seed`; here they are checked against the target and written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_fixed

from drkit.config import ClusterSettings, FlowSettings
from drkit.errors import Failed, Refused
from drkit.flow_state.copied_topics import CopiedPartition, known_of
from drkit.flow_state.left_out import KeptTail
from drkit.flow_state.records import CutRecord, ProducerIdsRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka import codes
from drkit.kafka.raw import RawCluster, ask_once
from drkit.kafka.requests import EARLIEST, TopicMetadata, listed, metadata
from drkit.model import TopicPartition
from drkit.offset_map.beginning import begin_partitions
from drkit.offset_map.bucket import parts
from drkit.offset_map.look import Look, PartitionQuery, look_at_leaders
from drkit.offset_map.topic import new_nonce
from drkit.offset_map.writer import MapTaken
from drkit.offsets import History, MapRecord, PartitionMap
from drkit.offsets.crossing import Crossing
from drkit.offsets.seed import Seed
from drkit.offsets.takeup import Author

_TRIES: Final = 10
_PAUSE_SECONDS: Final = 1.0
_UNKNOWN: Final = -1


class NotReady(Failed):
    """A partition has no leader at the moment."""


class SeededPartition(NamedTuple):
    """A partition and the seed with which its copy begins."""

    partition: CopiedPartition
    seed: Seed
    cut: int | None = None
    """Source offset from which a batch of the opposite flow is an error; None: the seed's start."""
    emptied: int | None = None
    """Target offset up to which the copy was emptied; None: it was not."""
    crossings: tuple[Crossing, ...] = ()
    """Ranges with the same records in another order on both sides."""
    kept: KeptTail | None = None
    """A tail after the cut that the target has already; None: no such tail."""

    @property
    def begins_before_the_cut(self) -> bool:
        """Return whether records before the cut are copied again, of every producer."""
        return self.cut is not None and self.seed.upstream < self.cut


def write_seeds(
    target: ClusterSettings, flow: FlowSettings, state: StateTopic, seeds: Iterable[SeededPartition]
) -> None:
    """Begin the copy of some partitions after a turn. Idempotent.

    If it refuses one of them, it writes none of them.

    No task copies these partitions: the flow leaves them out until their return is on record. The flow's
    live producer id on record must be new (:func:`drkit.flow_state.producer_ids.renew_live_id`). Before the
    map, the flow's state gets the cuts: no task copies from a seed without its cut.

    :param state: of the flow, loaded
    :raises Refused: a target has another end than its seed, is not empty as it says, or the producer id is
        not new
    :raises Failed: a leader does not answer, or the map does not take the records
    :raises MapTaken: tasks of the flow take its buckets again and again
    :raises ClusterUnreachable: the target does not answer
    """
    seeded = list(seeds)
    ids = state.get(ProducerIdsRecord)
    if ids is None:
        raise Failed("flow_without_producer_id", where=state.name, evidence="no record of one")
    history, map_id = History(*ids.current), known_of(state.records).producers.map_id

    async def write(cluster: RawCluster) -> None:
        looks = await _looks(cluster, seeded)
        await _refuse_not_empty(cluster, seeded)
        beginnings = {
            s.partition: partial(_records, s.partition.target, s.seed, looks[s.partition.target], history)
            for s in seeded
        }
        await begin_partitions(cluster, flow, beginnings, map_id, lambda: _put_cuts(state, seeded))

    # A task of the flow that starts now may take a bucket for its other partitions, and a new topic may have
    # no leader yet. A retry writes the same seeds.
    tries = Retrying(
        retry=retry_if_exception_type((MapTaken, NotReady)),
        stop=stop_after_attempt(_TRIES),
        wait=wait_fixed(_PAUSE_SECONDS),
        reraise=True,
    )
    tries(ask_once, target, "seed", write, what="begin the offset map after a turn")


def _put_cuts(state: StateTopic, seeds: Iterable[SeededPartition]) -> None:
    """Record the cuts of the seeds, and up to which target offsets copies were emptied."""
    cuts: dict[str, CutRecord] = {}
    for seeded in seeds:
        name = seeded.partition.source.topic
        cuts[name] = cut_after(cuts.get(name) or state.get(CutRecord, name), seeded)
    state.put_all((name, cut) for name, cut in cuts.items() if state.get(CutRecord, name) != cut)


def cut_after(recorded: CutRecord | None, seeded: SeededPartition) -> CutRecord:
    """Return the record of a topic's cuts after a partition begins.

    :param recorded: the record before it, also of earlier topics of these names
    """
    copy, upstream = seeded.partition, seeded.seed.upstream
    if recorded is None or not recorded.is_of(copy.source_id, copy.target_id):
        recorded = CutRecord(copy.source_id, copy.target_id, {})
    emptied = seeded.emptied
    if emptied is None:  # an earlier turn's value stays, unless the log was lost since
        old_emptied = recorded.emptied.get(copy.source.partition)
        emptied = old_emptied if old_emptied is not None and old_emptied <= seeded.seed.downstream else None
    return recorded.with_cut(
        copy.source.partition,
        upstream if seeded.cut is None else seeded.cut,
        emptied=emptied,
        rebuilt=upstream if seeded.begins_before_the_cut else None,
        crossings=seeded.crossings,
        kept=None if seeded.kept is None else (seeded.kept.end, tuple(sorted(seeded.kept.ids))),
    )


async def _looks(cluster: RawCluster, seeds: list[SeededPartition]) -> Mapping[TopicPartition, Look]:
    """Return the state of the targets from their leaders.

    :raises NotReady: a leader is being elected, or a topic is too new for a broker
    :raises Failed: one does not answer, or leads another topic of the same name
    """
    copies = [s.partition for s in seeds]
    topics = await metadata(cluster, sorted({copy.target.topic for copy in copies}))
    looks = await look_at_leaders(cluster, topics, [PartitionQuery(copy.target) for copy in copies])
    for copy in copies:
        refuse_look(copy, topics[copy.target.topic], looks[copy.target], cluster.alias)
    return looks


def refuse_look(wanted: CopiedPartition, topic: TopicMetadata, look: Look, alias: str) -> None:
    """Refuse a target that cannot be begun now.

    :raises NotReady: its leader is being elected, or the topic is too new for its broker
    :raises Failed: the leader does not answer, or leads another topic of the same name
    """
    error = look.error or topic.error
    if not error and topic.topic_id == wanted.target_id:
        return
    kind = NotReady if error in codes.LEADER_MOVES else Failed
    raise kind(
        "copy_unreadable",
        where=f"{wanted.target} on {alias}",
        evidence=codes.error_name(error)
        if error
        else f"its topic has the id {topic.topic_id}, not {wanted.target_id}",
    )


async def _refuse_not_empty(cluster: RawCluster, seeds: Iterable[SeededPartition]) -> None:
    """Refuse copies with records before their beginning: brokers may bring back deleted records.

    :raises Refused: one does
    :raises Failed: a leader does not answer
    """
    emptied_to = {s.partition.target: s.emptied for s in seeds if s.emptied is not None}
    topics = await metadata(cluster, sorted({tp.topic for tp in emptied_to})) if emptied_to else {}
    starts = await listed(cluster, topics, emptied_to, EARLIEST)
    for tp, emptied in emptied_to.items():
        if starts.get(tp, _UNKNOWN) >= emptied:
            continue
        where = f"{tp} on {cluster.alias}"
        if tp not in starts:
            raise Failed("copy_start_unknown", where=where, evidence="no answer")
        raise Refused("copy_not_empty", where=where, evidence=f"it begins at {starts[tp]}, not at {emptied}")


def _records(
    tp: TopicPartition, seed: Seed, look: Look, history: History, state: PartitionMap, reign: int
) -> list[MapRecord]:
    if state.history is not None and state.history.producer_id == history.producer_id:
        # A task may have ended the seed's history since, and continued with the next epoch of the same id.
        if not _has_begun(state, seed, history):
            raise _not_new(tp, history, "its map has begun otherwise with this id")
        return []
    known_epoch = look.producer_epoch(history.producer_id)
    if known_epoch is not None or history.producer_id in {ended.producer_id for ended in state.ended}:
        raise _not_new(tp, history, f"the partition's leader knows it, with epoch {known_epoch}")
    if look.end != seed.downstream:
        evidence = f"it ends at {look.end}, the seed at {seed.downstream}"
        raise Refused("seed_end_differs", where=str(tp), evidence=evidence)
    author = Author(new_nonce() >> 1, reign, look.leader_epoch)
    return [*parts(seed.segments, seed.downstream), seed.turn(history, state.history, author)]


def _has_begun(state: PartitionMap, seed: Seed, history: History) -> bool:
    expected = PartitionMap()
    for part in parts(seed.segments, seed.downstream):
        expected.apply(part)
    expected.apply(seed.turn(history, None, Author(0, 0)))
    tail = state.tail
    if tail is None or tail.upstream < seed.upstream or tail.downstream < seed.downstream:
        return False
    seeded = expected.segments.triples()
    segments = state.segments.triples()[: len(seeded)]
    # The last segment has grown if the first copied record continues it.
    return [s[:2] for s in segments] == [s[:2] for s in seeded] and segments[:-1] == seeded[:-1]


def _not_new(tp: TopicPartition, history: History, evidence: str) -> Refused:
    return Refused("producer_id_not_new", where=str(tp), evidence=evidence, producer_id=history.producer_id)
