"""What a return would allow again: rights are compared, whatever entries they have. No clusters."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.failover.checks.home_acls import HomeAcls, refused
from drkit.failover.core.request import RunRequest
from drkit.topology.acls import Acl, AclOperation, PatternKind, Permission, ResourceKind
from drkit.topology.acls_only_home import HomeScope, OnlyHome, only_home

TOPICS = ("ord", "ord-new", "pay")
SCOPE = HomeScope(
    frozenset(TOPICS), frozenset({"g"}), own=frozenset({"User:drkit"}), other_topics=frozenset({"ord-local"})
)
ID = "TRANSACTIONAL_ID"
_IMPLIED = {"DESCRIBE": {"READ", "WRITE", "DELETE", "ALTER"}}


def acl(
    name: str, operation: str = "READ", user: str = "app", kind: str = "TOPIC", *, prefixed: bool = False,
    deny: bool = False, host: str = "*",
) -> Acl:  # fmt: skip
    pattern = PatternKind.PREFIXED if prefixed else PatternKind.LITERAL
    permission = Permission.DENY if deny else Permission.ALLOW
    return Acl(ResourceKind(kind), pattern, name, f"User:{user}", host, AclOperation(operation), permission)


def found(home: Iterable[Acl], active: Iterable[Acl] = (), scope: HomeScope = SCOPE) -> list[Acl]:
    return [o.acl for o in only_home(home, active, scope)]


def test_what_does_not_return_is_named_of_each_kind():
    """Removed, such an ACL would take rights of clients that stay where they are."""
    scope = SCOPE._replace(other_groups=frozenset({"g-local", "h"}))
    [group] = only_home([acl("g", kind="GROUP", prefixed=True)], [], scope)
    assert (group.names, group.others) == (("g",), ("g-local",))
    [group] = only_home([acl("g", kind="GROUP")], [], scope)
    assert group.others == ()
    ids = acl("t", "WRITE", kind=ID)
    assert only_home([ids], [], scope)[0].others == ()
    [part] = only_home([ids], [], scope._replace(is_whole=False))
    assert (part.others, str(part)) == (("ord-local",), f"{ids} (it may serve clients of ord-local)")


@pytest.mark.parametrize(
    ("home", "active"),
    [
        (acl("*"), [acl(t) for t in TOPICS]),
        (acl("ord", prefixed=True), [acl("ord"), acl("ord-new")]),
        (acl("ord"), [acl("ord", "ALL")]),
        (acl("ord", "DESCRIBE"), [acl("ord", "WRITE")]),
        (acl("ord"), [acl("ord", user="*")]),
        (acl("ord", host="10.0.0.1"), [acl("ord")]),
        (acl("ord", host="10.0.0.1"), [acl("ord", host="10.0.0.1")]),
        (acl("g", kind="GROUP"), [acl("*", kind="GROUP")]),
        (acl("t1", "WRITE", kind=ID), [acl("t", "WRITE", kind=ID, prefixed=True)]),
        (acl("other"), []),
        (acl("other", kind="GROUP"), []),
        (acl("*", user="drkit"), []),
    ],
)  # fmt: skip
def test_the_same_right_by_another_entry_is_no_difference(home: Acl, active: list[Acl]):
    assert found([home], active) == []


@pytest.mark.parametrize(
    ("home", "active"),
    [
        (acl("ord"), []),
        (acl("*"), [acl("ord"), acl("pay")]),
        (acl("ord", "ALL"), [acl("ord"), acl("ord", "WRITE")]),
        (acl("ord", user="*"), [acl("ord")]),
        (acl("ord"), [acl("ord", host="10.0.0.1")]),
        (acl("ord"), [acl("ord"), acl("ord", deny=True)]),
        (acl("ord", "ALL"), [acl("ord", "ALL"), acl("ord", "WRITE", deny=True)]),
        (acl("g", kind="GROUP"), [acl("ord")]),
        (acl("t", "WRITE", kind=ID, prefixed=True), [acl("t1", "WRITE", kind=ID)]),
    ],
)  # fmt: skip
def test_what_was_revoked_is_named(home: Acl, active: list[Acl]):
    assert found([home], active) == [home]


def test_a_denial_of_what_is_in_use_is_named():
    deny = acl("ord", deny=True)
    assert found([acl("ord"), deny], [acl("ord")]) == [deny]
    assert found([deny], []) == [], "it takes no right away"
    assert found([acl("ord"), deny], [acl("ord"), deny]) == []


def test_the_same_denial_on_both_sides_is_no_difference():
    both = [acl("ord", user="*"), acl("ord", user="eve", deny=True)]
    assert found(both, both) == []
    assert found(both[:1], both) == both[:1], "eve may read at home"


def test_a_side_that_is_open_without_acls_has_revoked_nothing():
    assert found([acl("ord")], [acl("pay")], SCOPE._replace(is_open=True)) == []
    assert found([acl("ord")], [acl("ord", user="eve")], SCOPE._replace(is_open=True)) == [acl("ord")]


def test_what_else_it_is_about_is_said():
    [one] = only_home([acl("ord", prefixed=True)], [], SCOPE)
    assert (one.names, one.others) == (("ord", "ord-new"), ("ord-local",))
    assert str(one) == "ALLOW User:app READ on topic ord* (it is also about ord-local)"


kinds = st.sampled_from(["READ", "WRITE", "DESCRIBE", "ALL"])
acls = st.builds(
    lambda name, operation, user, prefixed, deny: acl(
        name, operation, user, prefixed=prefixed and name != "*", deny=deny
    ),
    st.sampled_from([*TOPICS, "*", "o"]), kinds, st.sampled_from(["app", "eve", "*"]), st.booleans(),
    st.booleans(),
)  # fmt: skip


def may(some: Iterable[Acl], user: str, operation: str, topic: str) -> bool:
    """Kafka's rule, written down a second time."""
    mine = [a for a in some if a.principal in {f"User:{user}", "User:*"} and a.covers(topic)]
    if any(a.denies and a.operation in {operation, "ALL"} for a in mine):
        return False
    enough = {operation, "ALL", *_IMPLIED.get(operation, ())}
    return any(not a.denies and a.operation in enough for a in mine)


