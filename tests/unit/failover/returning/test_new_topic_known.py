"""A topic that was just created is known to every broker before its id is taken. No broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from drkit.config import FlowSettings
from drkit.errors import Failed
from drkit.failover.core.commands import NOTHING
from drkit.failover.returning import seeds
from drkit.kafka import codes
from drkit.kafka.requests import TopicMetadata

KNOWN = TopicMetadata(0, UUID(int=7), {})
BEHIND = TopicMetadata(codes.UNKNOWN_TOPIC_OR_PARTITION, UUID(int=0), {})


def returning(*answers: list[TopicMetadata]) -> Any:
    """A return whose old primary answers so, one time after the other."""
    left = [*answers]
    return SimpleNamespace(
        source=object, run=lambda *_: {"t": left.pop(0) if len(left) > 1 else left[0]},
        flow=FlowSettings(source="p", target="s"), request=NOTHING, named_topics=(),
        until_export=False, run_id="",
    )  # fmt: skip


def test_a_broker_that_is_behind_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer has no id: the map began for a topic that does not exist, and the return was held."""
    assert seeds._ids(returning([KNOWN, BEHIND], [KNOWN, KNOWN]), ["t"]) == {"t": KNOWN.topic_id}
    monkeypatch.setattr(seeds, "_KNOWN_SECONDS", 0.1)
    with pytest.raises(Failed) as failed:
        seeds._ids(returning([KNOWN, BEHIND]), ["t"])
    assert failed.value.evidence.startswith("t: "), failed.value.evidence
