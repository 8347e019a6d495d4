"""`drkit fence pay` does what was agreed to, and names what came up since. Pure."""

from __future__ import annotations

from drkit.failover.pending_fences import DueFences
from drkit.flow_state.records import PendingFence, PendingLift


def test_what_came_up_since_is_named_and_not_done() -> None:
    pending = PendingFence("r1", 1, 0, "silent", ("a", "b"))
    agreed = DueFences.of(pending, None, ["c"])
    now = DueFences.of(
        PendingFence("r2", 2, 0, "silent", ("b", "d")), PendingLift("r1", 0, "no", ("a",)), ["c", "e"]
    )
    assert now.within(agreed) == DueFences(frozenset("b"), frozenset(), frozenset("c"))
    assert now.within(agreed).to_fence == ["b", "c"]
    assert [line.partition(" since ")[0] for line in now.besides(agreed)] == [
        "the fence of d is pending",
        "the lift of the fence of a is pending",
        "the fence of e was lifted outside drkit",
    ]
    assert not agreed.within(agreed).besides(agreed)
