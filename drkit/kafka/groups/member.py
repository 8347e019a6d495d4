"""Members of groups, and which topics they read, as their coordinators describe them. Pure."""

from __future__ import annotations

from collections.abc import Collection
import re
import struct
from typing import Any, Final, NamedTuple

from kafka.protocol.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription

_FIRST_VERSION: Final = bytes(2)
"""Later versions only add fields at the end, which not every client fills as it should."""
_OTHER_CLASS: Final = "[:"
"""Begins a class of the broker's dialect, as in ``[[:alpha:]]``; Python takes it for these two characters."""


class Reads(NamedTuple):
    """The topics of a member: what it subscribes to, and what is assigned to it."""

    topics: frozenset[str] = frozenset()
    pattern: str = ""
    """The expression that a broker resolves (KIP-848), or empty if the member names its topics."""

    def some_of(self, topics: Collection[str]) -> bool:
        """Return whether the member reads one of these topics, or may read one."""
        if not self.topics.isdisjoint(topics):
            return True
        if not self.pattern:
            return False
        if _OTHER_CLASS in self.pattern:
            return True
        try:
            pattern = re.compile(self.pattern)
        except re.error:  # the broker's dialect is another one (RE2)
            return True
        return any(pattern.fullmatch(topic) for topic in topics)


class Member(NamedTuple):
    """A member as its coordinator knows it; one that was killed stays until its session is over."""

    id: str
    instance: str | None
    """The id of a static member (KIP-345), which stays a member for a while after it has closed."""
    client: str
    host: str
    reads: Reads | None = None
    """None while unknown, for example while the group rebalances."""


def classic_member(described: Any) -> Member:
    """Read a member of the classic protocol in the broker's answer."""
    m = described
    reads = reads_of(bytes(m.member_metadata), bytes(m.member_assignment))
    return Member(m.member_id, m.group_instance_id, m.client_id, m.client_host.lstrip("/"), reads)


def consumer_member(described: Any) -> Member:
    """Read a member of the consumer protocol (KIP-848) in the broker's answer."""
    m = described
    parts = (*m.assignment.topic_partitions, *m.target_assignment.topic_partitions)
    names = {*m.subscribed_topic_names, *(p.topic_name for p in parts)}
    reads = Reads(frozenset(names), m.subscribed_topic_regex or "")
    return Member(m.member_id, m.instance_id, m.client_id, m.client_host.lstrip("/"), reads)


def share_member(described: Any) -> Member:
    """Read a member of a share group (KIP-932) in the broker's answer."""
    m = described
    names = {*m.subscribed_topic_names, *(p.topic_name for p in m.assignment.topic_partitions)}
    return Member(m.member_id, None, m.client_id, m.client_host.lstrip("/"), Reads(frozenset(names)))


def reads_of(metadata: bytes, assignment: bytes) -> Reads | None:
    """Return what a member of the classic protocol reads, or None if it is unknown.

    A coordinator sends neither the subscription nor the assignment while the group rebalances.
    """
    if not metadata:
        return None
    try:
        topics = set(ConsumerProtocolSubscription.decode(_FIRST_VERSION + metadata[2:]).topics)
        if assignment:
            parts = ConsumerProtocolAssignment.decode(_FIRST_VERSION + assignment[2:]).assigned_partitions
            topics |= {part.topic for part in parts}
    except (struct.error, ValueError, TypeError):  # also for null where there must be a list
        return None
    return Reads(frozenset(topics))
