"""How fast a flow is able to copy, by its fastest epochs: on record for the plan of a later copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from drkit.clock import wall_ms
from drkit.errors import DrkitError
from drkit.flow_state.records import SpeedRecord
from drkit.flow_state.topic import StateTopic

_LEAST_BYTES: Final = 1 << 20
_LEAST_AGE_MS: Final = 1000
"""A batch that is fetched younger was not waited for: the flow was in step."""
_REMEMBERED_MS: Final = 30 * 86_400_000
_FASTER: Final = 1.05


def note_speed(state: StateTopic, reports: Sequence[Mapping[str, Any]]) -> None:
    """Record an epoch that was faster than those on record, or where there is no recent one."""
    found = faster(state.records.readable(SpeedRecord).get(""), reports, wall_ms())
    if found is not None:
        with suppress(DrkitError):  # the copy continues, and says itself that the target does not answer
            state.put(found)


def faster(
    known: SpeedRecord | None, reports: Sequence[Mapping[str, Any]], now_ms: int
) -> SpeedRecord | None:
    """The speed of an epoch, where it is to be recorded. Pure.

    An epoch in which the flow was in step says how fast producers were, and nothing of the copy.

    :param reports: of all tasks of the epoch
    """
    size = sum(r["bytes"] for r in reports)
    seconds = max((r.get("busy_seconds", 0.0) for r in reports), default=0.0)
    ages = [p["age_ms"]["least"] for r in reports for p in r["partitions"] if p["records"]]
    if size < _LEAST_BYTES or seconds <= 0 or min(ages, default=0) < _LEAST_AGE_MS:
        return None
    found = SpeedRecord(now_ms, size, round(seconds, 3))
    if known is not None and now_ms < known.at_ms + _REMEMBERED_MS:
        return found if found.bytes_per_second > known.bytes_per_second * _FASTER else None
    return found
