"""Groups outside a flow's filter that read what the flow copies: a failover leaves them behind."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Final

from drkit.checkpoints.other_groups import OtherGroup, left_out
from drkit.kafka.groups.requests import Groups, ListedGroup

_MOST: Final = 500
"""Maximum number of groups whose offsets are requested: the first by name."""


async def left_out_readers(
    source: Groups, listed: Mapping[str, ListedGroup], topics: Container[str], accepts: Callable[[str], bool]
) -> tuple[OtherGroup, ...]:
    """Groups that the filter leaves out and that have committed offsets in copied topics, by name.

    :param topics: that the flow copies
    :raises RawError: the source stopped answering
    """
    asked = await source.committed(sorted(g for g in listed if not accepts(g))[:_MOST])
    reading = {g for g, answer in asked.items() if any(at.topic in topics for at in answer.value or ())}
    return left_out(listed, reading.__contains__, accepts)
