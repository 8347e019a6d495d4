"""The confirmed end of the offset map of a partition, and its comparison with intents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from drkit.offsets.history import steps
from drkit.offsets.map_record import SEQUENCE_MODULUS, History, Intent


@dataclass(frozen=True, slots=True)
class MapTail:
    """The point up to which the map is confirmed without reading the target's log."""

    history: History
    upstream: int
    downstream: int
    copied_end: int
    """Target offset after the last record of this flow, at or before `downstream`."""
    sequence: int
    leader_epoch: int
    live: bool
    """The last segment was appended in live mode, and is open-ended until the next claim."""
    target_epoch: int = -1
    """Leader epoch of the target partition under which this was seen, −1 if unknown."""


def is_overruled(claim: Intent, by: Intent) -> bool:
    """Return whether a claim of format 1 had not been appended when another task made its own."""
    if not claim.legacy or claim.nonce == by.nonce or claim.history != by.history:
        return False
    return steps(claim.base_sequence, by.base_sequence) >= 0


def known_to(record: Intent, tail: MapTail) -> int:
    """Return how many of a repair's first records are before the tail."""
    if record.legacy:  # one of two concurrent tasks may have recorded what the other had passed
        return tail.downstream - record.downstream
    return steps(tail.sequence, record.base_sequence) if tail.history == record.history and tail.live else 0


def upstream_end(record: Intent) -> int:
    """Return the source offset after the last record of an intent."""
    up, count = record.runs[-1]
    return up + count


def after(claims: Sequence[Intent], tail: MapTail) -> list[Intent]:
    """Return the claims with records after the tail."""
    return [c for c in claims if c.history != tail.history or _reaches(c, tail)]


def _reaches(claim: Intent, tail: MapTail) -> bool:
    if claim.legacy and not tail.live:  # the sequence of such a tail in format 1 is not that of the history
        return claim.downstream >= tail.downstream
    return steps(claim.base_sequence, tail.sequence) + claim.count > 0


def without_first(record: Intent, known: int, previous_end: int) -> Intent:
    """Return an intent without its first `known` records; it must have more."""
    runs: list[tuple[int, int]] = []
    skip = known
    for upstream, n in record.runs:
        if skip < n:
            runs.append((upstream + skip, n - skip))
        skip = max(0, skip - n)
    return replace(
        record,
        base_sequence=(record.base_sequence + known) % SEQUENCE_MODULUS,
        downstream=record.downstream + known,
        previous_end=previous_end,
        runs=tuple(runs),
    )
