"""The bytes that each method of a return sends, and the time that takes at a measured rate.

Sizes are those on the new primary's disks: batches are sent as they are stored. Part of a partition counts
by its offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from drkit.errors import DrkitError
from drkit.failover.core.context import Context
from drkit.failover.core.request import Method
from drkit.failover.core.reverse import records_of, reverse_flow
from drkit.flow_state.records import SpeedRecord

ESTIMATE_BYTES_PER_SECOND: Final = 10 * 1024 * 1024
"""The rate where nothing was measured; it is always marked as an estimate."""


class CopyRate(NamedTuple):
    """The rate at which records are copied to the old primary."""

    bytes_per_second: float
    measured_by: str = ""
    """The flow whose epoch was measured; empty if this is an estimate."""
    measured_ms: int | None = None

    @property
    def is_estimate(self) -> bool:
        """Return whether nothing was measured."""
        return not self.measured_by

    def to_json(self) -> dict[str, Any]:
        """Return the rate as plain data."""
        return {**self._asdict(), "is_estimate": self.is_estimate}


class MethodCost(NamedTuple):
    """The bytes that a method sends to the old primary, and the time that takes."""

    bytes: int | None
    """None if the new primary hides its sizes."""
    seconds: float | None


class PartitionSize(NamedTuple):
    """The bytes of a partition of the new primary."""

    whole: int | None
    since: int | None
    """About the bytes that clients wrote since the failover."""


def rate_of(context: Context) -> CopyRate:
    """Return the rate of the reverse flow, else of the flow over the same link, else an estimate."""
    try:
        reverse_speed = records_of(context.settings, reverse_flow(context)).readable(SpeedRecord).get("")
    except DrkitError:
        reverse_speed = None  # the old primary is away, and its state with it
    flow_speed = context.state.records.readable(SpeedRecord).get("")
    name = f"{context.flow.target}->{context.flow.source}"
    for flow, speed in ((name, reverse_speed), (context.flow.name, flow_speed)):
        if speed is not None and speed.bytes_per_second > 0:
            return CopyRate(speed.bytes_per_second, flow, speed.at_ms)
    return CopyRate(ESTIMATE_BYTES_PER_SECOND)


def costs_of(sizes: Iterable[PartitionSize], rate: CopyRate) -> dict[str, MethodCost]:
    """Return what each method would send of a topic if it were used for all partitions. Pure."""
    partitions = list(sizes)
    since, whole = _sum(s.since for s in partitions), _sum(s.whole for s in partitions)
    return {m.value: cost(whole if m is Method.REBUILD else since, rate) for m in Method}


def chosen_cost(
    sizes: Mapping[int, PartitionSize], methods: Mapping[int, Method], rate: CopyRate
) -> MethodCost:
    """Return the cost of the chosen methods of a topic; a partition without one continues. Pure."""
    each = (s.whole if methods.get(p) is Method.REBUILD else s.since for p, s in sizes.items())
    return cost(_sum(each), rate)


def cost(size: int | None, rate: CopyRate) -> MethodCost:
    """Return the cost of sending some bytes. Pure."""
    return MethodCost(size, None if size is None else size / rate.bytes_per_second)


def _sum(sizes: Iterable[int | None]) -> int | None:
    total = 0
    for size in sizes:
        if size is None:
            return None
        total += size
    return total
