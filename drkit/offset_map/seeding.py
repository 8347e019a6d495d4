"""Begins the direction of a flow after a turn: its cut in the flow's state, and its seeds in the map.

What a seed says and why is in :mod:`drkit.offsets.seed`; here it is checked against the target and written.
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
    """A partition, and how its copy begins."""

    partition: CopiedPartition
    seed: Seed
    cut: int | None = None
    """Source offset from which on a batch of the opposite flow is an alarm; None: where the seed begins."""
    emptied: int | None = None
    """Target offset up to which the copy was emptied; None: it was not."""
    crossings: tuple[Crossing, ...] = ()
    """Where both sides have the same records in another order."""
    kept: KeptTail | None = None
    """A tail after the cut that the target has already; None: no such tail."""

    @property
    def begins_before_the_cut(self) -> bool:
        """Whether records before the cut are copied again, of every producer."""
        return self.cut is not None and self.seed.upstream < self.cut


def write_seeds(
    target: ClusterSettings, flow: FlowSettings, state: StateTopic, seeds: Iterable[SeededPartition]
) -> None:
    """Begin the copy of some partitions after a turn. Repeated, it changes nothing that it has written.

    Where it refuses one of them it writes nothing of any.

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
    some = list(seeds)
    ids = state.get(ProducerIdsRecord)
    if ids is None:
        raise Failed("flow_without_producer_id", where=state.name, evidence="no record of one")
    to, map_id = History(*ids.current), known_of(state.records).producers.map_id

    async def write(cluster: RawCluster) -> None:
        looks = await _looks(cluster, some)
        await _refuse_not_empty(cluster, some)
        wanted = {
            s.partition: partial(_records, s.partition.target, s.seed, looks[s.partition.target], to)
            for s in some
        }
        await begin_partitions(cluster, flow, wanted, map_id, lambda: _put_cuts(state, some))

    # A task of the flow that begins now may take a bucket, for what it copies beside these partitions; and a
    # topic that was made a moment ago may have no leader yet. Written again, the seeds are the same.
    tries = Retrying(
        retry=retry_if_exception_type((MapTaken, NotReady)),
        stop=stop_after_attempt(_TRIES),
        wait=wait_fixed(_PAUSE_SECONDS),
        reraise=True,
    )
    tries(ask_once, target, "seed", write, what="begin the offset map after a turn")


def _put_cuts(state: StateTopic, seeds: Iterable[SeededPartition]) -> None:
    """Record from which source offset on a batch of the opposite flow is an alarm, and what was emptied."""
    cuts: dict[str, CutRecord] = {}
    for seeded in seeds:
        name = seeded.partition.source.topic
        cuts[name] = cut_after(cuts.get(name) or state.get(CutRecord, name), seeded)
    state.put_all((name, cut) for name, cut in cuts.items() if state.get(CutRecord, name) != cut)


def cut_after(known: CutRecord | None, seeded: SeededPartition) -> CutRecord:
    """The record of a topic's cuts when a partition begins.

    :param known: the record before it, also of earlier topics of these names
    """
    w, upstream = seeded.partition, seeded.seed.upstream
    if known is None or not known.is_of(w.source_id, w.target_id):
        known = CutRecord(w.source_id, w.target_id, {})
    emptied = seeded.emptied
    if emptied is None:  # what an earlier turn has emptied stays so, unless the log was lost since
        before = known.emptied.get(w.source.partition)
        emptied = before if before is not None and before <= seeded.seed.downstream else None
    return known.with_cut(
        w.source.partition,
        upstream if seeded.cut is None else seeded.cut,
        emptied=emptied,
        rebuilt=upstream if seeded.begins_before_the_cut else None,
        crossings=seeded.crossings,
        kept=None if seeded.kept is None else (seeded.kept.end, tuple(sorted(seeded.kept.ids))),
    )


async def _looks(cluster: RawCluster, seeds: list[SeededPartition]) -> Mapping[TopicPartition, Look]:
    """What the leaders of the targets say.

    :raises NotReady: a leader is on its way, or a topic is too new for a broker
    :raises Failed: one does not answer, or leads another topic of the same name
    """
    wanted = [s.partition for s in seeds]
    topics = await metadata(cluster, sorted({w.target.topic for w in wanted}))
    looks = await look_at_leaders(cluster, topics, [PartitionQuery(w.target) for w in wanted])
    for w in wanted:
        refuse_look(w, topics[w.target.topic], looks[w.target], cluster.alias)
    return looks


def refuse_look(wanted: CopiedPartition, topic: TopicMetadata, look: Look, alias: str) -> None:
    """Refuse a target that cannot be begun now.

    :raises NotReady: its leader is on its way, or the topic is too new for its broker
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
    wanted = {s.partition.target: s.emptied for s in seeds if s.emptied is not None}
    topics = await metadata(cluster, sorted({at.topic for at in wanted})) if wanted else {}
    starts = await listed(cluster, topics, wanted, EARLIEST)
    for at, emptied in wanted.items():
        if starts.get(at, _UNKNOWN) >= emptied:
            continue
        where = f"{at} on {cluster.alias}"
        if at not in starts:
            raise Failed("copy_start_unknown", where=where, evidence="no answer")
        raise Refused("copy_not_empty", where=where, evidence=f"it begins at {starts[at]}, not at {emptied}")


def _records(
    at: TopicPartition, seed: Seed, look: Look, to: History, state: PartitionMap, reign: int
) -> list[MapRecord]:
    if state.history is not None and state.history.producer_id == to.producer_id:
        # A task may have ended the seed's history since, and continued in the next epoch of the same id.
        if not _has_begun(state, seed, to):
            raise _not_new(at, to, "its map has begun otherwise with this id")
        return []
    known = look.producer_epoch(to.producer_id)
    if known is not None or to.producer_id in {ended.producer_id for ended in state.ended}:
        raise _not_new(at, to, f"the partition's leader knows it, with epoch {known}")
    if look.end != seed.downstream:
        evidence = f"it ends at {look.end}, the seed at {seed.downstream}"
        raise Refused("seed_end_differs", where=str(at), evidence=evidence)
    author = Author(new_nonce() >> 1, reign, look.leader_epoch)
    return [*parts(seed.segments, seed.downstream), seed.turn(to, state.history, author)]


def _has_begun(state: PartitionMap, seed: Seed, to: History) -> bool:
    made = PartitionMap()
    for part in parts(seed.segments, seed.downstream):
        made.apply(part)
    made.apply(seed.turn(to, None, Author(0, 0)))
    tail = state.tail
    if tail is None or tail.upstream < seed.upstream or tail.downstream < seed.downstream:
        return False
    known = made.segments.triples()
    found = state.segments.triples()[: len(known)]
    # The last segment has grown where the first record that was copied continues it.
    return [s[:2] for s in found] == [s[:2] for s in known] and found[:-1] == known[:-1]


def _not_new(at: TopicPartition, to: History, evidence: str) -> Refused:
    return Refused("producer_id_not_new", where=str(at), evidence=evidence, producer_id=to.producer_id)
