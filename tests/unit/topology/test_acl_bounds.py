"""What a flow gives and deletes is bounded by its filters, whatever its record says."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.topology.acl_plan import AclBounds, TargetAcls, bounded_promotion, plan_acls
from drkit.topology.acls import EVERYBODY, Acl, AclRecord
from tests.support.topology.acl_samples import NOTHING, OWN, TX, US, acl, scope

MALLORY = "User:mallory"
FORGED = [
    acl("*", "ALL", MALLORY),
    acl("drkit-state.primary.internal", "ALL", MALLORY),
    acl("drkit-", "WRITE", MALLORY, prefixed=True),
    acl("d", "WRITE", MALLORY, prefixed=True),
    acl("payroll", "WRITE", MALLORY),
    acl("pay", "ALL", MALLORY, prefixed=True),
    acl("order-secret", "WRITE", MALLORY),
    acl("heartbeats", "WRITE", MALLORY),  # the target's own: the copy's name has the source's alias
    acl("orders", "READ", MALLORY),  # never held back
    acl("orders", "ALL", "User:app", deny=True),
    acl("payroll-group", "ALL", MALLORY, kind="GROUP"),
    acl("drkit.primary.standby.0", "WRITE", MALLORY, kind=TX),
    acl("drkit.", "WRITE", MALLORY, kind=TX, prefixed=True),
]


@pytest.mark.parametrize("forged", FORGED, ids=str)
def test_what_the_flow_cannot_have_held_back_is_not_given(forged: Acl):
    fine = acl("orders", "WRITE")
    record = AclRecord(held=frozenset({forged, fine}))
    for opened in (None, ["orders", "billing"]):
        given_, left_out = bounded_promotion(record, AclBounds(scope(), US), opened)
        assert given_.grant == {fine}
        assert left_out == {forged}


@pytest.mark.parametrize("prefix", [False, True])
def test_with_prefixed_names_it_is_the_prefix_that_bounds(*, prefix: bool):
    held = {acl("primary.", "WRITE", prefixed=True), acl("primary.order", "WRITE", prefixed=True),
            acl("primary.orders", "ALL")}  # fmt: skip
    given_, left_out = bounded_promotion(AclRecord(held=frozenset(held)), AclBounds(scope(prefix=prefix), US))
    assert given_.grant == (held if prefix else set())
    assert left_out == held - given_.grant


def test_only_guards_are_lifted():
    guards = {
        acl("orders", "READ", EVERYBODY),
        acl("orders", "DESCRIBE", EVERYBODY),
        acl("orders", "WRITE", OWN),
    }
    theirs = {acl("orders", "READ", "User:bob"), acl("orders", "WRITE", EVERYBODY, deny=True),
              acl("payroll", "READ", EVERYBODY), acl("order", "READ", EVERYBODY, prefixed=True)}  # fmt: skip
    record = AclRecord(guard=frozenset(guards | theirs))
    given_, left_out = bounded_promotion(record, AclBounds(scope(), US))
    assert given_.lift == guards
    assert left_out == theirs


THEIRS = [
    acl("payroll", "READ", "User:bob"),
    acl("*", "READ", "User:bob"),
    acl("*", "WRITE", "User:eve", deny=True),
    acl("orders", "WRITE", "User:bob"),  # drkit lets no principal write to a passive topic
    acl("orders", "ALL", "User:admin"),
    acl("drkit-state.primary.internal", "WRITE", "User:eve", deny=True),
    acl("payroll-group", "READ", "User:bob", kind="GROUP"),
    acl("payments", "WRITE", "User:bob", kind=TX),
]


@pytest.mark.parametrize("theirs", THEIRS, ids=str)
def test_a_forged_record_deletes_no_acl_that_drkit_cannot_have_made(theirs: Acl):
    record = AclRecord(made=frozenset({theirs}))
    plan = plan_acls([], TargetAcls(frozenset({theirs}), US), scope(), record)
    assert plan.changes == ()
    assert plan.outside == (theirs,)
    assert [(r.what, r.topic) for r in plan.rows()] == [("leave acl", theirs.at)]


def test_what_drkit_made_still_goes():
    made = {acl("orders"), acl("order", prefixed=True), acl("billing", "READ", "User:x", deny=True),
            acl("shop-1", kind="GROUP"), acl("orders", "WRITE", OWN)}  # fmt: skip
    plan = plan_acls([], TargetAcls(frozenset(made), US, is_open=True), scope(), AclRecord(frozenset(made)))
    assert {c.acl for c in plan.changes} == made
    assert plan.outside == ()


SOURCE = st.builds(
    acl,
    st.sampled_from(["orders", "order", "*", "billing", "d", "drkit-x", "heartbeats", "order-secret"]),
    st.sampled_from(["READ", "WRITE", "ALL", "DESCRIBE", "ALTER"]),
    st.sampled_from(["User:app", EVERYBODY, OWN]),
    prefixed=st.booleans(),
    deny=st.booleans(),
).filter(lambda a: not (a.name == "*" and a.pattern.value == "PREFIXED"))


@given(source=st.sets(SOURCE, max_size=6), prefix=st.booleans(), guard=st.booleans(), is_open=st.booleans())
def test_all_that_a_plan_makes_or_holds_is_within_the_bounds(
    source: set[Acl], *, prefix: bool, guard: bool, is_open: bool
):
    """The bounds take nothing away from a record that drkit wrote."""
    where = scope(prefix=prefix)
    record = plan_acls(source, TargetAcls(frozenset(), US, is_open), where, NOTHING, guard=guard).record
    bounds = AclBounds(where, US)
    assert [a for a in record.made if not bounds.may_have_made(a)] == []
    given_, left_out = bounded_promotion(record, bounds)
    assert (given_.grant, given_.lift, left_out) == (record.held, record.guard, frozenset())
    again = plan_acls([], TargetAcls(record.made, US, is_open), where, replace(record), guard=False)
    assert {c.acl for c in again.changes} == record.made


def test_no_prefix_that_reaches_drkits_own_topics_is_made():
    """`ALLOW WRITE` on `d*` of the source would, at a promotion, command both clusters."""
    chosen = replace(scope(), copies=lambda _: True, topics=frozenset({"data", "orders"}))
    for name in ("d", "drkit", "drkit-", "drkit-state"):
        found = list(chosen.renamed(acl(name, "WRITE", prefixed=True)))
        assert [a.name for a in found if a.pattern.value == "PREFIXED"] == []
        assert [a.name for a in found] == (["data"] if name == "d" else [])