@given(st.lists(acls, max_size=6), st.lists(acls, max_size=6))
def test_without_what_is_named_nobody_may_do_more_at_home(home: list[Acl], active: list[Acl]):
    left = [a for a in home if a not in found(home, active) or a.denies]
    for user in ("app", "eve", "bob"):
        for operation in ("READ", "WRITE", "DESCRIBE"):
            for topic in TOPICS:
                if may(left, user, operation, topic):
                    assert may(active, user, operation, topic), (user, operation, topic)


@given(st.lists(acls, max_size=6))
def test_equal_sides_have_no_difference(both: list[Acl]):
    assert found(both, both) == []


ONE = OnlyHome(acl("ord"), ("ord",), ())


@pytest.mark.parametrize(
    ("seen", "choice", "code"),
    [
        (HomeAcls(), "", ""),
        (HomeAcls((ONE,)), "", "home_acls_wider"),
        (HomeAcls((ONE,)), "keep", ""),
        (HomeAcls((ONE,)), "remove", ""),
        (HomeAcls((ONE._replace(others=("x",)),)), "remove", "home_acls_shared"),
        (HomeAcls((ONE,), own_unknown=True), "remove", "home_acls_of_drkit"),
        (HomeAcls(own_unknown=True), "remove", ""),
        (HomeAcls(unknown="no DESCRIBE"), "remove", "home_acls_unknown"),
        (HomeAcls(unknown="no DESCRIBE"), "keep", ""),
    ],
)
def test_a_person_says_by_name_what_becomes_of_them(seen: HomeAcls, choice: str, code: str):
    errors = list(refused(seen, RunRequest(planned=True, acls_only_home=choice), ("standby", "primary")))
    assert bool(errors) is bool(code)
    assert all(e.code == code and "--acls-only-home" in (e.hint or "") for e in errors)
