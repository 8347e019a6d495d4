"""Time until which the active side keeps every record written by clients since a promotion. Pure.

The bounds are the earliest possible ones. Retention deletes a record when its segment's newest timestamp is
older than ``retention.ms``, so never before its own timestamp is. A tombstone is deleted
``delete.retention.ms`` after it was cleaned, so no earlier than that after the promotion, and not in a hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from drkit.flow_state.records import HeldSettingsRecord
from drkit.status.pair.model import DeltaBound

RETENTION_MS: Final = "retention.ms"
RETENTION_BYTES: Final = "retention.bytes"
DELETE_RETENTION_MS: Final = "delete.retention.ms"
CLEANUP_POLICY: Final = "cleanup.policy"
_UNLIMITED: Final = -1


class PartitionDelta(NamedTuple):
    """The records of a partition of the active side since a promotion."""

    cut: int
    """First offset written by clients."""
    start: int
    """Log start."""
    end: int
    oldest_ms: int | None = None
    """Timestamp of its first record at or after the cut; None: unknown, or no such record."""
    size: int | None = None
    """Bytes of the whole partition; None: unknown."""

    @property
    def bytes(self) -> int | None:
        """Approximate bytes written by clients, by their share of the offsets, or None if unknown."""
        if self.size is None:
            return None
        return self.size * max(0, self.end - max(self.cut, self.start)) // max(1, self.end - self.start)


def bound_of(
    settings: Mapping[str, str | None],
    partitions: Iterable[PartitionDelta],
    since_ms: int,
    now_ms: int,
    held: HeldSettingsRecord | None = None,
) -> DeltaBound:
    """Return the bound of a topic.

    :param settings: of the topic on the active side
    :param since_ms: when it was promoted
    :param held: the hold that an operator has set on the active side
    """
    all_partitions = list(partitions)
    removed = [p for p in all_partitions if p.start > p.cut]
    held_ms = held.at_ms if held is not None and held.holds(settings) else None
    if removed:
        return DeltaBound(now_ms, "records since the promotion were removed", 1.0, held_ms=held_ms)
    written = [p for p in all_partitions if p.end > p.cut]
    policy = (settings.get(CLEANUP_POLICY) or "delete").replace(" ", "").split(",")
    limits: list[tuple[int, str]] = []
    unknown, size = "", None
    if "delete" in policy:
        retention_ms = _number(settings, RETENTION_MS)
        oldest = [p.oldest_ms for p in written if p.oldest_ms is not None]
        if retention_ms != _UNLIMITED and oldest:
            limits.append((min(oldest) + retention_ms, RETENTION_MS))
        if retention_ms != _UNLIMITED and len(oldest) < len(written):
            unknown = "the time of the first records is unknown"
        size = _used_bytes_share(_number(settings, RETENTION_BYTES), written)
    tombstones = tombstones_whole_until(settings, since_ms, held) if written else None
    if tombstones is not None:
        limits.append((tombstones, DELETE_RETENTION_MS))
    until, by = min(limits, default=(None, ""))
    used = 0.0 if until is None else _elapsed_share(since_ms, until, now_ms)
    if size is not None and size > used:
        used, by = size, RETENTION_BYTES if until is None else by
    return DeltaBound(until, by, used, size, unknown, held_ms)


def tombstones_whole_until(
    settings: Mapping[str, str | None], since_ms: int, held: HeldSettingsRecord | None = None
) -> int | None:
    """Return the earliest time at which a tombstone written since can be deleted, or None if never.

    The parameters are those of :func:`bound_of`.
    """
    if "compact" not in (settings.get(CLEANUP_POLICY) or ""):
        return None
    until = since_ms + _number(settings, DELETE_RETENTION_MS)
    kept_in_time = held is not None and held.holds(settings) and held.at_ms < until
    return None if kept_in_time else until


def may_lack_tombstones(
    settings: Mapping[str, str | None], since_ms: int, now_ms: int, held: HeldSettingsRecord | None = None
) -> bool:
    """Return whether a tombstone written since may be deleted by now.

    Also true if this host's clock is behind the promotion, which another host has recorded.
    The parameters are those of :func:`bound_of`.
    """
    until = tombstones_whole_until(settings, since_ms, held)
    return until is not None and not since_ms <= now_ms < until


def _number(settings: Mapping[str, str | None], name: str) -> int:
    value = settings.get(name)
    return _UNLIMITED if value is None else int(value)


def _elapsed_share(since_ms: int, until_ms: int, now_ms: int) -> float:
    if until_ms <= since_ms or now_ms >= until_ms:
        return 1.0
    return max(0.0, (now_ms - since_ms) / (until_ms - since_ms))


def _used_bytes_share(limit: int, partitions: list[PartitionDelta]) -> float | None:
    if limit <= 0:
        return None
    return max((p.bytes / limit for p in partitions if p.bytes is not None), default=None)
