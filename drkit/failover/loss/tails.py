"""The divergent tails as ranges of offsets to export, with what an export must leave out by name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from drkit.counted import first_of
from drkit.errors import ConfigError, Refused
from drkit.export.manifest import TailRange
from drkit.export.ranges import CopiedBack
from drkit.failover.core.context import Context
from drkit.failover.core.reverse import reverse_state
from drkit.failover.loss.findings import Divergence, DivergenceState, PartitionDivergence
from drkit.flow_state.left_out import kept_ids
from drkit.flow_state.producer_ids import on_record
from drkit.flow_state.records import RoleRecord
from drkit.kafka.raw import RawCluster, RawError
from drkit.kafka.requests import metadata
from drkit.model import TopicPartition


def tails_of(context: Context, found: Divergence, topics: Collection[str] = ()) -> list[TailRange]:
    """Return the range of every partition that has one, also where all of its offsets are markers.

    :param topics: only these; empty: all
    :raises ConfigError: a topic that no failover has promoted
    :raises Refused: the old primary does not answer, or a partition's tail is not known
    """
    source = context.source()
    if found.unanswered or source is None:
        raise Refused("tail_unreachable", where=found.flow, evidence=found.unanswered or context.source_error)
    wanted = [tail for tail in found.tails if not topics or tail.topic in topics]
    if lacking := sorted(set(topics) - {tail.topic for tail in wanted}):
        raise ConfigError("topics_not_promoted", where="--topic", topics=first_of(lacking))
    if unknown := [f"{t.topic}-{t.partition}: {t.why}" for t in wanted if t.found is DivergenceState.UNKNOWN]:
        raise Refused("tail_unknown", where=found.flow, evidence=first_of(unknown))
    return list(_ranges(context, source, wanted, found.flow))


def _ranges(
    context: Context, source: RawCluster, wanted: Collection[PartitionDivergence], flow: str
) -> Iterator[TailRange]:
    """Tail ranges with the current topic ids: a recreated topic has another id than its copy's map."""
    names = sorted({tail.topic for tail in wanted})
    try:
        topics = context.run(metadata, source, names) if names else {}
    except RawError as error:
        raise Refused(
            "old_primary_stopped_answering", where=flow, evidence=str(error) or type(error).__name__
        ) from error
    for tail in wanted:
        if tail.end is not None and tail.end > tail.lost_from:
            topic_id = topics[tail.topic].topic_id
            yield TailRange(tail.topic, topic_id, tail.partition, tail.lost_from, tail.end)


def terms_of(context: Context, topics: Iterable[str]) -> dict[str, int]:
    """Return the term of the failover that promoted each topic: it left out what only the old primary has.

    :param topics: by their names on the old primary
    """
    roles = context.state.all(RoleRecord)
    return {topic: roles[topic].term for topic in topics if topic in roles}


def copied_back(context: Context, tails: Iterable[PartitionDivergence]) -> CopiedBack:
    """Return which records of tails came from the new primary, as the comparison has counted them.

    :raises DrkitError: the old primary does not say
    """
    own = on_record(reverse_state(context))
    since = {TopicPartition(t.topic, t.partition): t.exact_to for t in tails if t.exact_to is not None}
    known = context.known
    return CopiedBack(known.producers.left_out | frozenset(own) | kept_ids(known.kept), since)
