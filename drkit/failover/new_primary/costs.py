"""What each method of a return sends, and how long that takes at a rate that was measured.

Sizes are those on the new primary's disks: batches travel as they are there. Part of a partition counts by
its offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from drkit.errors import DrkitError
from drkit.failover.core.context import Context
from drkit.failover.core.request import Method
from drkit.failover.core.reverse import records_of, reverse_flow
from drkit.flow_state.records import SpeedRecord
from drkit.kafka.raw import RawError

ESTIMATE_BYTES_PER_SECOND: Final = 10 * 1024 * 1024
"""Where nothing was measured; it is always said that it is an estimate."""


class CopyRate(NamedTuple):
    """How fast records are copied to the old primary."""

    bytes_per_second: float
    measured_by: str = ""
    """The flow whose epoch was measured; empty: nothing was, this is an estimate."""
    measured_ms: int | None = None

    @property
    def is_estimate(self) -> bool:
        """Whether nothing was measured."""
        return not self.measured_by

    def to_json(self) -> dict[str, Any]:
        """The rate as plain data."""
        return {**self._asdict(), "is_estimate": self.is_estimate}


class MethodCost(NamedTuple):
    """What a method sends to the old primary."""

    bytes: int | None
    """None: the new primary does not tell its sizes."""
    seconds: float | None


class PartitionSize(NamedTuple):
    """What a partition of the new primary has, in bytes."""

    whole: int | None
    since: int | None
    """About what clients wrote since the failover."""


def rate_of(context: Context) -> CopyRate:
    """Return the rate of the reverse flow, of the flow, or an estimate. Raises DrkitError: no answer."""
    try:
        reverse_speed = records_of(context.settings, reverse_flow(context)).readable(SpeedRecord).get("")
    except (DrkitError, RawError):
        reverse_speed = None  # the old primary is away, and its state with it
    flow_speed = context.state.records.readable(SpeedRecord).get("")
    name = f"{context.flow.target}->{context.flow.source}"
    for flow, speed in ((name, reverse_speed), (context.flow.name, flow_speed)):
        if speed is not None and speed.bytes_per_second > 0:
            return CopyRate(speed.bytes_per_second, flow, speed.at_ms)
    return CopyRate(ESTIMATE_BYTES_PER_SECOND)


def costs_of(sizes: Iterable[PartitionSize], rate: CopyRate) -> dict[str, MethodCost]:
    """What each method would send of a topic, were it walked for all of its partitions. Pure."""
    partitions = list(sizes)
    since, whole = _sum(s.since for s in partitions), _sum(s.whole for s in partitions)
    return {m.value: cost(whole if m is Method.REBUILD else since, rate) for m in Method}


def chosen_cost(
    sizes: Mapping[int, PartitionSize], methods: Mapping[int, Method], rate: CopyRate
) -> MethodCost:
    """Return what the chosen methods send of a topic; a partition without one continues. Pure."""
    each = (s.whole if methods.get(p) is Method.REBUILD else s.since for p, s in sizes.items())
    return cost(_sum(each), rate)


def cost(size: int | None, rate: CopyRate) -> MethodCost:
    """What it takes to send some bytes. Pure."""
    return MethodCost(size, None if size is None else size / rate.bytes_per_second)


def _sum(sizes: Iterable[int | None]) -> int | None:
    total = 0
    for size in sizes:
        if size is None:
            return None
        total += size
    return total
