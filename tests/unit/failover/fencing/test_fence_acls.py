"""Fences by ACL, against the rules of Kafka's authorizer: they refuse writes, and nothing else."""

from __future__ import annotations

from collections.abc import Collection
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.config import ClusterSettings
from drkit.errors import Failed
from drkit.failover.fencing.methods import fence_acls, raise_acls, refusing_own
from drkit.failover.fencing.proof import Rights, Worth, worth
from drkit.kafka.access import acls as access
from drkit.kafka.admin import Cluster
from drkit.kafka.codes import CLUSTER_AUTHORIZATION_FAILED
from drkit.model import TopicPartition
from drkit.topology.acls import (
    ANY_HOST,
    EVERYBODY,
    Acl,
    AclOperation,
    PatternKind,
    Permission,
    ResourceKind,
)
from tests.support.errors import coded

TOPIC = "orders"
OWN = "User:drkit"
USERS = ("User:shop", "User:bank", OWN)
READS = (AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)
_GIVES_DESCRIBE = {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}

patterns = st.sampled_from([
    (PatternKind.LITERAL, TOPIC), (PatternKind.LITERAL, "*"), (PatternKind.PREFIXED, "ord"),
    (PatternKind.LITERAL, "other"),
])  # fmt: skip


def topic_acl(
    pattern: tuple[PatternKind, str], user: str, operation: AclOperation, permission: Permission
) -> Acl:
    return Acl(ResourceKind.TOPIC, pattern[0], pattern[1], user, ANY_HOST, operation, permission)


acls = st.builds(
    topic_acl,
    patterns,
    st.sampled_from([*USERS, EVERYBODY]),
    st.sampled_from([AclOperation.READ, AclOperation.WRITE, AclOperation.ALL, AclOperation.DESCRIBE]),
    st.sampled_from(Permission),
)


def allowed(existing: Collection[Acl], user: str, operation: AclOperation, *, is_open: bool) -> bool:
    """StandardAuthorizer: a DENY wins, then an ALLOW, then what an open cluster does without any ACL."""
    there = [a for a in existing if a.covers(TOPIC)]
    if not there:
        return is_open
    mine = [a for a in there if a.principal in {user, EVERYBODY}]
    implied = {operation, AclOperation.ALL}
    if any(a.denies and a.operation in implied for a in mine):
        return False
    if operation is AclOperation.DESCRIBE:
        implied |= _GIVES_DESCRIBE
    return any(not a.denies and a.operation in implied for a in mine)


@given(st.frozensets(acls, max_size=6), st.booleans(), st.booleans())
def test_no_principal_writes_and_reading_stays_as_it_was(existing: frozenset[Acl], is_open, spare):
    fence = fence_acls([TOPIC], existing, is_open=is_open, own={OWN}, spare_own=spare)
    after = existing | fence
    for user in USERS:
        for operation in READS:
            before = allowed(existing, user, operation, is_open=is_open)
            assert allowed(after, user, operation, is_open=is_open) == before or (spare and user == OWN)
        if not (spare and user == OWN):
            assert not allowed(after, user, AclOperation.WRITE, is_open=is_open), user


def test_on_an_open_cluster_nothing_is_denied():
    found = fence_acls([TOPIC], [], is_open=True, own={OWN}, spare_own=True)
    assert not [a for a in found if a.denies]
    assert {(a.principal, a.operation) for a in found} == {
        *((EVERYBODY, o) for o in READS), (OWN, AclOperation.ALL),
    }  # fmt: skip


def test_a_topic_that_is_closed_anyway_needs_nothing():
    assert fence_acls([TOPIC], [], is_open=False, own={OWN}) == frozenset()


def test_a_deny_of_all_principals_or_of_drkit_is_found():
    shop = topic_acl((PatternKind.LITERAL, TOPIC), "User:shop", AclOperation.WRITE, Permission.DENY)
    everybody, own = (shop._replace(principal=p) for p in (EVERYBODY, OWN))
    given = shop._replace(principal=OWN, permission=Permission.ALLOW)
    assert refusing_own([shop, given], [OWN]) == []
    assert refusing_own([shop, everybody, own], [OWN]) == sorted([everybody, own])


