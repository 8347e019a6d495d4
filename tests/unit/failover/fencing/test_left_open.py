"""Which promoted topics were fenced by their failover and have no fence on record. Pure."""

from __future__ import annotations

import pytest

from drkit.failover.old_primary.fence import off_record
from drkit.failover.pending_fences import DueFences
from drkit.flow_state.records import ReturnRecord, Role, RoleRecord
from drkit.pair.promotions import still_away

COPIES = {"a": "p.a", "b": "p.b"}


def role(run: str = "f1", what: Role = Role.PROMOTED) -> RoleRecord:
    return RoleRecord(what, 1, run, 1000)


@pytest.mark.parametrize("how", ["acl", "max.message.bytes", "stopped", "debt"])
def test_a_topic_that_its_failover_has_fenced_is_meant(how: str) -> None:
    roles = {"a": role()}
    assert off_record(roles, COPIES, {"f1": how}) == roles


@pytest.mark.parametrize(
    ("roles", "fenced_by"),
    [
        ({"a": role()}, {"f1": "elsewhere"}),
        ({"a": role()}, {"f2": "acl"}),
        ({"a": role()}, {}),
        ({"a": role(what=Role.FROZEN)}, {"f1": "acl"}),
        ({"never copied": role()}, {"f1": "acl"}),
    ],
    ids=["others fence it", "of another run", "the journal is lost", "not promoted", "unknown copy"],
)
def test_another_topic_is_left_alone(roles: dict[str, RoleRecord], fenced_by: dict[str, str]) -> None:
    assert not off_record(roles, COPIES, fenced_by)


def test_what_is_copied_back_since_is_never_fenced() -> None:
    """The flow in the other direction writes there: a fence by size would stop it."""
    roles = {"a": role(), "b": role("f3")}
    assert still_away(roles, COPIES, {"p.a": ReturnRecord("f1", "r2", 1)}) == {"b": roles["b"]}
    earlier = {"p.b": ReturnRecord("f1", "r2", 1)}
    assert still_away(roles, COPIES, earlier) == roles, "a return of an earlier promotion does not count"


def test_only_what_a_person_has_agreed_to_is_closed_again() -> None:
    now = DueFences(off_record=frozenset("ab"))
    assert now.to_fence == ["a", "b"]
    assert now.within(DueFences(taken_away=frozenset("a"), off_record=frozenset("b"))).to_fence == ["b"]
    assert now.besides(DueFences(off_record=frozenset("b"))) == [
        "the fence of a is no longer recorded since this command has looked: nothing was done about it"
    ]
