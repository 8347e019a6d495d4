"""Until when the active side keeps every record that clients wrote since a promotion. Pure.

The bounds are the earliest possible ones. A record goes by time when its segment's newest timestamp is older
than ``retention.ms``, so never before its own timestamp is. A tombstone goes ``delete.retention.ms`` after it
was cleaned, so never earlier than that after the promotion.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from drkit.status.pair.model import DeltaBound

RETENTION_MS: Final = "retention.ms"
RETENTION_BYTES: Final = "retention.bytes"
DELETE_RETENTION_MS: Final = "delete.retention.ms"
CLEANUP_POLICY: Final = "cleanup.policy"
_UNLIMITED: Final = -1


class PartitionDelta(NamedTuple):
    """What a partition of the active side holds since a promotion."""

    cut: int
    """First offset that clients wrote."""
    start: int
    """Log start."""
    end: int
    oldest_ms: int | None = None
    """Timestamp of its first record at or after the cut; None: unknown, or there is none."""
    size: int | None = None
    """Bytes of the whole partition; None: unknown."""


def bound_of(
    settings: Mapping[str, str | None], partitions: Iterable[PartitionDelta], since_ms: int, now_ms: int
) -> DeltaBound:
    """The bound of a topic.

    :param settings: of the topic on the active side
    :param since_ms: when it was promoted
    """
    found = list(partitions)
    removed = [p for p in found if p.start > p.cut]
    if removed:
        return DeltaBound(now_ms, "records since the promotion were removed", 1.0)
    written = [p for p in found if p.end > p.cut]
    policy = (settings.get(CLEANUP_POLICY) or "delete").replace(" ", "").split(",")
    limits: list[tuple[int, str]] = []
    unknown, size = "", None
    if "delete" in policy:
        keep = _number(settings, RETENTION_MS)
        oldest = [p.oldest_ms for p in written if p.oldest_ms is not None]
        if keep != _UNLIMITED and oldest:
            limits.append((min(oldest) + keep, RETENTION_MS))
        if keep != _UNLIMITED and len(oldest) < len(written):
            unknown = "the time of the first records is unknown"
        size = _filled(_number(settings, RETENTION_BYTES), written)
    if "compact" in policy and written:
        limits.append((since_ms + _number(settings, DELETE_RETENTION_MS), DELETE_RETENTION_MS))
    until, by = min(limits, default=(None, ""))
    used = 0.0 if until is None else _share(since_ms, until, now_ms)
    if size is not None and size > used:
        used, by = size, RETENTION_BYTES if until is None else by
    return DeltaBound(until, by, used, size, unknown)


def _number(settings: Mapping[str, str | None], name: str) -> int:
    value = settings.get(name)
    return _UNLIMITED if value is None else int(value)


def _share(since_ms: int, until_ms: int, now_ms: int) -> float:
    """Elapsed share of a time; 1 where it ended before it began, as with old timestamps."""
    if until_ms <= since_ms or now_ms >= until_ms:
        return 1.0
    return max(0.0, (now_ms - since_ms) / (until_ms - since_ms))


def _filled(limit: int, partitions: list[PartitionDelta]) -> float | None:
    """The largest share of ``retention.bytes`` that a partition's delta has, by its part of the offsets."""
    if limit <= 0:
        return None
    shares = [
        p.size * (p.end - p.cut) / max(1, p.end - p.start) / limit for p in partitions if p.size is not None
    ]
    return max(shares, default=None)
