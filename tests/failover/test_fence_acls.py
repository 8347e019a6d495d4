"""Fences by ACL, against the rules of Kafka's authorizer: nobody writes, and nobody loses anything else."""

from __future__ import annotations

from collections.abc import Collection

from hypothesis import given
from hypothesis import strategies as st

from drkit.failover.fence_acls import fence_acls, refusing_own
from drkit.topology.acls import ANY_HOST, EVERYBODY, Acl, Operation, PatternKind, Permission, ResourceKind

TOPIC = "orders"
OWN = "User:drkit"
USERS = ("User:shop", "User:bank", OWN)
READS = (Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)
_GIVES_DESCRIBE = {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}

patterns = st.sampled_from([
    (PatternKind.LITERAL, TOPIC), (PatternKind.LITERAL, "*"), (PatternKind.PREFIXED, "ord"),
    (PatternKind.LITERAL, "other"),
])  # fmt: skip


def topic_acl(
    pattern: tuple[PatternKind, str], user: str, operation: Operation, permission: Permission
) -> Acl:
    return Acl(ResourceKind.TOPIC, pattern[0], pattern[1], user, ANY_HOST, operation, permission)


acls = st.builds(
    topic_acl,
    patterns,
    st.sampled_from([*USERS, EVERYBODY]),
    st.sampled_from([Operation.READ, Operation.WRITE, Operation.ALL, Operation.DESCRIBE]),
    st.sampled_from(Permission),
)


def allowed(existing: Collection[Acl], user: str, operation: Operation, *, is_open: bool) -> bool:
    """StandardAuthorizer: a DENY wins, then an ALLOW, then what an open cluster does without any ACL."""
    there = [a for a in existing if a.covers(TOPIC)]
    if not there:
        return is_open
    mine = [a for a in there if a.principal in {user, EVERYBODY}]
    implied = {operation, Operation.ALL}
    if any(a.denies and a.operation in implied for a in mine):
        return False
    if operation is Operation.DESCRIBE:
        implied |= _GIVES_DESCRIBE
    return any(not a.denies and a.operation in implied for a in mine)


@given(st.frozensets(acls, max_size=6), st.booleans(), st.booleans())
def test_nobody_writes_and_reading_stays_as_it_was(existing: frozenset[Acl], is_open, spare):
    fence = fence_acls([TOPIC], existing, is_open=is_open, own={OWN}, spare_own=spare)
    after = existing | fence
    for user in USERS:
        for operation in READS:
            before = allowed(existing, user, operation, is_open=is_open)
            assert allowed(after, user, operation, is_open=is_open) == before or (spare and user == OWN)
        if not (spare and user == OWN):
            assert not allowed(after, user, Operation.WRITE, is_open=is_open), user


def test_on_an_open_cluster_nothing_is_denied():
    found = fence_acls([TOPIC], [], is_open=True, own={OWN}, spare_own=True)
    assert not [a for a in found if a.denies]
    assert {(a.principal, a.operation) for a in found} == {
        *((EVERYBODY, o) for o in READS), (OWN, Operation.ALL),
    }  # fmt: skip


def test_a_topic_that_is_closed_anyway_needs_nothing():
    assert fence_acls([TOPIC], [], is_open=False, own={OWN}) == frozenset()


def test_a_deny_of_everybody_or_of_drkit_is_found():
    shop = topic_acl((PatternKind.LITERAL, TOPIC), "User:shop", Operation.WRITE, Permission.DENY)
    everybody, own = (shop._replace(principal=p) for p in (EVERYBODY, OWN))
    given = shop._replace(principal=OWN, permission=Permission.ALLOW)
    assert refusing_own([shop, given], [OWN]) == []
    assert refusing_own([shop, everybody, own], [OWN]) == sorted([everybody, own])


@given(st.frozensets(acls, max_size=6), st.booleans())
def test_spared_drkit_is_refused_only_where_that_is_found(existing: frozenset[Acl], is_open):
    fence = fence_acls([TOPIC], existing, is_open=is_open, own={OWN}, spare_own=True)
    before = allowed(existing, OWN, Operation.WRITE, is_open=is_open)
    after = allowed(existing | fence, OWN, Operation.WRITE, is_open=is_open)
    assert after or not before or refusing_own(fence, [OWN])
