"""REPOINT, VERIFY and DONE: send clients to the new primary, check it, and name the next steps.

DONE never advises to copy back by hand: the reverse flow leaves out what was promoted until a failback has
begun.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
import uuid

from drkit.counted import counted, first_of
from drkit.detect.canary import TOPIC, ensure_canary, placed, probe_write
from drkit.detect.seen import ProbeOutcome
from drkit.endpoint import Endpoint
from drkit.errors import Failed, Refused
from drkit.failover.checks.late_groups import changed_since, too_late
from drkit.failover.core.context import Context, StepProgress
from drkit.failover.core.reverse import opposite_flow, share_promotions
from drkit.failover.core.step import Step, StepEffect, StepResult
from drkit.failover.fencing.methods import SIZE
from drkit.failover.fencing.proof import WRITABLE, code_name, write_codes
from drkit.failover.groups.offsets import TargetGroup, on_target, partition_of
from drkit.failover.loss.divergence import LOSS, loss_since
from drkit.journal.machine import StepName
from drkit.kafka.codes import TOPIC_AUTHORIZATION_FAILED
from drkit.kafka.raw import RawCluster, RawError
from drkit.kafka.requests import describe_cluster, metadata
from drkit.pair.promotions import to_reprotect
from drkit.repoint import RepointOutcome, Result, adapters, endpoint_of, tell_all


class RepointStep(Step):
    """REPOINT: sends clients to the new primary."""

    name = StepName.REPOINT

    def plan(self, context: Context) -> list[StepEffect]:
        endpoint, ways = _endpoint(context), _ways(context)
        text = f"publish {endpoint.cluster} ({endpoint.bootstrap_servers}), term {endpoint.term}"
        renamed = ", ".join(f"{a} is called {b} there" for a, b in _renamed(context).items())
        return [StepEffect(text, way.adapter.name, renamed) for way in ways] or [
            StepEffect("no client endpoint configured", _no_way(context), "move clients by other means")
        ]

    def run(self, context: Context) -> StepResult:
        endpoint, ways = _endpoint(context), _ways(context)
        if not ways:
            note = f"no client was repointed: {_no_way(context)}; move the clients by other means"
            return StepResult({"endpoint": endpoint.as_dict(), "ways": []}, (note, *_names(context)))

        def on_outcome(outcome: RepointOutcome) -> None:
            context.tell(
                StepProgress(self.name, f"{outcome.name}: {outcome.result}", {"tries": outcome.tries})
            )

        with context.effect(self.name, "tell", endpoint=endpoint.as_dict()) as effect:
            outcomes = tell_all(ways, endpoint, on_outcome=on_outcome, clock=context.clock)
            effect["ways"] = [
                {
                    "name": o.name,
                    "result": o.result.value,
                    "tries": o.tries,
                    "seconds": o.seconds,
                    "error": _error_text(o),
                }
                for o in outcomes
            ]
        _judge(outcomes)
        notes = [f"{o.name} repointed ({o.result})" for o in outcomes]
        evidence = {"endpoint": endpoint.as_dict(), "ways": effect["ways"]}
        return StepResult(evidence, (*notes, *_names(context)))


def _ways(context: Context) -> Any:
    scope, by_file = context.scope, context.result(StepName.SNAPSHOT).get("outside", {}).get("by_file", ())
    late = context.result(StepName.TRANSLATE).get("positions", {})  # with groups that came after SNAPSHOT
    return adapters(
        context.settings.failover.repoint,
        None if scope.whole_flow and not by_file else {*scope.groups, *late},
        scope.topics,
        say=lambda line: context.tell(StepProgress(StepName.REPOINT, line)),
    )


def _no_way(context: Context) -> str:
    is_empty = not context.settings.failover.repoint
    return "failover.repoint is empty" if is_empty else "no way of failover.repoint is for what moves"


def _endpoint(context: Context) -> Endpoint:
    flow = context.flow
    context.state.load()
    known = {t: target for t, (target, *_) in context.known.topics.items() if not flow.is_heartbeats(t)}
    return endpoint_of(
        context.settings.cluster(context.flow.target),
        term=context.term,
        cluster_id=context.run(describe_cluster, context.target).cluster_id,
        topics={**known, **context.scope.topics},
    )


def _renamed(context: Context) -> dict[str, str]:
    return {a: b for a, b in context.scope.topics.items() if a != b}


def _names(context: Context) -> tuple[str, ...]:
    return tuple(f"topic {a} is called {b} on {context.flow.target}" for a, b in _renamed(context).items())


def _error_text(outcome: RepointOutcome) -> str:
    error = outcome.error
    return "" if error is None else f"{error.what} ({error.evidence})" if error.evidence else error.what


def _judge(outcomes: list[RepointOutcome]) -> None:
    unfinished = [o for o in outcomes if not o.result.is_done]
    if not unfinished:
        return
    refused = [o for o in unfinished if o.result is Result.REFUSED]
    kind, code, shown = (
        (Refused, "newer_term", refused) if refused else (Failed, "repoint_failed", unfinished)
    )
    evidence = "; ".join(f"{o.name}: {_error_text(o) or o.result}" for o in unfinished)
    if refused and refused[0].error is not None:
        evidence = refused[0].error.evidence
    where = ", ".join(o.name for o in shown)
    raise kind(code, where=where, evidence=evidence, count=len(shown), total=len(outcomes))


_PAUSE_SECONDS: Final = 0.5
_CANARY_PAUSE_SECONDS: Final = 0.05
_TELL_SECONDS: Final = 2.0
_CANARY_MS: Final = 5000
_CANARY_SECONDS: Final = 10.0
_WORKS: Final = "works"


class VerifyStep(Step):
    """VERIFY: checks that the new primary accepts records and that groups work there."""

    name = StepName.VERIFY

    def plan(self, context: Context) -> list[StepEffect]:
        target, seconds = context.flow.target, context.settings.failover.verify_seconds
        groups = len(context.scope.groups)
        topics = counted(len(context.scope.topics), "topic")
        return [
            StepEffect("write and read a canary on every broker", f"{target}: {TOPIC}"),
            StepEffect(f"check that every partition of {topics} accepts records", target),
            StepEffect(
                f"wait up to {seconds:g} s for {counted(groups, 'group')} to have members and move", target
            ),
        ]

    def run(self, context: Context) -> StepResult:
        brokers = self._canaries(context)
        closed = _partitions(context)
        groups = self._groups(context)
        waiting = {g: reason for g, reason in groups.items() if reason != _WORKS}
        notes = [f"a canary was written and read on {counted(brokers, 'broker')} of {context.flow.target}"]
        if closed:
            notes.append(
                f"{counted(len(closed), 'partition', 'refuses')} drkit itself, which is fenced there"
            )
        notes.append(f"{len(groups) - len(waiting)} of {len(groups)} groups are at work")
        notes += [f"{g}: {reason}" for g, reason in sorted(waiting.items())]
        (repeats, changes), late, source = changed_since(context), too_late(context), context.flow.source
        still = f"still read {source} after its position was taken: it reprocesses up to"
        notes += [f"{g} {still} {counted(n, 'record')}" for g, n in sorted(repeats.items())]
        notes += [f"group {g} changed on {source} after TRANSLATE: {change}" for g, change in changes.items()]
        notes += [f"group {g} remains on {source}: {reason}" for g, reason in sorted(late.items())]
        seen = {"brokers": brokers, "groups": groups, "refuse_drkit": closed}
        return StepResult({**seen, "repeats": repeats, "changes": changes, "too_late": late}, tuple(notes))

    def _canaries(self, context: Context) -> int:
        with context.effect(self.name, "canary", topic=TOPIC) as outcome:
            context.forget_admin()  # a broker may be gone since the run began
            ensure_canary(context.target_admin())
            deadline = context.clock() + _CANARY_SECONDS
            while True:
                canaries: dict[int, str] = context.run(_write_canaries, context.target)
                failed = {n: reason for n, reason in canaries.items() if reason}
                if (canaries and not failed) or context.clock() > deadline:
                    break
                # The leaders of the canary's topic are new, or move.
                context.pause(_CANARY_PAUSE_SECONDS)
            outcome["ill"] = {str(n): reason for n, reason in failed.items()}
        if failed or not canaries:
            raise Failed(
                "record_not_kept",
                where=", ".join(f"{context.flow.target}, broker {n}" for n in failed) or context.flow.target,
                evidence="; ".join(dict.fromkeys(failed.values())) or f"{TOPIC} has no leaders",
            )
        return len(canaries)

    def _groups(self, context: Context) -> dict[str, str]:
        committed = context.result(StepName.COMMIT_OFFSETS)
        names = [*committed.get("groups", ()), *committed.get("kept", ())]
        deadline = context.clock() + context.settings.failover.verify_seconds
        reported = float("-inf")
        while True:
            groups: dict[str, TargetGroup] = context.run(on_target, context.target, names)
            states = {g: _state_of(context, g, t) for g, t in groups.items()}
            waiting = [g for g, state in states.items() if state != _WORKS]
            if not waiting or context.clock() > deadline:
                return states
            if context.clock() - reported > _TELL_SECONDS:
                reported = context.clock()
                text = f"{len(states) - len(waiting)} of {len(states)} groups have active members yet"
                context.tell(StepProgress(self.name, text, {"first": min(waiting)}))
            remaining = max(0.0, deadline - context.clock())
            context.pause(min(_PAUSE_SECONDS, remaining))


def _partitions(context: Context) -> list[str]:
    codes = context.run(write_codes, context.target, context.scope.topics.values())
    bad = {tp: c for tp, c in codes.items() if c not in {WRITABLE, TOPIC_AUTHORIZATION_FAILED}}
    if bad:
        evidence = first_of(f"{tp}: {code_name(c)}" for tp, c in sorted(bad.items()))
        raise Failed("new_primary_refuses", where=context.flow.target, evidence=evidence)
    return [str(tp) for tp, c in sorted(codes.items()) if c == TOPIC_AUTHORIZATION_FAILED]


async def _write_canaries(target: RawCluster) -> dict[int, str]:
    topic = (await metadata(target, [TOPIC]))[TOPIC]
    leaders = {p: leader.node for p, leader in topic.leaders.items()}
    reasons: dict[int, str] = {}
    for broker in sorted({n for n in leaders.values() if n >= 0}):
        partition = placed(topic.topic_id, leaders, broker)
        if partition is None:
            continue
        try:
            canary = await probe_write(target, broker, partition, uuid.uuid4().bytes, _CANARY_MS)
        except RawError as error:
            reasons[broker] = f"no answer ({error})"
            continue
        is_written = canary.outcome is ProbeOutcome.WORKS
        reasons[broker] = "" if is_written else canary.evidence or canary.outcome.value
    return reasons


def _state_of(context: Context, group: str, state: TargetGroup) -> str:
    if not state.members:
        return "no members yet"
    translated = context.result(StepName.TRANSLATE)
    positions: Mapping[str, list[Any]] = translated["positions"].get(group, {})
    uncommitted = 0
    for target, (_, downstream, *_mark) in positions.items():
        stored = state.stored.get(partition_of(target))
        if stored is not None and stored.offset != downstream:
            return _WORKS
        uncommitted += max(0, translated["ends"][target] - downstream)
    return f"{counted(len(state.members), 'member')}, has not committed yet" if uncommitted else _WORKS


class DoneStep(Step):
    """DONE: names what a person has to do next."""

    name = StepName.DONE

    def plan(self, context: Context) -> list[StepEffect]:
        return [
            StepEffect("report what to do next", context.flow.target, line) for line in next_steps(context)
        ]

    def run(self, context: Context) -> StepResult:
        lines, notes = next_steps(context), share_promotions(context)
        again = (self._measure_again(context),) if context.is_opened_before else ()
        return StepResult({"next": lines, "protected": False}, (*lines, *notes, *again))

    def _measure_again(self, context: Context) -> str:
        """Record the loss up to now; return it in words. Raises Refused: it is more than was accepted."""
        stated, request = context.result(StepName.TRANSLATE)["loss"], context.request
        with context.effect(self.name, LOSS) as outcome:
            loss = loss_since(context, stated)
            outcome.update(loss)
        seconds, statement = loss["seconds"], loss["statement"]
        is_within = seconds is not None and seconds <= context.settings.failover.rpo_seconds
        if loss is stated or request.accept_data_loss or (is_within and not request.planned):
            return statement
        source, flow = context.flow.source, context.flow.name
        raise Refused("lost_after_open", where=flow, evidence=statement, source=source)


def next_steps(context: Context) -> list[str]:
    """Return what a person has to do, the most urgent first."""
    flow = context.flow
    lines = []
    fence = context.result(StepName.FENCE)
    if fence and not fence.get("proven"):
        reason = fence.get("debt") or "its fence is not proven"
        lines.append(
            f"{flow.source} may take writes ({reason}): keep its listeners closed until it is fenced;"
            " drkit watch does that at the first contact, or: drkit fence pay"
        )
    if context.request.planned:
        return lines + _after_switchover(context)
    # The old primary may hold records that were not copied; they would come before new records there.
    if not context.result(StepName.TRANSLATE).get("loss", {}).get("exact", True):
        lines.append(
            f"when {flow.source} answers again, for its records that were not copied: drkit divergence"
        )
    lines.append(
        f"{flow.target} is not protected: nothing copies from it, and a flow back leaves these topics out."
        f" Keep {flow.source} fenced; as soon as it answers: {to_reprotect(flow.source, flow.target)}"
    )
    return lines


def _after_switchover(context: Context) -> list[str]:
    """Return what makes the old primary, which is fenced and has no records of its own, the standby."""
    flow = context.flow
    name = f"{flow.target}->{flow.source}"
    fence, reprotect = context.result(StepName.FENCE), to_reprotect(flow.source, flow.target)
    unsure = "" if fence or context.request.clients_cut else ", without an authorizer only with --clients-cut"
    begin = f"drkit replicate --flow '{name}' begins by itself where it runs{unsure}; else"
    if fence.get("how") == SIZE and not context.request.clients_cut:
        begin = f"the return does not begin by itself: say how clients are kept off {flow.source}"
        reprotect = f'{reprotect} --clients-cut "HOW"'
    left_out: list[str] = []
    if (reverse_flow := opposite_flow(context.settings, flow)) is not None:
        left_out = sorted(t for t in context.scope.topics.values() if not reverse_flow.copies(t))
    else:
        table = f'[[flows]] source = "{flow.target}", target = "{flow.source}"'
        begin = f"add the flow back to the configuration ({table}), then"
    lines = [
        f"{flow.target} is not protected: nothing copies from it until the reverse replication runs",
        f"{begin}: {reprotect}, then: drkit replicate --flow '{name}'",
    ]
    if left_out:
        lines += [f"topics or topics_exclude of {name} leave out {first_of(left_out)}: nothing copies them"]
    return lines
