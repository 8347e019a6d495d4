"""Writes committed offsets of groups on a cluster, reads them back, and restores earlier ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drkit.failover.groups.look import partition_of
from drkit.kafka.groups.requests import Committed, Groups
from drkit.kafka.raw import RawCluster
from drkit.model import TopicPartition
from drkit.offsets.group_guard import StoredOffset

Writes = dict[str, dict[TopicPartition, StoredOffset]]
"""Group → partition → the offset to write."""


async def write(cluster: RawCluster, writes: Writes) -> dict[str, dict[TopicPartition, str]]:
    """Write and read back; return the offsets that were not stored, with the reason."""
    groups = Groups(cluster)
    wanted = {g: {at: Committed(*s) for at, s in p.items()} for g, p in writes.items()}
    answers = await groups.alter(wanted)
    stored = await groups.committed(wanted)
    failed: dict[str, dict[TopicPartition, str]] = {}
    for group, offsets in wanted.items():
        codes, kept = answers[group].value or {}, stored[group].value or {}
        for at, offset in offsets.items():
            if code := codes.get(at, answers[group].error):
                failed.setdefault(group, {})[at] = f"Kafka error code {code}"
            elif kept.get(at) != offset:
                failed.setdefault(group, {})[at] = f"read back: {kept.get(at)}"
    return failed


async def restore(
    cluster: RawCluster, source: str, before: Mapping[str, Mapping[str, list[Any] | None]]
) -> int:
    """Restore earlier offsets where drkit's are still stored; return how many.

    :param source: alias in drkit's marks
    """
    groups = Groups(cluster)
    committed = await groups.committed(before)
    back: dict[str, dict[TopicPartition, Committed]] = {}
    number = 0
    for group, partitions in before.items():
        gone = []
        for text, value in partitions.items():
            at = partition_of(text)
            now = (committed[group].value or {}).get(at)
            mark = StoredOffset(*now).mark if now is not None else None
            if mark is None or mark.source != source:
                continue  # the group has committed since
            if value is None:
                gone.append(at)
            else:
                back.setdefault(group, {})[at] = Committed(*value)
        if gone:
            await groups.delete_offsets(group, gone)
            number += len(gone)
    await groups.alter(back)
    return number + sum(map(len, back.values()))
