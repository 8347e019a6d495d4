"""What the last checkpoint round shows of a primary that is dead."""

from __future__ import annotations

from drkit.failover.checks.out_of_scope import OutOfScope, by_the_last_round
from drkit.failover.core.context import Scope
from drkit.failover.groups.offsets import checkpoints_age
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
    found = by_the_last_round(OutOfScope(), scope, flow_state({"checkpoints": round_}))
    assert list(found.no_place) == ["g-lost"], "the others are elsewhere, or have a position"
    assert "orders-0: a part of the log" in found.no_place["g-lost"]
    assert "share group" in found.kinds["g-share"]
    notes = "\n".join(found.notes())
    assert "group g-lost has no exact position" in notes
    assert "group g-share remains" in notes
    assert by_the_last_round(OutOfScope(), scope, flow_state({})) == OutOfScope()


def test_positions_are_as_old_as_the_last_round_that_ended_well():
    """A failover said 35 s, the time of a round that had failed; the last good one was 102 s ago."""
    failed = {"at_ms": 165_000, "ok_ms": 98_000, "verdicts": {}, "unread": {"g": -1}, "error": "no answer"}
    assert checkpoints_age(flow_state({"checkpoints": failed}), 200_000) == 102.0
    assert checkpoints_age(flow_state({"checkpoints": {**failed, "ok_ms": 0}}), 200_000) is None
    assert checkpoints_age(flow_state({"checkpoints": {"at_ms": 165_000}}), 200_000) is None
    assert checkpoints_age(flow_state({}), 200_000) is None
