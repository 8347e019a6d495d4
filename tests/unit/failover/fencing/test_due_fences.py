"""`drkit fence pay` does what was agreed to, and names what came up since. Pure."""

from __future__ import annotations

from drkit.failover.pending_fences import DueFences


def test_what_came_up_since_is_named_and_not_done() -> None:
    agreed = DueFences(pending=frozenset("ab"), taken_away=frozenset("c"))
    now = DueFences(pending=frozenset("bd"), lift=frozenset("a"), taken_away=frozenset("ce"))
    assert now.within(agreed) == DueFences(frozenset("b"), frozenset(), frozenset("c"))
    assert now.within(agreed).to_fence == ["b", "c"]
    assert [line.partition(" since ")[0] for line in now.besides(agreed)] == [
        "the fence of d is pending",
        "the lift of the fence of a is pending",
        "the fence of e was lifted outside drkit",
    ]
    assert not agreed.within(agreed).besides(agreed)
