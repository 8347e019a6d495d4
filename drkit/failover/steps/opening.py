"""OPEN: the target's topics become writable. The point of no return.

First the flow's state records that producers own the topics. From then on no sync of settings, ACLs or
positions changes them, and `drkit replicate` skips them. Then the topics get the source's own settings, and
producers get the rights of its ACLs. In a switchover home, ACLs that only home has are removed before, on
request.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from drkit.counted import counted, first_of
from drkit.errors import DrkitError, Failed, raise_refused
from drkit.failover.checks.home_acls import REMOVE, HomeAcls, look_home_acls
from drkit.failover.checks.late_groups import late_topics
from drkit.failover.checks.scope import copied_of
from drkit.failover.core.context import Context
from drkit.failover.core.step import Step, StepEffect, StepResult
from drkit.failover.emptying.standing import came_back, empty_again, prove_empty
from drkit.failover.fencing.lift import guards, lift_guard
from drkit.failover.fencing.source_record import end_opposite, mark_opened, mark_opening
from drkit.failover.loss.positions import refuse_changed, scope_positions
from drkit.flow_state.records import (
    AclsRecord,
    ConfigsRecord,
    GenerationRecord,
    OpenedRecord,
    PromotionRecord,
    Role,
    RoleRecord,
    StateRecord,
)
from drkit.journal.machine import StepName
from drkit.kafka.access.acls import NoAuthorizer, create_acls, delete_acls, list_acls, own_principals
from drkit.kafka.requests import TopicMetadata, metadata
from drkit.kafka.topics import alter_topic_configs, topic_configs
from drkit.pair.promotions import begun_by_turn, promoted_of
from drkit.topology.acl_plan import OUTSIDE, AclBounds, bounded_promotion
from drkit.topology.acls import Acl, Promotion
from drkit.topology.topic_configs import MAX_MESSAGE_BYTES, PASSIVE

_EFFECT: Final = "acls only home"


def planned_removals(context: Context) -> list[StepEffect]:
    """Return what :func:`remove_only_home` would do."""
    action = "delete" if context.request.acls_only_home == REMOVE else "keep"
    reason = f"{context.flow.source} does not have it"
    comparison, home = _compare_acls(context), context.flow.target
    return [
        *(StepEffect(f"{action} acl {o.acl}", home, reason) for o in comparison.only_home),
        *(StepEffect("leave as it is", home, f"not compared: {acls}") for acls in comparison.not_compared),
    ]


def remove_only_home(context: Context) -> list[str]:
    """Remove the ACLs of clients that only home has, or report which stay; returns notes.

    An ACL that cannot be removed does not hold the run: clients can write on neither side.
    """
    comparison = _compare_acls(context)
    only_home, unknown = comparison.only_home, comparison.unknown
    notes = [f"ACLs of both sides were not compared: {unknown}"] if unknown else []
    notes += [f"not compared: {'; '.join(comparison.not_compared)}"] if comparison.not_compared else []
    if not only_home:
        return notes
    home = context.flow.target
    if context.request.acls_only_home != REMOVE:
        return [*notes, f"only {home} has, and keeps: {first_of(only_home)}"]
    acls = [o.acl for o in only_home]
    with context.effect(StepName.OPEN, _EFFECT, acls=[str(a) for a in acls]) as outcome:
        try:
            refused = {str(a): e.evidence for a, e in delete_acls(context.target_settings, acls).items()}
        except DrkitError as error:
            refused = dict.fromkeys(map(str, acls), f"{error.what}: {error.evidence}")
        outcome["refused"] = refused
    removed = [a for a in acls if str(a) not in refused]
    if removed:
        notes.append(
            f"removed, since only {home} had it: {counted(len(removed), 'ACL')}: {first_of(removed)}"
        )
    if refused:
        remaining = first_of(f"{acl} ({reason})" for acl, reason in refused.items())
        notes.append(f"remove by hand what {home} allows still: {remaining}")
    return notes


def _compare_acls(context: Context) -> HomeAcls:
    returning = begun_by_turn(context.state.records) & set(context.scope.topics.values())
    return look_home_acls(context, returning)


_HELD: Final = "held back while passive"
_PROMOTE: Final = "promote"
_LIFT: Final = "guard"
_GUARD: Final = "guard of a passive topic"
_HEARD_SECONDS: Final = 10.0
"""Timeout for brokers to apply changes that the controller acknowledged."""
_PAUSE_SECONDS: Final = 0.1


class OpenStep(Step):
    """OPEN: makes the topics of the target writable."""

    name = StepName.OPEN

    def plan(self, context: Context) -> list[StepEffect]:
        target = context.flow.target
        given, left_out = _promotion(context)
        return [
            *(
                StepEffect(f"empty {tp} again", target, f"brokers have brought back what is from {start} on")
                for tp, start in came_back(context).items()
            ),
            *(
                StepEffect(f"promote {name}", f"{target}: {to}", "no sync of drkit's touches it from then on")
                for name, to in sorted(context.scope.topics.items())
            ),
            *(
                StepEffect(f"set {_shown(settings)}", f"{target}: {topic}", "as on the source")
                for topic, settings in sorted(_configs(context).items())
            ),
            *planned_removals(context),
            *(StepEffect(f"create acl {acl}", target, _HELD) for acl in sorted(given.grant)),
            *(StepEffect(f"delete acl {acl}", target, _GUARD) for acl in sorted(given.lift)),
            *(StepEffect(f"delete acl {acl}", target, _GUARD) for acl in sorted(guards(context))),
            *(StepEffect(f"leave out acl {acl}", target, OUTSIDE) for acl in sorted(left_out)),
        ]

    def announce(self, context: Context, *, begun: bool) -> None:
        """Mark the opening on the source, which refuses an abort from then on."""
        if not begun:
            translated = context.result(StepName.TRANSLATE)
            refuse_changed(context, scope_positions(context, None), translated, translated["loss"])
        mark_opening(context, begun=begun)

    def run(self, context: Context) -> StepResult:
        scope = context.scope
        emptied = empty_again(context, self.name)
        end_opposite(context)
        late = late_topics(context)
        with context.effect(self.name, _PROMOTE, topics=list(scope.topics), late=late) as outcome:
            _promote(context)
            outcome["promoted"] = len(scope.topics)
        settings = _configs(context)
        with context.effect(self.name, "settings", settings=settings) as outcome:
            failed = alter_topic_configs(context.target_admin(), settings)
            outcome["refused"] = {t: e.evidence for t, e in failed.items()}
        raise_refused("open_refused", context.flow.target, failed, what="settings of topics")
        topics, target = counted(len(scope.topics), "topic"), context.flow.target
        notes = [*emptied, f"{topics} of {target} open for producers"]
        notes += [f"topic {topic} remains: {why}" for topic, why in sorted(late.items())]
        notes += remove_only_home(context)
        given, left_out = _promotion(context)
        if given.grant or given.lift:
            notes.append(self._grant(context, given))
        if guard := self._lift_guard(context):
            notes.append(_lifted("the guard of the passive side", guard))
        _wait_until_heard(context)
        if reason := mark_opened(context):
            notes.append(f"{context.flow.source} does not know yet that it is open: {reason}")
        notes += [f"not given or lifted: {first_of(sorted(left_out))}: {OUTSIDE}"] if left_out else []
        acls = {
            "granted": _texts(given.grant), "lifted": [*_texts(given.lift), *guard],
            "left_out": _texts(left_out),
        }  # fmt: skip
        found = {"topics": dict(scope.topics), "settings": settings, "acls": acls, "late": late}
        return StepResult(found | {"on_record": True}, tuple(notes))

    def _lift_guard(self, context: Context) -> list[str]:
        begun = context.effects(self.name).get(_LIFT, {}).get("intent", {}).get("acls", [])
        guard = [*begun, *(a for a in _denies_first(guards(context)) if a not in begun)]
        if guard:
            with context.effect(self.name, _LIFT, acls=guard) as outcome:
                outcome["lifted"] = lift_guard(context)
        return guard

    def _grant(self, context: Context, given: Promotion) -> str:
        settings = context.target_settings
        details = {what: [str(a) for a in sorted(acls)] for what, acls in given._asdict().items()}
        with context.effect(self.name, "acls", **details) as outcome:
            try:
                refused: dict[Acl, DrkitError] = create_acls(settings, sorted(given.grant))
                refused |= delete_acls(settings, sorted(given.lift))
            except NoAuthorizer as error:
                outcome["skipped"] = error.what
                return f"ACLs of producers are not needed: {error.what}"
            outcome["refused"] = {str(a): e.evidence for a, e in refused.items()}
        raise_refused("open_refused", context.flow.target, refused, what="ACLs")
        lifted = f"; {_lifted('a guard', _denies_first(given.lift))}" if given.lift else ""
        return f"{counted(len(given.grant), 'ACL')} given to producers{lifted}"

    def prove(self, context: Context) -> StepResult:
        """Check roles, settings and ACLs on the target."""
        context.state.load()
        prove_empty(context)
        roles, topics = context.state.all(RoleRecord), context.scope.topics
        wrong = [f"{t} is not promoted" for t in topics if t not in roles or not roles[t].is_promoted]
        missing = _missing_acls(context)
        wrong += [f"guarded: {a}" for a in guards(context)]
        wrong += [*_other_settings(context), *(f"missing: {a}" for a in missing or ())]
        if wrong:
            raise Failed("not_open", where=context.flow.target, evidence=first_of(sorted(wrong)))
        acls = 0 if missing is None else len(_promotion(context)[0].grant)
        return StepResult({"topics_open": len(topics), "acls": acls})


def _promote(context: Context) -> None:
    translated, state = context.result(StepName.TRANSLATE), context.state
    topics: dict[str, TopicMetadata] = context.run(
        metadata, context.target, sorted(context.scope.topics.values())
    )
    changes: list[tuple[str, StateRecord]] = [("", OpenedRecord(context.term))]
    for name, target in context.scope.topics.items():
        known = state.get(RoleRecord, name)
        if known is None or not known.is_promoted or known.run_id != context.run_id:
            planned, leaders = context.request.planned, sorted(topics[target].leaders.items())
            role = RoleRecord(
                Role.PROMOTED,
                context.term,
                context.run_id,
                context.wall(),
                frontiers=_of_topic(translated.get("frontiers", {}), name),
                ends=_of_topic(translated.get("ends", {}), target),
                planned=planned or None,
                clients_cut=(context.request.clients_cut or None) if planned else None,
                epochs={p: leader.epoch if leader.node >= 0 else None for p, leader in leaders},
            )
            changes.append((name, role))
            configs = state.get(ConfigsRecord, name)
            if configs is not None and configs.delayed:
                # The copy's own settings count from now on.
                changes.append((name, replace(configs, delayed=None)))
    promotion = state.get(PromotionRecord)
    if _is_whole(context) and (promotion is None or promotion.run_id != context.run_id):
        changes.append(("", PromotionRecord(context.term, context.run_id, context.wall())))
    state.put_all(changes)


def _is_whole(context: Context) -> bool:
    """Return whether nothing of the flow stays on the source; else it continues with what remains."""
    begun = context.effects(StepName.OPEN).get(_PROMOTE, {}).get("intent", {})
    if not context.scope.whole_flow or begun.get("late"):
        return False
    left_out = context.result(StepName.SNAPSHOT).get("outside", {}).get("by_file", ())
    copied = copied_of(context).keys() | (context.state.all(GenerationRecord).keys() & {*left_out})
    return copied <= context.scope.topics.keys() | promoted_of(context.state.records)


def _of_topic(values: Mapping[str, int | None], topic: str) -> dict[int, int | None]:
    parts = ((partition.rpartition("-"), value) for partition, value in values.items())
    return {int(number): value for (name, _, number), value in parts if name == topic}


def _configs(context: Context) -> dict[str, dict[str, str | None]]:
    by_topic: dict[str, dict[str, str | None]] = {}
    for name, target in context.scope.topics.items():
        known = context.state.get(ConfigsRecord, name)
        settings = known.settings if known is not None else {}
        by_topic[target] = {setting: settings.get(setting) for setting in (*PASSIVE, MAX_MESSAGE_BYTES)}
    return by_topic


def _other_settings(context: Context) -> list[str]:
    wanted = _configs(context)
    configs = topic_configs(context.target_admin(), wanted)
    wrong = []
    for topic, settings in wanted.items():
        for name, value in settings.items():
            now = configs.get(topic, {}).get(name)
            is_set = now is not None and now.is_set_on_topic
            if (value is None and is_set) or (value is not None and (now is None or now.value != value)):
                wrong.append(f"{topic}: {name} = {now.value if now else None}, not {value}")
    return wrong


def _missing_acls(context: Context) -> frozenset[Acl] | None:
    grant = _promotion(context)[0].grant
    try:
        return grant - list_acls(context.target_settings).acls if grant else grant
    except NoAuthorizer:
        return None


def _wait_until_heard(context: Context) -> None:
    # The controller acknowledges a change before every broker has applied it; the proof decides.
    deadline = context.clock() + _HEARD_SECONDS
    while (_other_settings(context) or _missing_acls(context)) and context.clock() < deadline:
        context.run(context.loop.sleep, _PAUSE_SECONDS)


def _promotion(context: Context) -> tuple[Promotion, frozenset[Acl]]:
    record = context.state.get(AclsRecord)
    if not context.flow.sync_topic_acls or record is None:
        return Promotion(frozenset(), frozenset()), frozenset()
    copied = context.state.all(GenerationRecord)
    _, writer = context.settings.task_sides(context.flow)
    bounds = AclBounds(
        context.flow.acl_scope({*context.scope.topics, *copied}),
        own_principals(context.target_settings, writer),
    )
    opened = None if _is_whole(context) else set(context.scope.topics.values())
    return bounded_promotion(record.plan, bounds, opened)


def _texts(acls: Iterable[Acl]) -> list[str]:
    return [str(acl) for acl in sorted(acls)]


def _denies_first(acls: Iterable[Acl]) -> list[str]:
    return [str(acl) for acl in sorted(acls, key=lambda acl: (not acl.denies, acl))]


def _lifted(what: str, acls: Collection[str]) -> str:
    """Name the ACLs that were deleted: Kafka keeps no second one that a person has made equal to drkit's."""
    return f"{what} was lifted: {counted(len(acls), 'ACL')}, whoever has made them: {first_of(acls)}"


def _shown(settings: Mapping[str, str | None]) -> str:
    return ", ".join(f"{k} = {'default' if v is None else v}" for k, v in sorted(settings.items()))
