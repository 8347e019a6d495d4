"""The faults of a flow, from the findings of one look. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from drkit.counted import counted, first_of
from drkit.flow_state.pending_fence import paid_with
from drkit.flow_state.source_fence.entries import FenceLog, FenceMark
from drkit.next_command import REASON, typed
from drkit.status.groups import group_faults
from drkit.status.lag.held_back import HANGING, fault_text, hanging
from drkit.status.model import Fault, Findings, FlowStatus, PartitionStatus
from drkit.status.pair.facts import DirectionFacts
from drkit.status.pair.journal import RunUnderWay
from drkit.status.pair.model import EXPOSED, PairAlarm, PairState, PairStatus, numbered
from drkit.status.pair.text import delta_text, part_text

BEATS_SECONDS: Final = 10.0
BEATS_INTERVALS: Final = 5
"""A heartbeat older than both of these is a fault."""
RUN_HELD: Final = "run_held"
OTHER_KEY: Final = "control_key_mismatch"
NOT_AUTHORIZED: Final = "not_authorized"
ABORTED_AT_SOURCE: Final = "aborted_at_source"
OPEN_SECONDS: Final = 60.0
"""A transaction that is open for longer is a fault, unless the flow sets another limit."""
WRITTEN: Final = "returning_side_written"
"""The code of both the fault and the event."""


def _silent_clusters(findings: Findings) -> Iterator[Fault]:
    if findings.unread is not None:
        yield findings.unread
    elif findings.target_error:
        yield Fault("target_unreachable", f"the target does not answer: {findings.target_error}")
    if findings.source_error:
        yield Fault("source_unreachable", f"the source does not answer: {findings.source_error}")


def faults_of(
    findings: Findings,
    at_risk: Iterable[PartitionStatus],
    *,
    rpo_seconds: float,
    interval_seconds: float,
    open_seconds: float = OPEN_SECONDS,
) -> list[Fault]:
    """Return the faults of a flow, the worst first.

    :param at_risk: the partitions that a failover may lose records of
    :param rpo_seconds: the loss that is acceptable
    :param interval_seconds: between two heartbeats
    :param open_seconds: how long a transaction may be open
    """
    faults = list(_silent_clusters(findings))
    if findings.target_error:
        return faults
    faults += _fence_faults(findings)
    if findings.runner is None:
        faults.append(Fault("not_running", "no run holds the flow's lease: nothing is copied"))
    elif not findings.runner.alive:
        text = f"the lease of {findings.runner.host} was renewed {findings.runner.renewed_seconds:.0f} s ago"
        faults.append(Fault("not_running", f"{text}: nothing is copied"))
    faults += _beat_faults(findings, interval_seconds)
    ages = [age for p in at_risk for age in (p.seconds, p.held_back_seconds)]
    if (oldest := max((age for age in ages if age is not None), default=0.0)) > rpo_seconds:
        least = "at least " if None in ages else ""
        text = f"the oldest record not copied is {least}{oldest:.1f} s old, rpo_seconds = {rpo_seconds:g}"
        faults.append(Fault("rpo_exceeded", text))
    if late := hanging(findings.open_transactions, open_seconds):
        faults.append(Fault(HANGING, fault_text(late, open_seconds)))
    unknown = [p for p in findings.partitions if p.is_unknown and p.topic not in findings.promoted]
    if unknown and not findings.source_error:
        first, some = unknown[0], counted(len(unknown), "partition")
        text = f"the lag of {some} is unknown, such as {first.topic}-{first.partition}"
        faults.append(Fault("lag_unknown", f"{text}: {first.reason or 'no answer'}"))
    if findings.left_out:
        text = f"topics of the source are not copied: {first_of(findings.left_out, 3)}"
        faults.append(Fault("topics_left_out", text))
    if findings.delayed:
        text = f"{counted(len(findings.delayed), 'change')} of topic settings on the source would remove"
        hint = "set it back on the source, or to follow it now set it on the target"
        text = f"{text} records of the copies, and wait: {first_of(findings.delayed, 3)}; {hint}"
        faults.append(Fault("settings_delayed", text))
    faults += _removed_faults(findings)
    if findings.written:
        text = f"the copy to {counted(len(findings.written), 'partition')} has stopped: after the return"
        faults.append(Fault(WRITTEN, f"{text} another producer wrote there: {first_of(findings.written, 3)}"))
    return faults + [Fault(*f) for f in (group_faults(findings.groups) if findings.groups else ())]


def _removed_faults(findings: Findings) -> Iterator[Fault]:
    shortened = [p for p in findings.partitions if p.missing and p.topic not in findings.promoted]
    if shortened:
        number = counted(sum(p.missing for p in shortened), "record")
        text = f"up to {number} that the source keeps, removed from {counted(len(shortened), 'partition')}"
        first = first_of((p.missing_in_words for p in shortened), 3)
        yield Fault("standby_begins_later", f"the target has lost the beginning of copies: {text}: {first}")
    if findings.compacted_alone:
        text = f"copies are compacted, their source topics are not: {first_of(findings.compacted_alone, 3)}"
        yield Fault("standby_compacted", text)


def _fence_faults(findings: Findings) -> Iterator[Fault]:
    when = "once it answers" if findings.source_error else "it answers, so now"
    action = f"{when}: {paid_with(findings.flow)}"
    if (pending := findings.pending_fence) is not None:
        yield Fault("fence_owed", f"the source was never fenced, pending {pending.owed_by}; {action}")
    if findings.lift is not None:
        yield Fault("fence_lift_pending", f"the source refuses producers: {findings.lift.in_words}; {action}")


def _beat_faults(findings: Findings, interval_seconds: float) -> list[Fault]:
    if not findings.beats_expected:
        return []
    if findings.heartbeat_ahead_seconds:
        text = (
            f"the last heartbeat is {findings.heartbeat_ahead_seconds:,.0f} s ahead of this machine's clock,"
            " and does not count: set the clocks right, or find who wrote it"
        )
        return [Fault("heartbeat_ahead", text)]
    if findings.heartbeat is None:
        return [Fault("heartbeat_missing", "no heartbeat of this flow ever reached the target")]
    limit = max(BEATS_SECONDS, BEATS_INTERVALS * interval_seconds)
    if findings.heartbeat.age_seconds <= limit:
        return []
    text = f"the newest heartbeat is {findings.heartbeat.age_seconds:.1f} s old, more than {limit:g} s"
    return [Fault("heartbeat_stale", text)]


_OF_A_STOPPED_FLOW: Final = {"not_running", "heartbeat_missing", "heartbeat_stale", "checkpoints_stale"}
"""No faults for a promoted flow whose topics the opposite flow protects: it must not copy."""
_ALARM_TEXTS: Final = {
    PairAlarm.BOTH_OPEN: "clients may write on both sides",
    PairAlarm.BOTH_CLOSED: "clients can write on neither side",
    PairAlarm.INCOMPLETE: "the old primary is incomplete",
    PairAlarm.UNREPLAYED: "a decided replay was not carried out",
}


def without_passive(findings: Findings, pair: PairStatus, target: str) -> Findings:
    """Return the findings without the topics that the flow must not copy, which have no lag.

    They are the promoted topics, and those that the opposite flow has created on the source and replicates,
    such as the quarantine topic of a return. Without such topics the findings are returned unchanged.

    :param pair: with the names on the flow's source as `topic`
    """
    copied_back = {t.topic for t in pair.topics if t.active == target and t.state is PairState.PROTECTED}
    passive = copied_back.union(findings.promoted)
    if not passive:
        return findings
    return replace(
        findings,
        partitions=[p for p in findings.partitions if p.topic not in passive],
        left_out=tuple(t for t in findings.left_out if t not in passive),
    )


def with_pair(status: FlowStatus, pair: PairStatus) -> FlowStatus:
    """Return the status with that of its pair, and the faults of both, alarms first."""
    faults = status.faults
    is_protected = all(t.state is PairState.PROTECTED and t.active == status.target for t in pair.topics)
    if status.role == "promoted" and pair.topics and is_protected:
        faults = tuple(f for f in faults if f.code not in _OF_A_STOPPED_FLOW)
    more = (*_unread(status, pair), *_unprotected(pair))
    return replace(status, pair=pair, faults=(*_alarms(pair), *_held_runs(pair), *faults, *more))


def _unread(status: FlowStatus, pair: PairStatus) -> Iterator[Fault]:
    if pair.unread and status.target_answers:
        yield Fault("pair_unknown", f"not all of the pair is known: {' | '.join(pair.unread)}")


def _held_runs(pair: PairStatus) -> Iterator[Fault]:
    topics = [t for t in pair.topics if t.is_held]
    if topics:
        yield Fault(RUN_HELD, f"{counted(len(topics), 'topic', 'waits')} for a person: {topics[0].why}")


def with_source_record(status: FlowStatus, log: FenceLog | None, seen: DirectionFacts) -> FlowStatus:
    """Return the status with faults that only the source's record of its fences shows.

    :param log: None: not read
    :param seen: the flow's direction, by its state and journal
    """
    if log is None:
        return status
    found = (*_unknown_fences(status, log, seen), *_source_faults(status, log, seen.run))
    return replace(status, faults=(*(Fault(*f) for f in found), *status.faults))


def _unknown_fences(status: FlowStatus, log: FenceLog, seen: DirectionFacts) -> Iterator[tuple[str, str]]:
    """Yield fences without a record on the target: it is older or empty, or a hand-over failed."""
    if (seen.unread and not seen.recorded) or seen.runs_unknown or not status.target_answers:
        return
    run, owned, undone = seen.run, set(seen.fenced_by), ""
    if run is not None:  # its topics have copies by the flow's state, unless that was deleted
        undone = run.run_id if run.topics.isdisjoint(seen.copies) and not run.has_opened else ""
        owned = (owned | {run.run_id}) - {undone}
    lost = {role.run_id for role in seen.recorded.values()}
    end = ("drkit", "fence", "lift", "--flow", status.flow, "--accept-divergence", REASON)
    for kept in log.unowned(seen.fences, owned, lost):
        fence = f"run {kept.run_id} has fenced {first_of(sorted(kept.topics))}; {status.target} has no record"
        then = f"if no other cluster is open for them: {typed(*end)}"
        if kept.run_id == undone:
            abort = typed("drkit", "failover", "--abort", "--flow", status.flow)
            then = f"the run is not over; start drkit replicate, which makes its state again, then: {abort}"
        elif kept.run_id in lost:
            fence = f"{fence}, and has lost what it took since that run opened it"
        yield PairAlarm.BOTH_CLOSED.value, f"{fence}; {then}"


def _source_faults(status: FlowStatus, log: FenceLog, run: RunUnderWay | None) -> Iterator[tuple[str, str]]:
    abort = typed("drkit", "failover", "--abort", "--flow", status.flow)
    # An abort is refused once OPEN has begun: to continue, the operator must give a reason.
    resume = f'drkit failover --resume --accept-data-loss "REASON" {typed("--flow", status.flow)}'
    for entry in log.open:
        some = counted(len(entry.topics), "topic")
        if status.target_answers:
            if run is not None and entry.run_id == run.run_id and entry.is_aborted:
                text = f"run {entry.run_id} was aborted at the source, and"
                if run.has_opened:
                    text = f"{text} cannot be aborted here, where OPEN has begun; to continue it: {resume}"
                else:
                    text = f"{text} waits to be ended here: {abort}"
                yield ABORTED_AT_SOURCE, text
        elif entry.is_aborted and entry.lifted:
            text = f"run {entry.run_id} was aborted at the source; when the target is back: {abort}"
            if entry.may_be_open:
                text = f"{text}; where OPEN had begun: {resume}"
            yield ABORTED_AT_SOURCE, text
        else:
            closed, fenced = _ALARM_TEXTS[PairAlarm.BOTH_CLOSED], f"run {entry.run_id} has fenced {some} of"
            text = f"{closed}: {fenced} the source; without the target: {abort}"
            if entry.mark is FenceMark.OPENING:
                lost = f'was about to open the target: if it is lost: {abort} --target-lost "HOW YOU KNOW"'
                text = f"{closed}, or on the target: {fenced} the source, and {lost}"
            yield PairAlarm.BOTH_CLOSED.value, text


def _alarms(pair: PairStatus) -> Iterator[Fault]:
    for alarm in pair.alarms:
        topics = pair.with_alarm(alarm)
        yield Fault(alarm.value, f"{_ALARM_TEXTS[alarm]}: {numbered(topics)}: {topics[0].why_of(alarm)}")


def _unprotected(pair: PairStatus) -> Iterator[Fault]:
    """Yield faults for promoted topics that nothing copies; the flow's own faults cover other topics."""
    for state in PairState:
        parts = [p for p in pair.parts if p.state is state and p.since_ms is not None]
        if parts and state in EXPOSED:
            yield Fault(state.value, " | ".join(map(part_text, parts)))
    due = [t for t in pair.topics if t.delta is not None and t.delta.is_due]
    if due:
        worst = max(due, key=lambda t: t.delta.used if t.delta is not None else 0.0)
        assert worst.delta is not None  # noqa: S101  it is due
        text = (
            f"{worst.topic}: {worst.delta.by} is {worst.delta.used:.0%} used"
            if worst.delta.until_ms is None
            else delta_text(worst, worst.delta)
        )
        yield Fault("delta_ends", f"records since the promotion may be removed, {numbered(due)}: {text}")
