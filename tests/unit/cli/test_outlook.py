"""What the plan of a return says beside its rows. No broker."""

from __future__ import annotations

from typing import Any

import pytest

from drkit.cli.screens.outlook import notes_of, row_of
from drkit.config import FlowSettings
from drkit.failover.returning.outlook import TopicOutlook

FLOW = FlowSettings(source="primary", target="standby", topics=[".*"])


def outlook(**more: Any) -> TopicOutlook:
    """A topic with a tail of four records."""
    return TopicOutlook("t", 0, False, 2, 30, 100, only_old=4, **more)  # noqa: FBT003


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, []),
        ({"early_groups": ("g at 3",)}, ["t: trim would leave without a position: g at 3"]),
        (
            {"appended": 4, "late_groups": ("g at 50 of t-0",)},
            [
                "t: 4 records of primary stay there, and are appended to standby",
                "t: keep holds the way home until these have read what is appended: g at 50 of t-0",
            ],
        ),
    ],
)
def test_what_a_method_asks_of_groups_is_named(more: dict[str, Any], said: list[str]) -> None:
    assert list(notes_of([outlook(**more)], FLOW)) == said


def test_a_kept_tail_is_no_volume_to_copy_back() -> None:
    row = row_of(outlook(methods={"keep": 2}, copies=30, appended=4))
    assert (row["method"], row["copies"], row["delta"]) == ("keep", "30", "30")
