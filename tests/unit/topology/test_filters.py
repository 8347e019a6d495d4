from __future__ import annotations

import pytest

from drkit.topology import (
    DEFAULT_GROUPS_EXCLUDE,
    DEFAULT_TOPICS_EXCLUDE,
    NameFilter,
    is_internal_topic,
    split_list,
)


def test_a_pattern_matches_whole_names_only():
    """P2: topics by list or regular expression, which match whole names."""
    chosen = NameFilter((r"orders", r"pay.*"))
    assert chosen.select(["orders", "orders2", "my-orders", "payments", "repay"]) == ["orders", "payments"]


def test_a_dot_is_any_character_so_that_no_name_is_left_out_in_silence():
    assert NameFilter((".*",)).accepts("billing\nnight")
    assert not NameFilter((".*",), ("billing.*",)).accepts("billing\nnight")


def test_exclude_wins():
    """P2: what is excluded stays out."""
    assert NameFilter((".*",), ("orders",)).select(["orders", "payments"]) == ["payments"]


def test_an_alternative_stays_inside_its_pattern():
    assert NameFilter(("a|b", "c")).select(["a", "b", "c", "ac", "bc"]) == ["a", "b", "c"]


def test_flags_and_groups_stay_inside_their_pattern():
    chosen = NameFilter((r"(?i)orders", r"(a|b)-\1", r"(c|d)-\1"))
    assert chosen.select(["ORDERS", "a-a", "a-b", "d-d", "C-C"]) == ["ORDERS", "a-a", "d-d"]


def test_nothing_listed_matches_nothing():
    assert not NameFilter(()).accepts("orders")


@pytest.mark.parametrize(
    ("name", "accepted"),
    [
        ("orders", True),
        ("orders.internal", False),
        ("orders-internal", False),
        ("orders.replica", False),
        ("__consumer_offsets", False),
        ("drkit-state.primary.internal", False),
        ("internal", True),
    ],
)
def test_default_excludes_of_topics(name: str, accepted: bool):  # noqa: FBT001  a table of expectations
    assert NameFilter((".*",), DEFAULT_TOPICS_EXCLUDE).accepts(name) is accepted


def test_default_excludes_of_groups():
    names = ["orders", "console-consumer-7", "connect-sink", "__x"]
    assert NameFilter((".*",), DEFAULT_GROUPS_EXCLUDE).select(names) == ["orders"]


@pytest.mark.parametrize(
    ("text", "items"), [("a, b ,c", ("a", "b", "c")), ("", ()), (" , ", ()), (r"a\.b", (r"a\.b",))]
)
def test_comma_lists(text: str, items: tuple[str, ...]):
    assert split_list(text) == items


@pytest.mark.parametrize(
    "topic",
    [
        "__consumer_offsets",
        "__transaction_state",
        "drkit-offset-map.primary.internal",
        "mm2-offset-syncs.b.internal",
        "primary.checkpoints.internal",
    ],
)
def test_bookkeeping_is_internal(topic: str):
    assert is_internal_topic(topic)


@pytest.mark.parametrize("topic", ["orders", "drkit-orders", "__mine", "orders.internal"])
def test_users_topics_are_not_internal(topic: str):
    assert not is_internal_topic(topic)
