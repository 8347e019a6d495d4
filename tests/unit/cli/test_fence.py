"""What ``drkit fence pay`` prints for a person. Pure."""

from __future__ import annotations

from typing import Any

import pytest

from drkit.cli.actions import fence
from drkit.failover.pending_fences import TAKEN_AWAY, Fences, TopicFence


def test_a_fence_that_was_put_up_has_no_row_for_a_debt():
    told: dict[str, Any] = {
        "paid": True, "proven": True, "how": "acl", "debt": "", "details": {"refused": 0},
        "notes": ["a is fenced by acl"], "next": "drkit divergence",
    }  # fmt: skip
    assert fence._filled(told) == {name: value for name, value in told.items() if name != "debt"}
    assert fence._filled({"paid": True, "notes": []}) == {"paid": True}


@pytest.mark.parametrize("fence_", ["acl", TAKEN_AWAY])
def test_a_fence_that_somebody_took_away_has_a_command(fence_: str):
    topics = tuple(TopicFence(t, f, "yes", promoted=True) for t, f in (("a", "acl"), ("b", fence_)))
    said = fence.next_of(Fences("p->s", "p", topics, None, None, ""))
    assert said == (
        "find out who took away the fence of b; drkit fence pay --flow 'p->s' asks, and puts it up again"
        if fence_ == TAKEN_AWAY
        else ""
    )
