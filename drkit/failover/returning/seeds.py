"""How the copy of each partition begins in the reverse flow: the flow's map inverted, or an emptied log."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final
from uuid import UUID

from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from drkit.counted import first_of
from drkit.errors import Failed, Refused
from drkit.failover.core.choices import EVERY_TOPIC, Method
from drkit.failover.core.commands import retry_command
from drkit.failover.core.context import Context
from drkit.failover.core.machine import StepName
from drkit.failover.core.request import RunRequest
from drkit.failover.core.reverse import Reverse
from drkit.failover.loss.positions import positions_of
from drkit.failover.returning.compare import cuts_of
from drkit.failover.returning.first_record import first_record
from drkit.failover.returning.keeping import AppendedTail
from drkit.failover.returning.scope import pairs, turned, unplanned
from drkit.flow_state.copied_topics import CopiedPartition
from drkit.flow_state.records import GenerationRecord
from drkit.kafka import codes
from drkit.kafka.requests import EARLIEST, TopicMetadata, listed, metadata, metadata_of_all
from drkit.model import TopicPartition
from drkit.offset_map.seeding import SeededPartition, write_seeds
from drkit.offsets.crossing import Crossing
from drkit.offsets.seed import CopyEnd, inverted, seed_after, seed_of_emptied
from drkit.offsets.translation import PartitionPosition

Methods = Mapping[TopicPartition, Method]
_KNOWN_SECONDS: Final = 20.0
_NONE_KEPT: Final[Mapping[TopicPartition, AppendedTail]] = {}


def seed(
    context: Context, back: Reverse, topics: Collection[str], methods: Methods, effect: str,
    kept: Mapping[TopicPartition, AppendedTail] = _NONE_KEPT,
) -> None:  # fmt: skip
    """Begin the reverse flow's map of some topics, and record which topics are copies of which.

    :param topics: by their names on the old primary
    :param methods: by partition of the old primary; one that is not named is continued
    :param effect: its name in the journal
    :param kept: tails that stay, as they were appended to the new primary
    :raises Refused: a partition of the old primary does not end where it did
    :raises DrkitError: a cluster does not answer, or refuses
    """
    seeds = _seeds(context, topics, methods, kept)
    begins = {str(s.partition.source): [s.seed.upstream, s.seed.downstream] for s in seeds}
    with context.effect(StepName.BEGIN, effect, begins=begins) as outcome:
        write_seeds(back.target, back.flow, back.state, seeds)
        known = back.state.all(GenerationRecord)
        wanted = {
            s.partition.source.topic: GenerationRecord(
                s.partition.target.topic, s.partition.source_id, s.partition.target_id,
                source_cluster=context.target_admin().cluster_id,
            )
            for s in seeds
        }  # fmt: skip
        back.state.put_all((t, r) for t, r in wanted.items() if _differs(known.get(t), r))
        outcome["partitions"] = len(seeds)


def _seeds(
    context: Context, topics: Collection[str], methods: Methods, kept: Mapping[TopicPartition, AppendedTail]
) -> list[SeededPartition]:
    ends = context.result(StepName.COMPARE)["ends"]
    wanted = [p for p in pairs(context) if p.source.topic in topics]
    younger = {at for at in methods if at.topic in topics} - {p.source for p in wanted}
    wanted += [context.known.pair(*at) for at in sorted(younger)]
    emptied = [p for p in wanted if methods.get(p.source, Method.DELTA).empties]
    starts = _starts(context, wanted)
    cuts = _begins(context, wanted, starts)
    ids = _ids(context, topics) if emptied else {}
    positions = positions_of(context, [p for p in wanted if not methods.get(p.source, Method.DELTA).empties])
    found = []
    for pair in wanted:
        at, end = pair.source, ends.get(str(pair.source), 0)
        by_now = turned(pair)._replace(target_id=ids.get(at.topic, pair.source_id))
        cut, method = cuts[at], methods.get(at, Method.DELTA)
        if method.empties:
            rebuilt = method is Method.REBUILD
            upstream = min(starts[pair.target], cut) if rebuilt else cut
            first = None if rebuilt else _first(context, pair.target, (starts[pair.target], cut))
            seeded = seed_of_emptied(CopyEnd(upstream, end), first)
            found.append(SeededPartition(by_now, seeded, cut=cut, emptied=end))
            continue
        place = positions[at]
        assert isinstance(place, PartitionPosition)  # noqa: S101  COMPARE has refused any other
        known = inverted(place.segments, place.copied_end)
        begin = known[0][0] if known else cut
        first = _first(context, pair.target, (place.start, begin))
        crossings, tail = place.inverted_crossings(), kept.get(at)
        seeded = seed_after(place.segments, place.copied_end, CopyEnd(cut, end), first, crossings)
        if (methods.get(at) is Method.KEEP) is (tail is None):
            raise Failed(
                "kept_tail_missing", where=str(at), evidence=f"appended: {first_of(map(str, sorted(kept)))}"
            )
        if tail is not None:
            crossings = (*crossings, Crossing(cut, tail.copy.end, tail.first, end))
        kept_copy = tail.copy if tail is not None else None
        found.append(SeededPartition(by_now, seeded, crossings=crossings, kept=kept_copy))
    return found


def refuse_removed(context: Context, topics: Collection[str]) -> None:
    """Refuse topics of which the new primary has removed what clients wrote there first.

    Topics that a switchover promoted are passed over: nothing is decided about them, and where their copy
    continues is reported by it.

    :param topics: by their names on the old primary
    :raises Refused: there are some, and they were not given up
    :raises DrkitError: the new primary does not answer
    """
    accepted = set(context.request.give_up_history)
    asked = unplanned(context).keys() & set(topics)
    asked = asked if EVERY_TOPIC not in accepted else set()
    wanted = [p for p in pairs(context) if p.source.topic in asked - accepted]
    starts, cuts = _starts(context, wanted), cuts_of(context)
    gone = [
        f"{p.target}: clients began at {cuts[p.source]}, it begins at {starts[p.target]}" for p in wanted
        if starts[p.target] > cuts[p.source]
    ]  # fmt: skip
    if gone:
        raise Refused(
            "new_primary_removed_first",
            where=context.flow.target,
            evidence=first_of(gone),
            command=retry_command(context, RunRequest(give_up_history=("TOPIC",))),
        )


def _begins(
    context: Context, wanted: Collection[CopiedPartition], starts: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Where copying what clients wrote begins on the new primary, by partition of the old one.

    Whatever the new primary has of a partition that is younger than the failover, clients wrote since.
    """
    cuts = cuts_of(context)
    return {p.source: max(cuts.get(p.source, 0), starts[p.target]) for p in wanted}