TWO = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
MAY = topic_acl((PatternKind.PREFIXED, "ord"), OWN, AclOperation.ALL, Permission.ALLOW)
MAY_NOT = topic_acl((PatternKind.LITERAL, TOPIC), OWN, AclOperation.READ, Permission.ALLOW)
DENY = topic_acl((PatternKind.LITERAL, TOPIC), OWN, AclOperation.WRITE, Permission.DENY)


@pytest.mark.parametrize(
    ("codes", "acls", "is_open", "expected"),
    [
        ((87, 87), [MAY], False, Worth.PROOF),
        ((29, 29), [MAY, DENY], False, Worth.PROOF),  # another fence refuses a principal that may write
        ((29, 29), [MAY_NOT], False, Worth.NOTHING),
        ((29, -1), [MAY_NOT], False, Worth.NOTHING),
        ((-1, -1), [MAY_NOT], False, Worth.PROOF),  # no answer: the proof itself will say so
        ((87, -1), [MAY_NOT], False, Worth.PASSES),
        ((10, 10), [MAY_NOT], False, Worth.PASSES),
        ((87, 87), [], False, Worth.PASSES),
        ((29, 29), [], False, Worth.NOTHING),
        ((87, 87), [], True, Worth.PROOF),
        ((29, 29), [], None, Worth.PROOF),
    ],
)
def test_what_a_refusal_is_worth(
    codes: tuple[int, int], acls: list[Acl], *, is_open: bool | None, expected: Worth
):
    asked = dict(zip(TWO, codes, strict=True))
    assert worth(asked, Rights(acls, {OWN}, is_open)) is expected
    assert worth(asked, Rights(acls, (), is_open)) is Worth.PROOF, "the canary's principal is unknown"


def test_one_topic_that_the_canary_may_write_is_enough():
    other = TopicPartition("other", 0)
    asked = {TWO[0]: 29, other: 29}
    assert worth(asked, Rights([MAY], {OWN}, is_open=False)) is Worth.PROOF


def test_where_drkit_applies_no_fence_each_topic_that_others_may_write_needs_a_proof():
    asked = {TWO[0]: 29, TopicPartition("other", 0): 29}
    bob = topic_acl((PatternKind.LITERAL, "other"), "User:bob", AclOperation.WRITE, Permission.ALLOW)
    rights = Rights([MAY], {OWN}, is_open=False, foreign=True)
    assert worth(asked, rights) is Worth.PROOF, "no principal may write to the other topic"
    assert worth(asked, rights._replace(acls=[MAY, bob])) is Worth.NOTHING
    denied = bob._replace(permission=Permission.DENY)
    assert worth(asked, rights._replace(acls=[MAY, bob, denied])) is Worth.PROOF


@given(st.frozensets(acls, max_size=6), st.booleans())
def test_spared_drkit_is_refused_only_where_that_is_found(existing: frozenset[Acl], is_open):
    fence = fence_acls([TOPIC], existing, is_open=is_open, own={OWN}, spare_own=True)
    before = allowed(existing, OWN, AclOperation.WRITE, is_open=is_open)
    after = allowed(existing | fence, OWN, AclOperation.WRITE, is_open=is_open)
    assert after or not before or refusing_own(fence, [OWN])


def test_a_fence_that_a_cluster_refuses_to_raise_again_is_an_error(monkeypatch: pytest.MonkeyPatch):
    """An abort that ignores the refusal ends, and clients write to the passive side."""
    monkeypatch.setattr(access, "_ask", lambda *_: [(CLUSTER_AUTHORIZATION_FAILED, "")])
    cluster = SimpleNamespace(admin=SimpleNamespace(incremental_alter_configs=None))
    monkeypatch.setattr(Cluster, "connect", lambda _: cluster)
    settings = ClusterSettings(alias="b", bootstrap_servers="b:9092")
    fence = topic_acl((PatternKind.LITERAL, TOPIC), EVERYBODY, AclOperation.WRITE, Permission.DENY)
    with pytest.raises(Failed, check=coded("fence_failed")):
        raise_acls(settings, {fence})
