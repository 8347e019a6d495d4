"""For which groups a switchover waits."""

from __future__ import annotations

from drkit.failover.groups.waits import STUCK_SECONDS, Moving


def test_a_group_that_commits_nothing_more_is_not_waited_for():
    """As one whose application writes into a fenced topic what it makes of its records."""
    now = [100.0]
    moving = Moving(lambda: now[0])
    assert moving.of({"reads": 50, "stuck": 7}) == ["reads", "stuck"]
    now[0] += STUCK_SECONDS - 1
    assert moving.of({"reads": 20, "stuck": 7}) == ["reads", "stuck"]
    now[0] += 1
    assert moving.of({"reads": 20, "stuck": 7}) == ["reads"]
    assert moving.of({"stuck": 6, "late": 3}) == ["stuck", "late"], "it has moved again, and another one came"
    assert moving.of({}) == []