def _starts(context: Context, wanted: Collection[CopiedPartition]) -> dict[TopicPartition, int]:
    """Where the logs of partitions of the new primary begin.

    :raises Failed: a leader does not answer
    """
    targets = [w.target for w in wanted]
    if not targets:
        return {}
    topics = context.run(metadata, context.target, sorted({at.topic for at in targets}))
    found: dict[TopicPartition, int] = context.run(listed, context.target, topics, targets, EARLIEST)
    if silent := sorted(set(targets) - found.keys()):
        raise Failed(
            "new_start_unknown",
            where=str(silent[0]),
            evidence="its leader does not answer",
            hint=f"check the cluster, then: {retry_command(context)}",
        )
    return found


def _ids(context: Context, topics: Collection[str]) -> dict[str, UUID]:
    """The current ids of topics of the old primary: a topic may have been recreated, or created just now.

    :raises Failed: a broker does not know one of them within some seconds
    """
    source = context.source()
    if source is None:
        return {}

    def ask() -> dict[str, list[TopicMetadata]]:
        found: dict[str, list[TopicMetadata]] = context.run(metadata_of_all, source, sorted(topics))
        return found

    patient = Retrying(
        retry=retry_if_result(lambda answers: bool(_unknown_in(answers))),
        stop=stop_after_delay(_KNOWN_SECONDS),
        wait=wait_fixed(0.2),
    )
    try:
        answers = patient(ask)
    except RetryError as error:
        raise Failed(
            "old_topic_unknown",
            where=context.flow.source,
            evidence=first_of(_unknown_in(error.last_attempt.result())),
            command=retry_command(context),
        ) from error
    return {name: each[0].topic_id for name, each in answers.items()}


def _unknown_in(answers: Mapping[str, list[TopicMetadata]]) -> list[str]:
    """The topics that a broker does not know; one that is new gets there within moments."""
    return [f"{name}: {codes.error_name(t.error)}" for name, each in answers.items() for t in each if t.error]


def _first(context: Context, at: TopicPartition, span: tuple[int, int]) -> int | None:
    """The first record on the new primary that the map does not know; None: no such record."""
    if span[0] >= span[1]:
        return None
    found: int | None = context.run(first_record, context.target, at, span)
    return found


def _differs(known: GenerationRecord | None, wanted: GenerationRecord) -> bool:
    """Whether a topic and its copy are not on record yet."""
    if known is None:
        return True
    return (known.target, known.source_id, known.target_id) != (
        wanted.target, wanted.source_id, wanted.target_id,
    )  # fmt: skip
