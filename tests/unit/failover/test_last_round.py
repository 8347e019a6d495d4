"""What the last checkpoint round shows of a primary that is dead."""

from __future__ import annotations

from drkit.failover.checks.outside import Outside, by_the_last_round
from drkit.failover.core.context import Scope
from tests.support.stored import flow_state


def test_the_last_round_names_groups_without_a_position_and_of_other_kinds():
    """They have no checkpoint, so they would remain unnamed without the last round."""
    lines = [
        ["g-lost", "orders-0", "NO_POSITION", "a part of the log has no records in the map"],
        ["g-cash", "pay-0", "NO_POSITION", "why"],
        ["g-both", "orders-1", "LIVE", ""],
    ]
    round_ = {
        "at_ms": 5, "ok_ms": 5, "verdicts": {"NO_POSITION": 2}, "refused": lines, "unread": {},
        "not_synchronised": {"total": 1, "shown": {"g-share": "share"}},
    }  # fmt: skip
    scope = Scope({"orders": "b.orders"}, ("g-both", "g-shop"), whole_flow=False)
    found = by_the_last_round(Outside(), scope, flow_state({"checkpoints": round_}))
    assert list(found.no_place) == ["g-lost"], "the others are elsewhere, or have a position"
    assert "orders-0: a part of the log" in found.no_place["g-lost"]
    assert "share group" in found.kinds["g-share"]
    notes = "\n".join(found.notes())
    assert "group g-lost has no exact position" in notes
    assert "group g-share remains" in notes
    assert by_the_last_round(Outside(), scope, flow_state({})) == Outside()
