"""What a verification keeps of a partition holds for one turn: a later one may have emptied a side."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from drkit.flow_state.records import VerifiedRecord

FOUND = VerifiedRecord(UUID(int=1), UUID(int=2), 60, 60, 1_000, "first")


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        ({}, True),
        ({"source_offset": 90, "target_offset": 90, "at_ms": 2_000}, True),
        ({"turn": "second"}, False),
        ({"turn": None}, False),
        ({"source_id": UUID(int=3)}, False),
        ({"target_id": UUID(int=3)}, False),
    ],
)
def test_it_is_of_the_same_topics_and_turn(changed: dict[str, object], *, same: bool):
    assert FOUND.is_of(replace(FOUND, **changed)) is same  # type: ignore[arg-type]
