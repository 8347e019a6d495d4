"""``drkit replicate --once``: where a copy with an end ends, and what the groups find when it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from drkit.config import FlowSettings
from drkit.errors import ConfigError
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import list_offsets
from drkit.model import TopicPartition
from drkit.offsets.group_guard import Verdict
from drkit.replicate.planner import Placed

_AGAIN: Final = frozenset({Verdict.WRITE, Verdict.REFRESH, Verdict.NOT_STORED, Verdict.NOT_TOLD})
"""Behind these another round is worth while: what was written is read back, what failed is tried again."""
_LEFT: Final = frozenset({Verdict.NOT_STORED, Verdict.NOT_TOLD})
"""What should have been written and is not. All else is decided: the guard's table says why."""


def nothing_to_copy(flow: FlowSettings) -> ConfigError:
    """The error for a copy with an end that would copy nothing."""
    return ConfigError(
        "there is nothing to copy: no topic of the source matches",
        where=f"flow {flow.name}",
        evidence=f"topics = {list(flow.topics)}",
        hint="see what there is: drkit replicate --dry-run",
    )


def ends_now(source: Cluster, placed: Sequence[Placed]) -> dict[TopicPartition, int]:
    """The last stable offsets of the source's partitions.

    :raises DrkitError: the source does not answer
    """
    return list_offsets(source, [_source_of(p) for p in placed], "latest", committed=True)


def bounded(placed: Sequence[Placed], ends: Mapping[TopicPartition, int]) -> list[Placed]:
    """Leases up to these ends; a partition without one came later and is left out."""
    at = [(p, _source_of(p)) for p in placed]
    return [Placed(replace(p.lease, end=ends[where]), p.leader) for p, where in at if where in ends]


def _source_of(placed: Placed) -> TopicPartition:
    return TopicPartition(placed.lease.source_topic, placed.lease.partition)


def wants_another_round(summary: Mapping[str, Any]) -> bool:
    """Whether the last checkpoint round may be followed by a better one."""
    return bool(summary["error"] or summary["unread"] or _any(_AGAIN, summary))


def groups_left(summary: Mapping[str, Any]) -> bool:
    """Whether positions of groups are missing on the target that no rule forbids."""
    return bool(summary) and bool(summary["error"] or summary["unread"] or _any(_LEFT, summary))


def _any(verdicts: frozenset[Verdict], summary: Mapping[str, Any]) -> bool:
    return any(verdict.name in summary["verdicts"] for verdict in verdicts)
