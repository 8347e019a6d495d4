from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.topology import IdentityNaming, NameFilter, PrefixNaming, Route, collision, rings


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
    flows = [route("a", "b"), route("b", "c"), route("c", "a")]
    assert list(rings(flows)) == [("a", "b", "c")]


def test_no_ring():
    assert not list(rings([route("a", "b"), route("b", "a")]))  # a pair knows its own batches
    assert not list(rings([route("a", "b"), route("b", "c")]))
    assert not list(rings([route("a", "b"), route("b", "c"), route("c", "a", prefix=True)]))
    assert not list(rings([route("a", "b", "x"), route("b", "c", "y"), route("c", "a", "z")]))
