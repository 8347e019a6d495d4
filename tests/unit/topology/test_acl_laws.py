"""The laws of an ACL plan, for any ACLs on both sides."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from drkit.flow_state.records import AclsRecord
from drkit.topology.acl_plan import AclPlan, AclStep, TargetAcls, plan_acls
from drkit.topology.acls import Acl, AclOperation, PatternKind, Permission, ResourceKind, gives, overrides
from tests.support.examples import times
from tests.support.topology.acl_samples import NOTHING, OWN, US, scope

acls = st.builds(
    Acl,
    st.sampled_from([kind for kind in ResourceKind if kind is not ResourceKind.CLUSTER]),  # never listed
    st.sampled_from(PatternKind),
    st.sampled_from(
        ["*", "orders", "order", "billing", "hearts", "heartbeats", "shop-1", "sh", "drkit.x", "other"]
    ),
    st.sampled_from(["User:*", "User:app", "User:bob", OWN]),
    st.sampled_from(["*", "10.0.0.1"]),
    st.sampled_from(AclOperation),
    st.sampled_from(Permission),
)
some = st.frozensets(acls, max_size=12)
owners = st.sampled_from([US, frozenset()])
worlds = st.tuples(some, some, owners, st.sampled_from([True, False, None]), st.booleans(), st.booleans())


def apply(plan: AclPlan, here: frozenset[Acl]) -> frozenset[Acl]:
    for change in plan.changes:
        if change.step is AclStep.CREATE:
            assert change.acl not in here
            here |= {change.acl}
        else:
            assert change.acl in here
            here -= {change.acl}
    return here


@settings(max_examples=times(1.5))
@given(worlds, some)
def test_a_second_plan_is_empty_and_following_the_source_leaves_what_others_made(world, later):
    source, foreign, own, is_open, prefix, guard = world
    here, record = foreign, NOTHING
    nothing: frozenset[Acl] = frozenset()
    for now in (source, later, nothing):
        plan = plan_acls(now, TargetAcls(here, own, is_open), scope(prefix=prefix), record, guard=guard)
        here, record = apply(plan, here), plan.record
        assert record.made <= here
        again = plan_acls(now, TargetAcls(here, own, is_open), scope(prefix=prefix), record, guard=guard)
        assert again.changes == ()
        assert again.record == record
        assert AclsRecord.decode(AclsRecord(record).encode()) == AclsRecord(record)
        assert foreign <= here, "a foreign ACL was deleted"
    assert guard or here == foreign, "what drkit made goes with the source's"


@settings(max_examples=times(1.5))
@given(worlds)
def test_no_deny_is_lost_and_no_other_principal_may_write(world):
    source, foreign, own, is_open, prefix, guard = world
    where = scope(prefix=prefix)
    plan = plan_acls(source, TargetAcls(foreign, own, is_open), where, NOTHING, guard=guard)
    here = apply(plan, foreign)
    denies = {t for a in source if a.denies for t in where.renamed(a)}
    assert denies <= here | plan.record.left_out
    for made in plan.record.made:
        assert (
            made.denies or made.principal in own or made.operation in {"READ", "DESCRIBE", "DESCRIBE_CONFIGS"}
        )
    for allow in plan.record.made | plan.record.held:
        if not allow.denies and allow.principal not in own and allow not in plan.record.guard:
            assert not any(d.denies and overrides(d, allow) for d in plan.record.left_out)


@settings(max_examples=times(1.5))
@given(worlds)
def test_drkit_is_never_refused_by_what_it_made(world):
    source, foreign, _, is_open, prefix, guard = world
    plan = plan_acls(source, TargetAcls(foreign, US, is_open), scope(prefix=prefix), NOTHING, guard=guard)
    here = apply(plan, foreign)
    needed = {"TOPIC": "WRITE", "GROUP": "READ", "TRANSACTIONAL_ID": "WRITE"}
    for made in plan.record.made:
        if made.denies:
            hits = made.principal in {OWN, "User:*"}
            assert (
                not hits
                or made.operation not in {"ALL", "READ", "WRITE", "DESCRIBE"}
                or (
                    made.resource != "TOPIC"
                    and made.operation not in {"ALL", needed[made.resource], "DESCRIBE"}
                )
            )
        elif is_open is not False:
            operation = AclOperation(needed[made.resource])
            assert any(gives(a, OWN, operation, made) for a in here), f"{made} closes the target to drkit"
