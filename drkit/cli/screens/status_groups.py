"""Groups of a flow as text for people. Pure."""

from __future__ import annotations

from typing import Any, Final

from drkit.counted import counted
from drkit.status.groups import GroupPartition, GroupsSeen, GroupStatus, worst_first
from drkit.status.model import FlowStatus

SHOWN: Final = 20
"""Maximum number of groups with a line; those that need a person come first."""
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_SOME_MINUTES, _SOME_HOURS, _SOME_DAYS = 2 * _MINUTE, 2 * _HOUR, 2 * _DAY


def group_lines(status: FlowStatus, *, chosen: tuple[str, ...] = (), every: bool = False) -> dict[str, Any]:
    """The part of the status about groups: a sentence, and a table of groups or of partitions.

    :param chosen: only these, with each of their partitions
    :param every: all groups instead of the first :data:`SHOWN`
    """
    seen = status.groups
    if seen is None:
        return {"groups": "unknown" if not status.target_answers else "not looked after, or not yet"}
    shown: dict[str, Any] = {"groups": summary(seen)}
    groups = worst_first(seen.groups)
    if chosen:
        groups = [g for g in groups if g.group in chosen]
    listed = groups if every or chosen else groups[:SHOWN]
    if listed:
        shown["positions"] = [_group(g, seen) for g in listed]
    if left := groups[len(listed) :]:
        ready = sum(g.ready for g in left)
        shown["not shown"] = f"{len(left):,} groups more, {ready:,} of them ready: --all-groups, or --json"
    if chosen and listed:
        shown["partitions"] = [_group_partition(g, p, seen.at_ms) for g in listed for p in g.partitions]
    if others := [o for o in seen.others if not chosen or o.group in chosen]:
        named = others if every else others[:SHOWN]
        shown["not synchronised"] = [{"group": o.group, "why": o.reason} for o in named]
    return shown


def summary(seen: GroupsSeen) -> str:
    """Number of ready groups, and the age of that figure, in one sentence."""
    if seen.error:
        return f"unknown: {seen.error}"
    text = f"{seen.ready:,} of {len(seen.groups):,} ready" if seen.groups else "none has a committed offset"
    text += f"; last checkpoints {ago(seen.rounds.age_seconds)}"
    if seen.rounds.source_gone_seconds:
        text += f", the source was seen last {ago(seen.rounds.source_gone_seconds)}"
    if seen.others_total:
        text += f"; {counted(seen.others_total, 'other group')} not synchronised"
    if seen.unreadable:
        text += f"; {seen.unreadable:,} records of the checkpoint topic are not checkpoints"
    return text


def ago(seconds: float | None) -> str:
    """A time in the past, in the unit that fits."""
    if seconds is None:
        return "never"
    if seconds < _SOME_MINUTES:
        return f"{seconds:.0f} s ago"
    if seconds < _SOME_HOURS:
        return f"{seconds / _MINUTE:.0f} min ago"
    return f"{seconds / _HOUR:.0f} h ago" if seconds < _SOME_DAYS else f"{seconds / _DAY:.0f} d ago"


def _group(g: GroupStatus, seen: GroupsSeen) -> dict[str, Any]:
    return {
        "group": g.group,
        "state": g.state or "–",
        "protocol": g.protocol or "–",
        "ready": f"{g.ready_partitions}/{len(g.wanted)}",
        "will reprocess": _number(g.repeats),
        "remaining": _number(g.left),
        "checkpoint": ago(seen.rounds.age_seconds),
        "why not": g.reason,
    }


def _group_partition(g: GroupStatus, p: GroupPartition, now_ms: int) -> dict[str, Any]:
    return {
        "group": g.group,
        "topic": p.topic,
        "partition": p.partition,
        "committed": _number(p.committed),
        "position": _number(p.position),
        "stored": _number(p.stored),
        "will reprocess": _number(p.repeats),
        "remaining": _number(p.left),
        "written": ago(None if p.written_ms is None else max(0, now_ms - p.written_ms) / 1000),
        "": p.state.value,
        "why not": p.reason,
    }


def _number(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"
