"""The reasons to refuse a failover before any change: one table of refusals, each with its runbook. Pure.

A refusal has the reason, the evidence, and the command that clears it (exit 3). Some can be overruled, always
by a named flag and on record. The reasons that `drkit watch` shares come from its table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from drkit.counted import counted, first_of
from drkit.detect.reasons import ROW, Flag, Reason, ReasonRow
from drkit.errors import Refused
from drkit.failover.checks.foreign_writes import refusal
from drkit.failover.checks.home_acls import refused
from drkit.failover.checks.survey import Survey
from drkit.failover.core.context import Scope
from drkit.failover.core.request import RunRequest
from drkit.failover.core.reverse import not_replayed, refused_elsewhere
from drkit.failover.groups.offsets import FROM_THE_START, members_remain, no_position
from drkit.failover.loss.count import begins_later
from drkit.next_command import typed
from drkit.pair.promotions import to_reprotect
from drkit.status.lag.source import held_text

_ACCEPT: Final = 'accept the loss: --accept-data-loss "REASON"'


class PreconditionInput(NamedTuple):
    """The input of the preconditions."""

    survey: Survey
    scope: Scope
    request: RunRequest
    flow: str


Check = Callable[[PreconditionInput], Iterator[Refused]]


def by_the_table(*reasons: Reason) -> Check:
    """Return a check that refuses for each of the reasons that applies, unless its flag is given."""

    def check(q: PreconditionInput) -> Iterator[Refused]:
        for row in map(ROW.__getitem__, reasons):
            if row.applies(q.survey.facts) and not overruled(row, q.request):
                yield _refusal(q, row)

    return check


def overruled(row: ReasonRow, request: RunRequest) -> bool:
    """Return whether a person overrules a reason, on record."""
    if request.planned and row.flag in {Flag.DATA_LOSS, Flag.QUORUM}:
        return True  # a switchover waits until everything is copied, and is refused without the primary
    given = {
        Flag.SIGNS_OF_LIFE: request.despite_signs_of_life,
        Flag.QUORUM: request.without_quorum,
        Flag.DATA_LOSS: request.accept_data_loss,
    }
    return row.flag is not None and bool(given[row.flag])


def _refusal(q: PreconditionInput, row: ReasonRow) -> Refused:
    source, target = q.survey.source.alias, q.survey.target.alias
    evidence = first_of(row.evidence(q.survey.facts))
    match row.reason:
        case Reason.REPLICATION_MOVES | Reason.OBSERVERS_DISAGREE:
            here = "" if row.reason is Reason.OBSERVERS_DISAGREE else f"; here: {q.survey.source_error}"
            # A switchover is refused without the primary, whatever is accepted.
            accept = '; or, if no application reaches it: --despite-signs-of-life "REASON"'
            accept = "" if q.request.planned else accept
            error = Refused("source_alive", where=source, evidence=evidence + here, accept=accept)
        case Reason.NO_QUORUM:
            error = Refused("no_quorum", where=source, evidence=evidence)
        case Reason.TARGET_UNREACHABLE | Reason.TARGET_NOT_READY:
            error = Refused("target_not_ready", where=target, evidence=evidence)
        case Reason.PAUSED:
            hint = f"drkit watch resume --flow '{q.flow}'"
            error = Refused("failovers_paused", where=q.flow, evidence=evidence, hint=hint)
        case Reason.NOT_PROTECTED:
            error = Refused("not_copied_back", where=q.flow, evidence=evidence, source=source)
        case Reason.CLOCKS_DISAGREE:
            error = Refused("heartbeats_from_the_future", where=q.flow, evidence=evidence)
        case Reason.LAG_ABOVE_RPO:
            facts, primary = q.survey.facts, q.survey.source.alias
            is_silent = bool(q.survey.source_error)
            caught_up = f"bring {primary} back" if is_silent else "let the copy catch up: drkit status"
            above = f"up to {facts.risk.above:,.1f} s, rpo_seconds = {facts.rpo_seconds:g}; {_missing(q)}"
            error = Refused("rpo_exceeded", where=q.flow, evidence=above, hint=f"{caught_up}; or {_ACCEPT}")
        case _:
            error = Refused("loss_unknown", where=q.flow, evidence=_missing(q))
    return error


def _missing(q: PreconditionInput) -> str:
    risk = q.survey.risk
    held = held_text(risk.held_back, risk.acknowledged)
    known = f"missing on the target: {risk.records_in_words}"
    if risk.records:
        known = f"{risk.records:,} records known to be missing"
    return f"{known}{', of them ' if held else ''}{held}; {risk.basis}"


def refusals(question: PreconditionInput) -> list[tuple[str, Refused]]:
    """Return every refusal with its gate, in the order of the table."""
    return [(gate, refusal) for gate, check in GATES.items() for refusal in check(question)]


def _wrong_cluster(q: PreconditionInput) -> Iterator[Refused]:
    source, target = q.survey.source, q.survey.target
    if source.id is not None and source.id == target.id:
        same = f"both have the cluster id {target.id}"
        yield Refused(
            "clusters_identical", where=q.flow, evidence=same, source=source.alias, target=target.alias
        )
        return
    for cluster in (source, target):
        if None not in {cluster.id, cluster.expected} and cluster.id != cluster.expected:
            evidence = f"its cluster id is {cluster.id}, the flow ran with {cluster.expected}"
            yield Refused("wrong_cluster", where=q.flow, evidence=evidence, alias=cluster.alias)


def _promoted(q: PreconditionInput) -> Iterator[Refused]:
    topics, (denied, unknown) = first_of(q.survey.promoted), q.survey.refusing
    if denied:
        target = q.survey.target.alias
        yield Refused("promoted_refuses", where=f"{q.flow}: {target}", evidence=first_of(sorted(denied)))
    elif topics:
        code = "all_promoted" if q.scope.whole_flow else "promoted"
        hidden = f"; whether ACLs refuse clients there is unknown: {unknown}" if unknown else ""
        yield Refused(code, where=q.flow, evidence=f"opened by earlier failovers: {topics}{hidden}")
    if q.survey.away and not q.survey.source_error:
        source, target = q.survey.source.alias, q.survey.target.alias
        to_return, away = to_reprotect(target, source), first_of(q.survey.away)
        yield Refused("not_returned", where=q.flow, evidence=away, source=source, to_reprotect=to_return)
    if q.survey.lost_runs and not q.request.accept_data_loss:
        source, runs = q.survey.source.alias, first_of(sorted(q.survey.lost_runs))
        evidence = f"{source} has on record that run {runs} opened it"
        yield Refused("journal_run_lost", where=q.flow, evidence=evidence)
    if elsewhere := {} if q.request.despite_signs_of_life else q.survey.moved_elsewhere:
        yield refused_elsewhere(q.flow, elsewhere)


def _members(q: PreconditionInput) -> Iterator[Refused]:
    for group, found in sorted(q.survey.target_groups.items()):
        if found.members and not q.request.evict_members:
            yield members_remain(group, q.survey.target.alias, found, FROM_THE_START)


def _own_positions(code: str, *, in_return: bool) -> Check:
    """Return a check for positions that groups have committed on the target; a return keeps none."""

    def check(q: PreconditionInput) -> Iterator[Refused]:
        topics, alias = set(q.scope.topics.values()), q.survey.target.alias
        for group, found in sorted(q.survey.target_groups.items()):
            own = found.own_work(q.survey.source.alias, topics)
            may_keep = q.request.keep_positions and not in_return
            if own and _is_in_return(q, group) is in_return and not may_keep:
                offsets = first_of(f"{tp} at {found.stored[tp].offset}" for tp in own)
                where = f"group {group} on {alias}"
                yield Refused(code, where=where, evidence=offsets, group=group, **FROM_THE_START)

    return check


def _is_in_return(q: PreconditionInput, group: str) -> bool:
    topics = {tp.topic for tp in q.survey.target_groups[group].stored}
    topics |= {q.scope.topics.get(tp.topic, "") for tp in q.survey.positions.get(group, {})}
    return not topics.isdisjoint(q.survey.begun_by_turn)


def _planned(q: PreconditionInput) -> Iterator[Refused]:
    if not q.request.planned:
        return
    runner = q.survey.replicator
    if q.survey.source_error:
        yield Refused("source_unreachable", where=q.survey.source.alias, evidence=q.survey.source_error)
    elif runner is None or not runner.alive:
        evidence = f"the lease of {runner.host} is {runner.age_seconds:.0f} s old" if runner else "no lease"
        yield Refused("no_replicator", where=q.flow, evidence=evidence, flow=q.flow)
    if missing := q.survey.without_end:
        evidence = f"it does not return the ends of {counted(len(missing), 'topic')}: {first_of(missing)}"
        yield Refused("source_unreachable", where=q.survey.source.alias, evidence=evidence)


def _never_placed(q: PreconditionInput) -> Iterator[Refused]:
    if q.survey.never_placed and not q.request.accept_data_loss:
        yield no_position(q.flow, q.survey.never_placed, FROM_THE_START)


def _not_copied(q: PreconditionInput) -> Iterator[Refused]:
    outside = q.survey.outside
    reasons = {**outside.groups, **outside.not_copied}
    # Without --planned, topics without a copy are only named: nothing can move them.
    uncopied = outside.not_copied.keys() - set(outside.by_file) if q.request.planned else ()
    for code, names in (("not_copied", uncopied), ("left_by_configuration", outside.by_file)):
        unnamed = sorted(set(names) - set(q.request.leave_behind))
        if unnamed and q.scope.whole_flow:
            yield Refused(
                code,
                where=f"{q.flow}: {first_of(unnamed)}",
                evidence=f"{unnamed[0]}: {reasons[unnamed[0]]}",
                topics=counted(len(unnamed), "topic"),
                leave_behind=typed(*RunRequest(leave_behind=tuple(unnamed)).options()),
            )


def _hanging(q: PreconditionInput) -> Iterator[Refused]:
    if q.request.planned and q.survey.hanging:
        brokers = ", ".join(map(str, sorted(set(q.survey.hanging.values()))))
        yield Refused(
            "hanging_transactions",
            where=f"{q.survey.target.alias}, broker {brokers}",
            evidence=f"{first_of(sorted(q.survey.hanging))}; markers of its last transaction were refused by"
            " the fence of max.message.bytes = 0",
            transactional_ids=counted(len(q.survey.hanging), "transactional id", "hangs"),
        )


def _written(q: PreconditionInput) -> Iterator[Refused]:
    if q.request.planned and q.survey.written:
        yield refusal(q.flow, q.survey.target.alias, q.survey.written)


def _begins_later(q: PreconditionInput) -> Iterator[Refused]:
    reasons = {t: f"{t} is compacted on the standby alone" for t in q.survey.compacted_alone}
    reasons |= {p.topic: p.missing_in_words for p in q.survey.partitions if p.missing}
    lost = {topic: reason for topic, reason in reasons.items() if not q.request.gives_up(topic)}
    if q.request.planned and lost:
        yield begins_later(f"{q.flow}: {q.survey.target.alias}", lost)


def _unreplayed(q: PreconditionInput) -> Iterator[Refused]:
    if q.request.planned and q.survey.unreplayed:
        yield not_replayed(q.flow, q.survey.unreplayed)


def _acls_only_home(q: PreconditionInput) -> Iterator[Refused]:
    yield from refused(q.survey.home_acls, q.request, (q.survey.source.alias, q.survey.target.alias))


def _repoint_others(q: PreconditionInput) -> Iterator[Refused]:
    is_whole = q.scope.whole_flow and not q.survey.outside.by_file
    if is_whole or q.request.repoint_others:
        return
    for way in q.survey.reach:
        if way.others:
            where = f"{way.way} of [failover] repoint"
            yield Refused("repoint_reaches_others", where=where, evidence=way.others)


GATES: Final[Mapping[str, Check]] = {
    "failover-wrong-cluster": _wrong_cluster,
    "failover-signs-of-life": by_the_table(Reason.REPLICATION_MOVES, Reason.OBSERVERS_DISAGREE),
    "failover-no-quorum": by_the_table(Reason.NO_QUORUM),
    "failover-paused": by_the_table(Reason.PAUSED),
    "failover-already-promoted": _promoted,
    "failover-target-not-ready": by_the_table(Reason.TARGET_UNREACHABLE, Reason.TARGET_NOT_READY),
    "failover-live-members": _members,
    "failover-own-positions": _own_positions("group_worked_on_target", in_return=False),
    "failover-positions-in-return": _own_positions("group_on_old_side", in_return=True),
    "failover-data-loss": by_the_table(
        Reason.BEATS_UNKNOWN,
        Reason.CLOCKS_DISAGREE,
        Reason.NOT_PROTECTED,
        Reason.LAG_UNKNOWN,
        Reason.LAG_ABOVE_RPO,
    ),
    "failover-not-replayed": _unreplayed,
    "failover-planned-not-possible": _planned,
    "failover-topics-not-copied": _not_copied,
    "failover-no-exact-position": _never_placed,
    "failover-hanging-transactions": _hanging,
    "failover-written-standby": _written,
    "failover-standby-begins-later": _begins_later,
    "failover-acls-only-home": _acls_only_home,
    "failover-repoint-others": _repoint_others,
}
"""The check of each gate, by the name of its page in ``runbooks/``."""
