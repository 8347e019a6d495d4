"""What ``drkit fence pay`` prints for a person. Pure."""

from __future__ import annotations

from typing import Any

from drkit.cli.actions import fence


def test_a_fence_that_was_put_up_has_no_row_for_a_debt():
    told: dict[str, Any] = {
        "paid": True, "proven": True, "how": "acl", "debt": "", "details": {"refused": 0},
        "notes": ["a is fenced by acl"], "next": "drkit divergence",
    }  # fmt: skip
    assert fence._filled(told) == {name: value for name, value in told.items() if name != "debt"}
    assert fence._filled({"paid": True, "notes": []}) == {"paid": True}
