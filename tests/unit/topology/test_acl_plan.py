"""The rules of an ACL plan, one by one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
import re

import pytest

from drkit.topology import IdentityNaming, NameFilter
from drkit.topology.acl_plan import AclPlan, AclStep, TargetAcls, plan_acls
from drkit.topology.acl_scope import AclScope
from drkit.topology.acls import Acl, AclRecord, meet, promotion
from tests.support.topology.acl_samples import NOTHING, OWN, TOPICS, TX, US, acl, scope


def planned(*source: Acl, existing: frozenset[Acl] = frozenset(), prefix: bool = False, **more) -> AclPlan:
    own = more.pop("own", US)
    target = TargetAcls(existing, own, more.pop("is_open", False))
    return plan_acls(source, target, scope(prefix=prefix), more.pop("record", NOTHING), **more)


def created(plan: AclPlan) -> set[Acl]:
    return {c.acl for c in plan.changes if c.step is AclStep.CREATE}


@pytest.mark.parametrize(
    ("given", "prefixed", "expected"),
    [
        (acl("orders"), False, [acl("orders")]),
        (acl("orders"), True, [acl("primary.orders")]),
        (acl("ord", prefixed=True), False, [acl("ord", prefixed=True)]),
        (acl("ord", prefixed=True), True, [acl("primary.ord", prefixed=True)]),
        (acl("*"), True, [acl("primary.", prefixed=True)]),
        (acl("*"), False, [acl("billing"), acl("order-lines"), acl("orders"), acl("primary.heartbeats")]),
        # identity renames heartbeats all the same: the prefix does not cover the copy
        (acl("heart", prefixed=True), False, [acl("heart", prefixed=True), acl("primary.heartbeats")]),
        (acl("customers"), False, []),
        (acl("order-secret"), False, []),
        (acl("cust", prefixed=True), True, []),
        (acl("order-new", prefixed=True), True, [acl("primary.order-new", prefixed=True)]),
        (acl("shop-1", kind="GROUP"), True, [acl("shop-1", kind="GROUP")]),
        (acl("sh", kind="GROUP", prefixed=True), True, [acl("sh", kind="GROUP", prefixed=True)]),
        (acl("aud", kind="GROUP", prefixed=True), True, [acl("aud", kind="GROUP", prefixed=True)]),
        (acl("audits", kind="GROUP", prefixed=True), True, []),
        (acl("console", kind="GROUP"), False, []),
        (acl("pay", "DESCRIBE", kind=TX), True, [acl("pay", "DESCRIBE", kind=TX)]),
        (acl("drkit.a.b.1", "DESCRIBE", kind=TX), False, []),
    ],
    ids=str,
)  # fmt: skip
def test_what_travels_and_under_which_name(given, prefixed, expected):
    assert created(planned(given, prefix=prefixed)) == set(expected)


def test_a_naming_class_of_the_users_own_gets_single_topics():
    class Reversed:
        def downstream(self, topic: str) -> str:
            return topic[::-1]

        def upstream(self, topic: str) -> str | None:
            return topic[::-1]

        def comes_from(self, topic: str, alias: str) -> bool:
            return topic == alias

    where = replace(scope(), naming=Reversed())
    plan = plan_acls([acl("order", prefixed=True)], TargetAcls(frozenset(), US), where, NOTHING)
    assert created(plan) == {acl("sredro"), acl("senil-redro")}


@pytest.mark.parametrize("operation", ["WRITE", "CREATE", "DELETE", "ALTER", "ALTER_CONFIGS"])
def test_what_changes_a_passive_topic_is_held_for_the_promotion(operation):
    """P13: no principal may write to a passive copy."""
    plan = planned(acl("orders", operation))
    assert plan.changes == ()
    assert promotion(plan.record).grant == {acl("orders", operation)}
    assert "given at a promotion" in next(plan.rows()).why


def test_all_becomes_read_and_is_held_as_all():
    """P13: ALLOW ALL becomes READ until the promotion."""
    plan = planned(acl("orders", "ALL"))
    assert created(plan) == {acl("orders", "READ"), acl("orders", "DESCRIBE_CONFIGS")}
    assert plan.record.held == {acl("orders", "ALL")}


def test_one_topics_promotion_opens_no_other():
    held = planned(acl("ord", "WRITE", prefixed=True), acl("billing", "WRITE"),
                   acl("tx", "WRITE", kind="TRANSACTIONAL_ID")).record  # fmt: skip
    assert promotion(held, ["orders"]).grant == {
        acl("orders", "WRITE"), acl("tx", "WRITE", kind="TRANSACTIONAL_ID")
    }  # fmt: skip


def test_a_deny_is_kept_with_its_host():
    deny = acl("orders", "READ", "User:bob", deny=True, host="10.0.0.1")
    assert created(planned(deny)) == {deny}


@pytest.mark.parametrize("principal", ["User:*", OWN])
def test_a_deny_that_would_refuse_drkit_is_left_out_with_what_it_limits(principal):
    deny = acl("orders", "WRITE", principal, deny=True)
    plan = planned(deny, acl("orders", "WRITE", principal), acl("orders", "READ"))
    assert created(plan) == {acl("orders", "READ")}
    assert plan.record.left_out == {deny, acl("orders", "WRITE", principal)}
    assert plan.record.held == frozenset()


def test_every_deny_may_concern_a_principal_that_is_not_known():
    deny = acl("orders", "READ", "User:bob", deny=True)
    plan = planned(deny, acl("orders", "READ"), acl("orders", "READ", "User:*"), own=frozenset())
    assert created(plan) == {acl("orders", "READ")}
    assert plan.record.left_out == {deny, acl("orders", "READ", "User:*")}


def test_fences_and_what_an_opposite_flow_made_are_not_copied():
    fence = acl("orders", "WRITE", "User:app", deny=True)
    assert created(planned(fence, acl("orders"), never_copy=frozenset({fence}))) == {acl("orders")}


def test_only_what_drkit_made_is_deleted_again():
    mine, theirs = acl("orders"), acl("orders", "READ", "User:bob")
    first = planned(mine, theirs, existing=frozenset({theirs}))
    assert first.record.made == {mine}
    second = planned(existing=frozenset({mine, theirs}), record=first.record)
    assert [(c.step, c.acl) for c in second.changes] == [(AclStep.REVOKE, mine)]


def test_a_deleted_acl_is_created_again():
    plan = planned(acl("orders"), record=AclRecord(made=frozenset({acl("orders")})))
    assert created(plan) == {acl("orders")}


def test_a_deny_ends_after_the_allows():
    allow, deny = acl("orders", "READ", "User:z"), acl("orders", "READ", "User:bob", deny=True)
    first = planned(allow, deny)
    assert [c.acl for c in first.changes] == [deny, allow]
    last = planned(existing=frozenset({allow, deny}), record=first.record)
    assert [c.acl for c in last.changes] == [allow, deny]


def test_a_promoted_topic_keeps_what_it_has():
    record = AclRecord(made=frozenset({acl("orders")}), held=frozenset({acl("orders", "WRITE")}))
    plan = planned(acl("orders", "READ", "User:new"), existing=frozenset({acl("orders")}), record=record,
                   promoted=["orders"])  # fmt: skip
    assert plan.changes == ()
    assert plan.record == record


@pytest.mark.parametrize("opened", [None, ["orders"], ["orders", "order-lines"]])
def test_what_a_promotion_has_given_is_held_back_no_longer(opened: list[str] | None):
    """Promoted whole, the prefix itself is given; by topic, one ACL for each topic."""
    prefixed = acl("ord", "WRITE", prefixed=True)
    source = (acl("orders", "WRITE"), prefixed, acl("tx", "WRITE", kind="TRANSACTIONAL_ID"))
    before = planned(*source)
    assert [r.what for r in before.rows()] == ["hold acl"] * 3
    given = promotion(before.record, opened).grant
    after = planned(*source, existing=given, record=before.record, promoted=opened or list(TOPICS))
    assert after.record == before.record
    assert after.held == ({prefixed} if opened == ["orders"] else set()), "order-lines is still passive"
    assert len(list(after.rows())) == len(after.held)


def test_on_an_open_cluster_drkit_lets_itself_in():
    plan = planned(acl("orders"), is_open=True)
    own = {acl("orders", o, OWN) for o in ("READ", "WRITE", "CREATE", "ALTER", "ALTER_CONFIGS")}
    assert created(plan) == {acl("orders"), *own}
    # Where it may already do all that, nothing is added.
    everything = frozenset({acl("*", "ALL", OWN)})
    assert created(planned(acl("orders"), is_open=True, existing=everything)) == {acl("orders")}


def test_the_guard_lets_all_read_and_only_drkit_write():
    plan = planned(acl("billing", "WRITE"), is_open=True, guard=True)
    on_orders = {(a.principal, str(a.operation)) for a in created(plan) if a.name == "orders"}
    assert on_orders >= {("User:*", "READ"), ("User:*", "DESCRIBE"), (OWN, "WRITE")}
    assert not any(a.denies for a in created(plan))
    # billing has an ACL on the source, which closes it there: the guard must not open it for reading.
    assert {a.principal for a in created(plan) if a.name == "billing"} == {OWN}
    assert {a.name for a in promotion(plan.record, ["orders"]).lift} == {"orders"}
    assert created(planned(is_open=False, guard=True)) == set()


def test_the_guard_names_who_can_write_all_the_same():
    leak = acl("ord", "ALL", "User:bob", prefixed=True)
    assert planned(existing=frozenset({leak}), guard=True).leaks == (leak,)


def test_patterns_meet_where_a_name_can_match_both():
    assert meet(acl("ord", prefixed=True), acl("orders"))
    assert meet(acl("orders", prefixed=True), acl("o", prefixed=True))
    assert meet(acl("*"), acl("x", prefixed=True))
    assert not meet(acl("orders"), acl("order"))
    assert not meet(acl("orders"), acl("orders", kind="GROUP"))


def test_the_example_of_the_page_is_what_a_plan_shows():
    text = (Path(__file__).parents[3] / "docs/how-to/acls.md").read_text(encoding="utf-8")
    lines = text.partition("config show --plan\n    topic ")[2].partition("\n\n")[0].splitlines()[1:]
    everything = AclScope(
        IdentityNaming("primary"), lambda _: True, frozenset({"orders"}), NameFilter((".*",))
    )
    source = [
        acl("orders", "READ", "User:shop"),
        acl("orders", "WRITE", "User:shop"),
        acl("ord", "ALL", "User:etl", prefixed=True),
        acl("orders", "READ", "User:intern", deny=True),
        acl("payments", "WRITE", "User:*", deny=True),
    ]
    plan = plan_acls(source, TargetAcls(frozenset(), US), everything, NOTHING)
    shown = [(r.topic, r.what, r.setting, r.after, r.why) for r in plan.rows()]
    assert [tuple(re.split(" {2,}", line.strip())) for line in lines] == shown
