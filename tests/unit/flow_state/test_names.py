"""Names of internal topics and transactional ids are a contract: ACLs and other releases go by them."""

from __future__ import annotations

from drkit.flow_state import names


def test_the_names_of_internal_topics():
    assert names.state_topic("primary") == "drkit-state.primary.internal"
    assert names.fence_topic("primary", "standby") == "drkit-fence.primary.standby.internal"
    assert names.offset_map_topic("primary") == "drkit-offset-map.primary.internal"
    assert names.journal_topic("primary") == "drkit-failover.primary.internal"
    assert names.watch_topic("primary", "standby") == "drkit-watch.primary.standby.internal"
    assert names.CANARY_TOPIC == "drkit-canary.internal"


def test_the_transactional_ids():
    assert names.bulk_transactional_id("a", "b", 7) == "drkit.a.b.7"
    assert names.map_transactional_id("a", "b", 7) == "drkit.a.b.7.map"
    assert names.sole_transactional_id("a", "b", "lease") == "drkit.a.b.lease"
    assert names.sole_transactional_id("a", "b", "failover") == "drkit.a.b.failover"
    assert names.sole_transactional_id("a", "b", "automatic") == "drkit.a.b.automatic"


def test_the_source_in_the_name_of_a_state_topic():
    assert names.source_of_state_topic("drkit-state.a.b.internal") == "a.b"
    for other in ("drkit-state..internal", "drkit-state.a", "orders", "drkit-offset-map.a.internal", ""):
        assert names.source_of_state_topic(other) is None
