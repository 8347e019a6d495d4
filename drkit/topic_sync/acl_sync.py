"""Keeps the ACLs of a flow's target in step with its source: reads both, plans, records, applies.

Copying never waits for ACLs: a failure here is reported once and tried again at the next interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Final

from drkit import observe
from drkit.clock import Seconds, monotonic
from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.errors import DrkitError, Refused
from drkit.flow_state.events import TopicEvents
from drkit.flow_state.records import AclsRecord, FenceAclsRecord, GenerationRecord, RoleRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka.access.acls import NoAuthorizer, create_acls, delete_acls, is_open, list_acls, own_principals
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import topic_names
from drkit.pair.reverse_flow import OppositeFlows
from drkit.topic_sync.sync import GRACE_MS
from drkit.topology.acl_plan import (
    LOCKS_OUT,
    OUTSIDE,
    WAITS,
    AclChange,
    AclPlan,
    AclStep,
    TargetAcls,
    plan_acls,
)
from drkit.topology.acls import EVERYBODY, Acl, AclRecord
from drkit.topology.topic_plan import ChangeRow

_LARGEST_RECORD: Final = 900_000
_SHOWN: Final = 20
_FINDINGS: Final = frozenset({"acl_left_out", "acl_leak", "acl_refused"})
_OWN_HINT: Final = 'set own_principal = "User:…" in [clusters.{alias}]'
_OUTSIDE_HINT: Final = "delete it if it is yours to delete; find out who else writes to {topic}"
_OPEN_HINT: Final = "set allow_everyone_if_no_acl_found in [clusters.{alias}] as its brokers have it"


@dataclass
class AclSync:
    """The ACLs of one flow.

    :param effects: False only reports what would be done
    :param opposite: the flows from this flow's target to its source: the ACLs that they made, and those of
        topics that they promoted and that did not return, stay
    :param writer: how copy tasks reach the target, if that differs
    """

    source: Cluster
    target: Cluster
    flow: FlowSettings
    state: StateTopic
    _: KW_ONLY
    opposite: OppositeFlows
    effects: bool = True
    writer: ClusterSettings | None = None
    clock: Seconds = monotonic

    def __post_init__(self) -> None:
        self._writer = self.writer or self.target.settings
        self._events = TopicEvents(self.flow, self.state, effects=self.effects)
        self._looked_at: float | None = None
        self._is_open: bool | None = None

    def look_when_due(self, topics: Iterable[str]) -> None:
        """Compare and change what is to be changed, if the interval is over; raises nothing.

        :param topics: the source's topics of this flow
        """
        now = self.clock()
        interval = self.flow.sync_topic_acls_interval_seconds
        if not self.flow.sync_topic_acls or (
            self._looked_at is not None and now - self._looked_at < interval
        ):
            return
        self._looked_at = now
        try:
            self.look(topics)
        except NoAuthorizer as error:
            self._report_off(error)
        except DrkitError as error:
            self._events.once("acl_sync_refused", "", f"{error.what} {error.evidence}", level="warning",
                              reason=error.what, where=error.where, evidence=error.evidence,
                              hint=error.hint)  # fmt: skip

    def look(self, topics: Iterable[str]) -> AclPlan:
        """Compare and change what is to be changed.

        :raises NoAuthorizer: one of the clusters has no ACLs
        :raises DrkitError: a cluster does not answer, or refuses to list
        """
        plan = self.plan(topics)
        self._report(plan)
        self._apply(plan)
        self._events.forget(_FINDINGS, GRACE_MS)
        return plan

    def plan(self, topics: Iterable[str]) -> AclPlan:
        """What would be changed. Raises as :meth:`look` does."""
        source = list_acls(self.source.settings)
        target = list_acls(self.target.settings)
        for unknown in source.unknown:
            self._events.once("acl_left_out", unknown, unknown, level="warning",
                              reason="a kind of ACL that this drkit does not know")  # fmt: skip
        principals, self._is_open = own_principals(self.target.settings, self._writer), is_open(self.target)
        if not principals and self._is_open is not False:
            evidence = "allow.everyone.if.no.acl.found: " + ("not known" if self._is_open is None else "true")
            hint = f"{_OWN_HINT} or {_OPEN_HINT}".format(alias=self.target.alias)
            raise Refused("acl_on_open_cluster", where=self.target.alias, evidence=evidence, hint=hint)
        recorded = self.state.get(AclsRecord)
        return plan_acls(
            source.acls,
            TargetAcls(target.acls, principals, self._is_open),
            self.flow.acl_scope({*topics, *self.state.all(GenerationRecord)}),
            recorded.plan if recorded is not None else AclRecord(),
            never_copy=self._never_copy(),
            promoted=self._settled(),
            guard=self.flow.guard_passive_topics,
        )

    def _never_copy(self) -> frozenset[Acl]:
        known = self.state.get(FenceAclsRecord)
        fences = known.acls if known is not None else frozenset()
        # An opposite flow's ACL goes with its original on the target: copied back, it would never go.
        return fences.union(*(record.plan.made for record in self.opposite.records(AclsRecord)))

    def _settled(self) -> list[str]:
        naming, roles = self.flow.naming_policy, self.state.all(RoleRecord)
        promoted = [topic for topic, role in roles.items() if role.is_promoted]
        return [naming.downstream(topic) for topic in (*promoted, *self.opposite.promoted())]

    def _apply(self, plan: AclPlan) -> None:
        deletes = [c.acl for c in plan.changes if c.step is not AclStep.CREATE]
        # Recorded before it is created: an ACL that drkit created must never be taken for a foreign one.
        self._record(replace(plan.record, made=plan.record.made.union(deletes)))
        refused: dict[Acl, DrkitError] = {}
        for step in AclStep:
            acls = [c.acl for c in plan.changes if c.step is step]
            if acls:
                change = create_acls if step is AclStep.CREATE else delete_acls
                refused |= change(self.target.settings, acls)
        for acl, error in refused.items():
            self._events.once("acl_refused", acl.at, f"{acl} {error.evidence}", level="error",
                              acl=str(acl), evidence=error.evidence, hint=error.hint)  # fmt: skip
        applied = [c for c in plan.changes if c.acl not in refused]
        created = (plan.record.made - refused.keys()) | (refused.keys() & set(deletes))
        self._record(replace(plan.record, made=frozenset(created)))
        self._report_changes(applied)

    def _record(self, plan: AclRecord) -> None:
        known, record = self.state.get(AclsRecord) or AclsRecord(AclRecord()), AclsRecord(plan)
        if known == record:
            return
        size = len(record.encode())
        if size > _LARGEST_RECORD:
            evidence = f"{size} bytes, the limit is {_LARGEST_RECORD}"
            raise Refused("too_many_acls", where=self.state.name, evidence=evidence)
        self.state.put(record)

    def _report(self, plan: AclPlan) -> None:
        for acl in sorted(plan.record.left_out):
            self._events.once("acl_left_out", acl.at, str(acl), level="warning", acl=str(acl),
                              reason=LOCKS_OUT if acl.denies else WAITS,
                              hint=_hint(acl).format(alias=self.target.alias))  # fmt: skip
        for acl in plan.outside:
            self._events.once("acl_left_out", acl.at, f"outside {acl}", level="warning", acl=str(acl),
                              reason=OUTSIDE, hint=_OUTSIDE_HINT.format(topic=self.state.name))  # fmt: skip
        if not self.flow.guard_passive_topics:
            return
        for acl in plan.leaks:
            self._events.once("acl_leak", acl.at, str(acl), level="warning", acl=str(acl),
                              hint="not drkit's: delete it if no client may write there")  # fmt: skip
        if self._is_open is None:
            self._events.once("guard_off", "", "unknown", level="warning",
                              reason="whether the target is open without ACLs is unknown",
                              hint=_OPEN_HINT.format(alias=self.target.alias))  # fmt: skip

    def _report_changes(self, done: Sequence[AclChange]) -> None:
        if not done:
            return
        created = [str(c.acl) for c in done if c.step is AclStep.CREATE]
        deleted = [str(c.acl) for c in done if c.step is not AclStep.CREATE]
        observe.event("acls_changed", flow=self.flow.name, created=len(created), deleted=len(deleted),
                      first_created=created[:_SHOWN], first_deleted=deleted[:_SHOWN])  # fmt: skip

    def _report_off(self, error: NoAuthorizer) -> None:
        self._events.once("acl_sync_off", "", error.where, reason=error.what, evidence=error.evidence,
                          hint="nothing to do; sync_topic_acls = false turns this event off")  # fmt: skip


def _hint(acl: Acl) -> str:
    if acl.denies and acl.principal == EVERYBODY:
        return "on the source, deny it to principals by name"
    return f"{_OWN_HINT}, if that is not who it is about"


def acl_plan(settings: Settings, flows: Sequence[FlowSettings]) -> list[dict[str, Any]]:
    """One row for each change of the targets' ACLs, in order; then those held back or left out.

    :raises DrkitError: a cluster does not answer
    """
    rows = []
    for flow in (f for f in flows if f.sync_topic_acls):
        source, target = (Cluster.connect(c) for c in settings.sides(flow))
        rows += acl_plan_rows(flow, source, target, settings.task_sides(flow)[1])
    return rows


def acl_plan_rows(
    flow: FlowSettings, source: Cluster, target: Cluster, writer: ClusterSettings | None = None
) -> list[dict[str, Any]]:
    """The rows of one flow; a reason why there is no plan is a row too.

    :param writer: how copy tasks reach the target, if that differs
    """
    with StateTopic(target.settings, flow.source) as state:
        state.load_existing(target)
        try:
            with OppositeFlows(source, target, flow, state, 0.0) as opposite:
                sync = AclSync(source, target, flow, state, effects=False, opposite=opposite, writer=writer)
                rows = list(sync.plan(topic_names(source)).rows())
        except NoAuthorizer as error:
            observe.event("acl_sync_off", flow=flow.name, reason=error.what)
            rows = []
        except DrkitError as error:
            rows = [ChangeRow("", "no acl sync", "", None, None, f"{error.what} ({error.evidence})")]
    return [row.of(flow.name) for row in rows]
