"""VERIFY: writes and reads records on the new primary, and reports the groups that do not work yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
import uuid

from drkit.counted import counted
from drkit.detect.canary import TOPIC, ensure_canary, placed, probe_write
from drkit.detect.seen import ProbeOutcome
from drkit.errors import Failed
from drkit.failover.checks.late import too_late
from drkit.failover.core.context import Context, StepProgress
from drkit.failover.core.machine import StepName
from drkit.failover.core.step import Step, StepEffect, StepResult
from drkit.failover.fencing.writable import WRITABLE, code_name, write_codes
from drkit.failover.groups.look import TargetGroup, on_target, partition_of
from drkit.failover.groups.repeats import repeated
from drkit.kafka.codes import TOPIC_AUTHORIZATION_FAILED
from drkit.kafka.raw import RawCluster, RawError
from drkit.kafka.requests import metadata

_PAUSE_SECONDS: Final = 0.5
_CANARY_PAUSE_SECONDS: Final = 0.05
_TELL_SECONDS: Final = 2.0
_CANARY_MS: Final = 5000
_CANARY_SECONDS: Final = 10.0
_SHOWN: Final = 5
_WORKS: Final = "works"


class VerifyStep(Step):
    """See the module."""

    name = StepName.VERIFY

    def plan(self, context: Context) -> list[StepEffect]:
        """See :class:`drkit.failover.core.step.Step`."""
        target, seconds = context.flow.target, context.settings.failover.verify_seconds
        groups = len(context.scope.groups)
        topics = counted(len(context.scope.topics), "topic")
        return [
            StepEffect("write and read a canary on every broker", f"{target}: {TOPIC}"),
            StepEffect(
                f"check that every partition of {topics} accepts records",
                target,
            ),
            StepEffect(
                f"wait up to {seconds:g} s for {counted(groups, 'group')} to have members and move", target
            ),
        ]

    def run(self, context: Context) -> StepResult:
        """See :class:`drkit.failover.core.step.Step`.

        :raises Failed: a broker refuses the canary, or a partition takes no records
        """
        brokers = self._canaries(context)
        closed = _partitions(context)
        groups = self._groups(context)
        waiting = {g: why for g, why in groups.items() if why != _WORKS}
        notes = [f"a canary was written and read on {counted(brokers, 'broker')} of {context.flow.target}"]
        if closed:
            notes.append(
                f"{counted(len(closed), 'partition', 'refuses')} drkit itself, which is fenced there"
            )
        notes.append(f"{len(groups) - len(waiting)} of {len(groups)} groups are at work")
        notes += [f"{g}: {why}" for g, why in sorted(waiting.items())]
        again = repeated(context)
        notes += [
            f"{g} still read {context.flow.source} after its position was taken:"
            f" it reprocesses up to {counted(n, 'record')}"
            for g, n in sorted(again.items())
        ]
        left = too_late(context)
        notes += [f"group {g} remains on {context.flow.source}: {why}" for g, why in sorted(left.items())]
        evidence = {"brokers": brokers, "groups": groups, "refuse_drkit": closed, "repeats": again}
        evidence["too_late"] = left
        return StepResult(evidence, tuple(notes))

    def _canaries(self, context: Context) -> int:
        with context.effect(self.name, "canary", topic=TOPIC) as outcome:
            context.forget_admin()  # a broker may be gone since the run began
            ensure_canary(context.target_admin())
            deadline = context.clock() + _CANARY_SECONDS
            while True:
                sung: dict[int, str] = context.run(_sing_everywhere, context.target)
                ill = {n: why for n, why in sung.items() if why}
                if (sung and not ill) or context.clock() > deadline:
                    break
                # The leaders of the canary's topic are new, or move.
                context.pause(_CANARY_PAUSE_SECONDS)
            outcome["ill"] = {str(n): why for n, why in ill.items()}
        if ill or not sung:
            raise Failed(
                "record_not_kept",
                where=", ".join(f"{context.flow.target}, broker {n}" for n in ill) or context.flow.target,
                evidence="; ".join(dict.fromkeys(ill.values())) or f"{TOPIC} has no leaders",
            )
        return len(sung)

    def _groups(self, context: Context) -> dict[str, str]:
        """Wait until all groups work, or `verify_seconds` have passed; return each group's state."""
        committed = context.result(StepName.COMMIT_OFFSETS)
        names = [*committed.get("groups", ()), *committed.get("kept", ())]
        deadline = context.clock() + context.settings.failover.verify_seconds
        told = float("-inf")
        while True:
            groups: dict[str, TargetGroup] = context.run(on_target, context.target, names)
            found = {g: _at_work(context, g, t) for g, t in groups.items()}
            waiting = [g for g, why in found.items() if why != _WORKS]
            if not waiting or context.clock() > deadline:
                return found
            if context.clock() - told > _TELL_SECONDS:
                told = context.clock()
                text = f"{len(found) - len(waiting)} of {len(found)} groups have active members yet"
                context.tell(StepProgress(self.name, text, {"first": min(waiting)}))
            left = max(0.0, deadline - context.clock())
            context.pause(min(_PAUSE_SECONDS, left))


def _partitions(context: Context) -> list[str]:
    """Check that every partition takes records; return those that refuse drkit itself.

    :raises Failed: a partition takes no records
    """
    codes = context.run(write_codes, context.target, context.scope.topics.values())
    bad = {at: c for at, c in codes.items() if c not in {WRITABLE, TOPIC_AUTHORIZATION_FAILED}}
    if bad:
        raise Failed(
            "new_primary_refuses",
            where=context.flow.target,
            evidence="; ".join(f"{at}: {code_name(c)}" for at, c in sorted(bad.items())[:_SHOWN]),
        )
    return [str(at) for at, c in sorted(codes.items()) if c == TOPIC_AUTHORIZATION_FAILED]


async def _sing_everywhere(target: RawCluster) -> dict[int, str]:
    """Return broker → why its canary failed; empty text when it did not."""
    topic = (await metadata(target, [TOPIC]))[TOPIC]
    leaders = {p: leader.node for p, leader in topic.leaders.items()}
    out: dict[int, str] = {}
    for broker in sorted({n for n in leaders.values() if n >= 0}):
        place = placed(topic.topic_id, leaders, broker)
        if place is None:
            continue
        try:
            sung = await probe_write(target, broker, place, uuid.uuid4().bytes, _CANARY_MS)
        except RawError as error:
            out[broker] = f"no answer ({type(error).__name__})"
            continue
        out[broker] = "" if sung.outcome is ProbeOutcome.WORKS else sung.evidence or sung.outcome.value
    return out


def _at_work(context: Context, group: str, found: TargetGroup) -> str:
    if not found.members:
        return "no members yet"
    translated = context.result(StepName.TRANSLATE)
    mine: Mapping[str, list[Any]] = translated["positions"].get(group, {})
    left = 0
    for target, (_, downstream, *_mark) in mine.items():
        stored = found.stored.get(partition_of(target))
        if stored is not None and stored.offset != downstream:
            return _WORKS
        left += max(0, translated["ends"][target] - downstream)
    return f"{counted(len(found.members), 'member')}, has not committed yet" if left else _WORKS
