"""What the members of groups read, as coordinators describe them. No broker."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription
import pytest

from drkit.kafka.groups.member import Reads, reads_of

TOPICS = st.lists(st.text(min_size=1, max_size=9), max_size=4, unique=True)


def subscribed(topics: list[str], version: int) -> bytes:
    fields = {"owned_partitions": [], "generation_id": 3, "rack_id": "r"} if version else {}
    made = ConsumerProtocolSubscription(version=version, topics=topics, user_data=b"of mine", **fields)
    return bytes(made.encode(version=version))


def assigned(topics: list[str]) -> bytes:
    partition = ConsumerProtocolAssignment.TopicPartition
    some = [partition(topic=t, partitions=[0, 7]) for t in topics]
    made = ConsumerProtocolAssignment(version=0, assigned_partitions=some, user_data=b"")
    return bytes(made.encode(version=0))


@given(TOPICS, TOPICS, st.integers(0, 3))
def test_a_classic_member_reads_what_it_subscribes_to_and_what_is_assigned(
    topics: list[str], others: list[str], version: int
) -> None:
    assert reads_of(subscribed(topics, version), assigned(others)) == Reads(frozenset({*topics, *others}))
    assert reads_of(subscribed(topics, version), b"") == Reads(frozenset(topics))


@given(TOPICS, st.integers(0, 60))
def test_what_cannot_be_read_is_unknown(topics: list[str], kept: int) -> None:
    """Also while a group rebalances: the coordinator describes nothing then."""
    assert reads_of(b"", b"") is None
    whole = subscribed(topics, 0)
    found = reads_of(whole[:kept], b"")
    assert found is None or found == Reads(frozenset(topics))


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_any_bytes_are_read_or_unknown(metadata: bytes, assignment: bytes) -> None:
    """A member writes both itself, and brokers do not check them."""
    found = reads_of(metadata, assignment)
    assert found is None or isinstance(found, Reads)


def test_a_list_that_is_null_is_unknown() -> None:
    null = b"\0\0\xff\xff\xff\xff\xff\xff\xff\xff"
    assert reads_of(null, b"") is None
    assert reads_of(subscribed(["orders"], 0), null) is None


@pytest.mark.parametrize(
    ("reads", "is_reader"),
    [
        (Reads(frozenset({"orders"})), True),
        (Reads(frozenset({"others"})), False),
        (Reads(), False),
        (Reads(pattern="ord.*"), True),
        (Reads(pattern="rders"), False),
        (Reads(pattern="\\Q("), True),
        (Reads(pattern="[[:alpha:]]+"), True),
    ],
)
def test_who_reads_a_topic(reads: Reads, *, is_reader: bool) -> None:
    assert reads.some_of({"orders", "more"}) is is_reader
