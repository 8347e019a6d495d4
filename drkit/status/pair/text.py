"""A pair in sentences: for the screen, the page, faults and events. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from drkit.counted import counted, size_text, utc
from drkit.status.pair.model import DeltaBound, PairPart, PairState, PairStatus, PairTopic, numbered

_PERCENT: Final = 100
_NOT_LIMITED: Final = "delta whole without a time limit: retention does not limit it"


class PairLine(NamedTuple):
    """One sentence of a pair."""

    word: str
    """The state or alarm, in capitals."""
    text: str


def pair_lines(pair: PairStatus) -> list[PairLine]:
    """All sentences of a pair: alarms, then what is not protected, then the rest."""
    lines = alarm_lines(pair)
    lines += [PairLine(_word(part.state.value), part_text(part)) for part in pair.parts]
    lines += [PairLine(_word(PairState.UNKNOWN.value), why) for why in pair.unknown]
    return lines or [PairLine(_word(pair.state.value), pair.why)]


def alarm_lines(pair: PairStatus) -> list[PairLine]:
    """The sentence of each alarm of a pair."""
    return [
        PairLine(_word(alarm.value), f"{numbered(topics)}: {topics[0].why_of(alarm)}")
        for alarm in pair.alarms
        if (topics := pair.with_alarm(alarm))
    ]


def part_text(part: PairPart) -> str:
    """Topics of which the same is said, in one sentence."""
    match part.state:
        case PairState.PROTECTED:
            lag = "" if part.records is None else f", lag {counted(part.records, 'record')}"
            return f"{part.direction}: {counted(len(part.topics), 'topic')}{lag}"
        case PairState.UNPROTECTED | PairState.DIVERGED:
            return "; ".join(_unprotected(part))
        case PairState.RETURNING:
            return "; ".join(_returning(part))
        case PairState.FAILING_OVER | PairState.FAILING_BACK:
            return f"{part.direction}: {numbered(part.topics)}: {part.why}"
    return f"{numbered(part.topics)}: {part.why}"


def _unprotected(part: PairPart) -> Iterator[str]:
    since = "" if part.since_ms is None else f"since {utc(part.since_ms)}, "
    active = part.topics[0].active
    where = f", active on {active}" if active and part.since_ms is not None else ""
    yield f"{since}{numbered(part.topics)}{where}: {part.why}"
    if part.since_ms is not None:
        yield _delta(part)


def _returning(part: PairPart) -> Iterator[str]:
    in_step, partitions = part.in_step
    left = "" if part.bytes is None else f", {size_text(part.bytes)} left to copy"
    yield f"{part.direction}: {in_step} of {counted(partitions, 'partition')} in step{left}"
    yield f"{numbered(part.topics)}: {part.why}"
    yield _delta(part)


def _delta(part: PairPart) -> str:
    known = [(t, t.delta) for t in part.topics if t.delta is not None]
    if not known:
        return "delta whole until an unknown time"
    limited = [(t, d) for t, d in known if d.until_ms is not None]
    held = [t for t, d in known if d.held_ms is not None]
    more = f", {counted(len(held), 'topic', 'is')} held by drkit reprotect --hold" if held else ""
    fullest = max((d.size_used for _, d in known if d.size_used is not None), default=None)
    by_size = "" if fullest is None else f"by size: {fullest:.0%} used"
    if limited:
        topic, bound = min(limited, key=lambda x: x[1].until_ms or 0)
        return ", ".join(filter(None, (delta_text(topic, bound), by_size))) + more
    unknown = next((d.unknown for _, d in known if d.unknown), "")
    if unknown:
        return f"delta whole until an unknown time: {unknown}"
    return (f"delta whole, {by_size}" if by_size else _NOT_LIMITED) + more


def delta_text(topic: PairTopic, bound: DeltaBound) -> str:
    """Until when the active side has all that clients wrote to a topic since its promotion."""
    assert bound.until_ms is not None  # noqa: S101  the caller's topics have a bound
    if bound.used >= 1:
        return f"delta may not be whole since {utc(bound.until_ms)} ({topic.topic}: {bound.by})"
    used = round(bound.used * _PERCENT)
    return f"delta whole until {utc(bound.until_ms)} ({topic.topic}: {bound.by}, {used} % used)"


def _word(value: str) -> str:
    return value.replace("_", " ").upper()
