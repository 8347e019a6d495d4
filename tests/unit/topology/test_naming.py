from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.topology import IdentityNaming, Naming, PrefixNaming

TOPICS = st.text(st.sampled_from("abc.-_"), min_size=1, max_size=20) | st.just("heartbeats")
POLICIES = st.sampled_from([IdentityNaming("primary"), PrefixNaming("primary"), PrefixNaming("primary", "-")])


@given(TOPICS, POLICIES)
def test_upstream_undoes_downstream(topic: str, naming: Naming):
    assert naming.upstream(naming.downstream(topic)) == topic


def test_identity_keeps_names():
    assert IdentityNaming("primary").downstream("orders") == "orders"
    assert IdentityNaming("primary").downstream("device-heartbeats") == "device-heartbeats"


def test_identity_distinguishes_heartbeats():
    naming = IdentityNaming("primary")
    assert naming.downstream("heartbeats") == "primary.heartbeats"
    assert naming.downstream("a.heartbeats") == "primary.a.heartbeats"
    assert naming.upstream("heartbeats") is None
    assert naming.comes_from("standby.heartbeats", "standby")
    assert not naming.comes_from("standby.orders", "standby")


def test_prefix():
    """P5: ``source.topic``, as MirrorMaker 2 names copies."""
    naming = PrefixNaming("primary", "_")
    assert naming.downstream("orders") == "primary_orders"
    assert naming.upstream("orders") is None
    assert naming.upstream("primary_") is None


@pytest.mark.parametrize(
    ("topic", "looping"),
    [
        ("standby.orders", True),
        ("x.standby.orders", True),
        ("standby", False),
        ("orders.standby", False),
        ("a.b", False),
    ],
)
def test_names_that_came_from_the_target(topic: str, looping: bool):  # noqa: FBT001  a table of expectations
    assert PrefixNaming("primary").comes_from(topic, "standby") is looping
