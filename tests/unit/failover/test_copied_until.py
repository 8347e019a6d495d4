"""Up to when the topics of a failover are copied, as heartbeats and the freeze say it."""

from __future__ import annotations

from drkit.failover.loss.silent import STOP, copied_until
from drkit.flow_state.records import Role, RoleRecord

FROZEN = RoleRecord(Role.FROZEN, 1, "r", 5_000)


def test_newer_heartbeats_say_nothing_of_frozen_topics():
    """The replicator copies other topics: its newest heartbeat is new, these topics ended at the freeze."""
    effects = {STOP: {"intent": {"topics": ["t"], "copied_ms": 4_400}, "result": None}}
    assert copied_until(9_900, [FROZEN, None], effects) == 4_400
    assert copied_until(4_000, [FROZEN], effects) == 4_000
    assert copied_until(9_900, [FROZEN], {}) == 5_000, "an entry without this field"
    assert copied_until(None, [FROZEN], effects) is None


def test_while_they_are_copied_the_newest_heartbeat_counts():
    effects = {STOP: {"intent": {"topics": ["t"], "copied_ms": 4_400}, "result": None}}
    assert copied_until(9_900, [None], effects) == 9_900, "the freeze was rolled back"
    assert copied_until(9_900, [None], {}) == 9_900
