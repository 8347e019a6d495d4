"""Names that are refused before anything is created (P11)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.errors import Refused
from drkit.topology import IdentityNaming, Naming, PrefixNaming
from drkit.topology.flows import refused_names

PREFIX = PrefixNaming("primary")
IDENTITY = IdentityNaming("primary")


def refused(naming: Naming, *topics: str, there: tuple[str, ...] = ()) -> dict[str, Refused]:
    return refused_names("primary->standby", "primary", naming, topics, there)


def test_a_name_over_249_characters():
    """P11: a topic whose copy would exceed 249 characters is left out."""
    fits, long = "x" * 241, "x" * 242
    found = refused(PREFIX, fits, long, "orders")
    assert set(found) == {long}
    assert "250 characters, 249 are allowed" in found[long].evidence
    assert "naming" in found[long].hint
    assert found[long].where == f"topic {long}, flow primary->standby"
    assert not refused(IDENTITY, long)


def test_a_local_topic_that_looks_like_a_copy():
    """With prefixes, a local topic ``foo.bar`` looks like a copy from ``foo``."""
    found = refused(PREFIX, "primary.orders", "orders", "other.orders", "primary-orders")
    assert set(found) == {"primary.orders"}
    assert "primary.primary.orders" in found["primary.orders"].evidence
    assert not refused(IDENTITY, "primary.orders")


@pytest.mark.parametrize(
    ("naming", "topic", "there"),
    [
        (IDENTITY, "orders.eu", "orders_eu"),
        (PREFIX, "orders", "primary_orders"),
        (PREFIX, "a_b", "primary.a.b"),
    ],
)
def test_a_name_that_differs_in_dots_only(naming: Naming, topic: str, there: str):
    """Brokers refuse it (Topic.hasCollision): said before anything is created."""
    found = refused(naming, topic, "other", there=("other", there))
    assert set(found) == {topic}
    assert there in found[topic].evidence
    assert not refused(naming, topic, there=(there, naming.downstream(topic))), "it is there already"


class Shouting:
    """Two topics may become one; names do not lead back."""

    def downstream(self, topic: str) -> str:
        return topic.upper()

    def upstream(self, topic: str) -> str | None:
        return topic.lower()

    def comes_from(self, _topic: str, _alias: str) -> bool:
        return False


class Folding(IdentityNaming):
    """`x.old` is taken for `x`."""

    def downstream(self, topic: str) -> str:
        return topic.removesuffix(".old")


class Spaced(IdentityNaming):
    def downstream(self, topic: str) -> str:
        return f"copy of {topic}"


def test_names_that_do_not_lead_back():
    found = refused(Shouting(), "orders", "Orders")
    assert set(found) == {"Orders"}
    assert "ORDERS would be taken for the copy of orders" in found["Orders"].evidence


def test_two_topics_with_one_copy():
    found = refused(Folding("primary"), "orders", "orders.old")
    assert set(found) == {"orders.old"}


def test_no_name_at_all():
    assert refused(Spaced("primary"), "orders")["orders"].code == "copy_name_invalid"


def test_a_copy_among_internal_topics():
    found = refused(PREFIX, "checkpoints.internal", "orders")
    assert set(found) == {"checkpoints.internal"}
    assert found["checkpoints.internal"].code == "copy_name_reserved"


NAMES = st.sets(st.text("abc._-", min_size=1, max_size=6).filter(lambda n: n not in {".", ".."}), max_size=8)


@given(NAMES, NAMES)
def test_what_is_left_can_be_created(topics: set[str], there: set[str]):
    for naming in (PREFIX, IDENTITY):
        found = refused(naming, *topics, there=tuple(there))
        copies = [naming.downstream(t) for t in topics if t not in found]
        assert len(copies) == len(set(copies))
        new = [c for c in copies if c not in there]
        plain = [c.replace(".", "_") for c in [*new, *there]]
        assert len({p for p in plain if plain.count(p) > 1} & {c.replace(".", "_") for c in new}) == 0
        assert all(e.evidence and e.hint and e.exit_code == 3 for e in found.values())
