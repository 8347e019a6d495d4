"""Groups outside a flow's filter that read what the flow copies: a failover leaves them behind."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Final

from drkit.checkpoints.other_groups import OtherGroup, left_out
from drkit.kafka.groups.asking import Answered
from drkit.kafka.groups.requests import ListedGroup, Offsets

_MOST: Final = 500
"""Maximum number of groups whose offsets are requested: the first by name."""


def left_out_by(accepts: Callable[[str], bool], listed: Iterable[str]) -> list[str]:
    """The groups whose offsets :func:`left_out_readers` needs: those that a flow's filter leaves out."""
    return sorted(g for g in listed if not accepts(g))[:_MOST]


def left_out_readers(
    listed: Mapping[str, ListedGroup],
    committed: Mapping[str, Answered[Offsets]],
    topics: Container[str],
    accepts: Callable[[str], bool],
) -> tuple[OtherGroup, ...]:
    """Groups that the filter leaves out and that have committed offsets in copied topics, by name.

    :param committed: offsets on the source
    :param topics: that the flow copies
    """
    reading = {g for g, answer in committed.items() if any(at.topic in topics for at in answer.value or ())}
    return left_out(listed, reading.__contains__, accepts)
