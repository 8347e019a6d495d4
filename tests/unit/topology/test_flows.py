from __future__ import annotations

from itertools import islice

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.topology import IdentityNaming, NameFilter, PrefixNaming, Route, collision, rings, shared


def route(
    source: str, target: str, *topics: str, prefix: bool = False, exclude: tuple[str, ...] = ()
) -> Route:
    naming = PrefixNaming(source) if prefix else IdentityNaming(source)
    return Route(source, target, NameFilter(topics or (".*",), exclude), naming)


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        (("orders",), ("orders",), True),
        (("orders",), ("pay.*",), False),
        (("orders",), ("ord.*",), True),
        (("orders.*",), ("ord.*",), True),
        ((".*",), (".*",), True),
        (("a|b",), ("b|c",), True),
        ((r"eu\..*",), (r"us\..*",), False),
        (("orders", "payments"), ("payments",), True),
    ],
)
def test_two_flows_that_write_one_topic(one: tuple[str, ...], other: tuple[str, ...], shared: bool):  # noqa: FBT001  a table of expectations
    found = collision(route("a", "t", *one), route("b", "t", *other))
    assert (found is not None) is shared


def test_another_target_is_no_collision():
    assert collision(route("a", "t"), route("a", "u")) is None


def test_prefixes_keep_flows_apart():
    assert collision(route("a", "t", prefix=True), route("b", "t", prefix=True)) is None


def test_a_plain_name_can_look_like_a_prefixed_one():
    assert collision(route("a", "t", "orders", prefix=True), route("b", "t", "a.orders")) == "a.orders"


def test_exclude_can_keep_flows_apart():
    assert collision(route("a", "t", "orders"), route("b", "t", ".*", exclude=("orders",))) is None


@given(st.from_regex(r"[a-c.*|()]{1,8}", fullmatch=True))
def test_what_is_called_a_collision_is_one(pattern: str):
    try:
        one = route("a", "t", pattern)
        found = collision(one, route("b", "t", "a.*", "b"))
    except Exception as error:
        if type(error).__name__ in {"error", "PatternError"}:
            return  # no regular expression: refused when the configuration is read
        raise
    assert found is None or one.writes(found)


def test_a_ring_of_three():
    """P8: no cycles; with the same names only two clusters can know each other's batches."""
    flows = [route("a", "b"), route("b", "c"), route("c", "a")]
    (found,) = rings(flows)
    assert found.clusters == ("a", "b", "c")
    assert found.returns_as == found.topic


def test_a_ring_of_four_beside_other_flows():
    flows = [
        route("a", "b"),
        route("b", "c"),
        route("c", "d"),
        route("d", "a"),
        route("a", "x"),
        route("y", "c"),
    ]
    assert [r.clusters for r in rings(flows)] == [("a", "b", "c", "d")]


@pytest.mark.parametrize(
    "flows",
    [
        pytest.param([route("a", "b", prefix=True), route("b", "a")], id="a pair of two policies"),
        pytest.param([route("a", "b"), route("b", "c"), route("c", "a", prefix=True)], id="one of three"),
    ],
)
def test_names_that_would_grow_for_ever(flows: list[Route]):
    """P11: no loop of renaming flows makes names grow to Kafka's 249 characters."""
    found = next(iter(rings(flows)))
    assert len(found.returns_as) > len(found.topic)


def test_prefixes_that_do_not_see_each_others_hops():
    """P11: no renaming loops with two separators too: ``a.x`` has no hop for ``_``."""
    ways = (("a", "b", "."), ("b", "a", "_"))
    both = [Route(s, t, NameFilter((".*",)), PrefixNaming(s, mark)) for s, t, mark in ways]
    (found,) = rings(both)
    assert len(found.returns_as) > len(found.topic)


def test_a_mesh_of_many_clusters_is_quick():
    clusters = "abcdefghijkl"
    mesh = [route(s, t, prefix=True) for s in clusters for t in clusters if s != t]
    assert not list(rings(mesh))
    same = [route(s, t) for s in clusters for t in clusters if s != t]
    assert len(list(islice(rings(same), 5))) == 5


def test_a_policy_that_forgets_where_topics_come_from_grows_them():
    """P11: no renaming loops with a user's own policy too."""

    class Forgetful(PrefixNaming):
        def comes_from(self, _topic: str, _alias: str) -> bool:
            return False

    both = [Route(s, t, NameFilter((".*",)), Forgetful(s)) for s, t in (("a", "b"), ("b", "a"))]
    assert [r.returns_as for r in rings(both)]


@pytest.mark.parametrize(
    "flows",
    [
        pytest.param([route("a", "b"), route("b", "a")], id="bidirectional: a pair knows its own batches"),
        pytest.param([route("a", "b"), route("b", "c")], id="pipe"),
        pytest.param([route("a", "b"), route("a", "c"), route("a", "d")], id="fan-out"),
        pytest.param([route(s, "t", prefix=True) for s in "abc"], id="fan-in"),
        pytest.param([route("a", "b", prefix=True), route("b", "a", prefix=True)], id="active/active"),
        pytest.param(
            [route(s, t, prefix=True) for s in "abc" for t in "abc" if s != t], id="all to all, prefix"
        ),
        pytest.param(
            [route("a", "b", prefix=True), route("b", "c", prefix=True), route("c", "a")],
            id="names that know their way end a mixed ring",
        ),
        pytest.param([route("a", "b", "x"), route("b", "c", "y"), route("c", "a", "z")], id="other topics"),
    ],
)
def test_no_ring(flows: list[Route]):
    """P6: fan-out, fan-in, pipe, bidirectional and active/active are all allowed."""
    assert not list(rings(flows))
    assert not [1 for i, a in enumerate(flows) for b in flows[i + 1 :] if collision(a, b)]


def test_hops_are_in_the_name_and_end_the_way():
    """P5, P6: a pipe of prefixed names; a name goes to each cluster once."""
    ab, bc, ca = (route(s, t, prefix=True) for s, t in (("a", "b"), ("b", "c"), ("c", "a")))
    there = bc.naming.downstream(ab.naming.downstream("orders"))
    assert there == "b.a.orders"
    assert not ca.copies(there)
    assert ca.copies("b.orders")


def test_real_topics_that_two_flows_would_write():
    """P7: two flows that would copy the same topic twice are refused, by the topics there are."""
    one, other = route("a", "t", "[a-m].*s"), route("b", "t", "ledg?er(s)")
    assert list(shared([(one, ["items", "ledgers"]), (other, ["ledgers"])])) == [("ledgers", one, other)]
    assert not list(shared([(one, ["items"]), (other, ["ledgers"])]))
    elsewhere = other._replace(target="u")
    assert not list(shared([(one, ["ledgers"]), (elsewhere, ["ledgers"])]))
    assert not list(shared([(route("a", "t", prefix=True), ["x"]), (route("b", "t", prefix=True), ["x"])]))
