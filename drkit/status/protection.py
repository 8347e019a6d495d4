"""Why a flow's target is no failover target yet, after a return or before one. Pure.

The side that would take over was a primary before, and is copied back: it may lack records that are older
than the newest heartbeat. `drkit watch` takes this from its last look at both clusters. One that never saw
both, and `drkit failover`, take it from what the target alone has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from drkit.counted import counted, first_of
from drkit.status.model import FlowStatus, PartitionStatus
from drkit.status.pair.model import PairAlarm, PairState, PairTopic, numbered
from drkit.status.pair.text import alarm_lines

_NOT_YET: Final = (PairState.RETURNING, PairState.DIVERGED, PairState.FAILING_BACK)


def not_protected(status: FlowStatus, rpo_seconds: float) -> tuple[str, ...]:
    """What of a flow its target has not wholly, by a look at both clusters, or at the target alone."""
    if status.source_answers and status.target_answers and status.pair is not None:
        topics = status.pair.topics
        unread = {t.topic for t in topics if t.state is PairState.UNKNOWN} & set(status.returned_topics)
        alone = not_in_step(status.partitions, unread, rpo_seconds, None)
        return (*_by_pair(status.flow, status.source, topics), *alone)
    seen, copied = status.loss.source_seen_seconds, status.copied_ms
    noted = None if seen is None or copied is None else (status.at_ms - copied) / 1000 - seen
    return not_in_step(status.partitions, status.returned_topics, rpo_seconds, noted)


def not_noted(status: FlowStatus) -> tuple[str, ...]:
    """What a turn has begun to copy, and of which the target has no note yet of what its source has.

    The target alone says it, so a note that comes after the last look at the source counts. `drkit failover`
    knows the loss of a silent source by that note, and refuses without it.
    """
    if not status.target_answers or not status.not_noted_topics:
        return ()
    some = f"{counted(len(status.not_noted_topics), 'topic')} ({first_of(status.not_noted_topics)})"
    return (f"what {status.source} has of {some} is not noted on {status.target} since the turn",)


def since_promoted(status: FlowStatus) -> tuple[str, ...]:
    """What the pair of a promoted flow has come to: its alarms, and that clients are back on the source."""
    if status.role != "promoted" or status.pair is None:
        return ()
    alarms = tuple(f"{line.word} {line.text}" for line in alarm_lines(status.pair))
    back = [t for t in status.pair.topics if t.since_ms is not None and t.active == status.source]
    if not back:
        return alarms
    said = f"clients write {numbered(back)} on {status.source} again, by a later promotion"
    return (*alarms, f"{said}: {back[0].why}" if back[0].why else said)


def not_in_step(
    partitions: Iterable[PartitionStatus],
    returned: Collection[str],
    rpo_seconds: float,
    noted_seconds: float | None,
) -> tuple[str, ...]:
    """Topics that are copied since a return and were not in step at the last look at their source, in words.

    :param returned: source topics that are copied since a return
    :param noted_seconds: of a silent source: the age of its oldest record that was not copied, when its ends
        were noted last; None: unknown
    """
    by_topic: dict[str, list[bool]] = {}
    for p in partitions:
        if p.topic in returned:
            age = 0.0 if p.records == 0 else p.seconds if p.seconds is not None else noted_seconds
            known = p.records is not None and age is not None and age <= rpo_seconds
            by_topic.setdefault(p.topic, []).append(known)
    return tuple(
        f"{topic} is copied back since a return, and was not in step at the last look:"
        f" {sum(steps)} of {counted(len(steps), 'partition')}"
        for topic, steps in sorted(by_topic.items())
        if not all(steps)
    )


def _by_pair(flow: str, source: str, topics: Iterable[PairTopic]) -> Iterator[str]:
    """Topics that clients write on a flow's source, and that its target has not wholly."""
    by: dict[tuple[str, str], list[PairTopic]] = {}
    for topic in topics:
        if topic.direction != flow:
            continue
        incomplete = topic.why_of(PairAlarm.INCOMPLETE) if topic.active == source else ""
        if incomplete:
            by.setdefault((PairAlarm.INCOMPLETE.value, incomplete), []).append(topic)
        elif topic.state in _NOT_YET:
            by.setdefault((topic.state.value, topic.why), []).append(topic)
    for (word, why), found in by.items():
        yield f"{word.replace('_', ' ').upper()}: {numbered(found)}: {why}"
