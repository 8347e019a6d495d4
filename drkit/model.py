"""The words of drkit as types (source/target, upstream/downstream, segment, frontier)."""

from __future__ import annotations

from typing import NamedTuple, NewType

SourceOffset = NewType("SourceOffset", int)
"""An offset in a partition of the source cluster (MM2: *upstream*)."""

TargetOffset = NewType("TargetOffset", int)
"""An offset in a partition of the target cluster (MM2: *downstream*)."""


class FlowAliases(NamedTuple):
    """The aliases of the two clusters of a flow."""

    source: str
    target: str

    @property
    def name(self) -> str:
        """``source->target``, as on the command line."""
        return f"{self.source}->{self.target}"


class TopicPartition(NamedTuple):
    """A topic name and a partition number of one cluster."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class ConsumedRecord(NamedTuple):
    """A record as an ordinary consumer sees it."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] | None
    timestamp: int
    """Milliseconds since 1970."""
