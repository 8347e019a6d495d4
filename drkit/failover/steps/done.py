"""DONE: reports that the new primary is not protected yet, and what to do next.

It never advises to copy back by hand: the reverse flow leaves out what was promoted until a return has begun.
"""

from __future__ import annotations

from drkit.counted import first_of
from drkit.failover.core.context import Context
from drkit.failover.core.machine import StepName
from drkit.failover.core.step import Step, StepEffect, StepResult
from drkit.failover.fencing.methods import SIZE
from drkit.flow_state.returns import to_reprotect


class DoneStep(Step):
    """See the module."""

    name = StepName.DONE

    def plan(self, context: Context) -> list[StepEffect]:
        """See :class:`drkit.failover.core.step.Step`."""
        return [
            StepEffect("report what to do next", context.flow.target, line) for line in next_steps(context)
        ]

    def run(self, context: Context) -> StepResult:
        """See :class:`drkit.failover.core.step.Step`."""
        lines = next_steps(context)
        return StepResult({"next": lines, "protected": False}, tuple(lines))


def next_steps(context: Context) -> list[str]:
    """Return what a person has to do, the most urgent first."""
    flow = context.flow
    lines = []
    fence = context.result(StepName.FENCE)
    if fence and not fence.get("proven"):
        why = fence.get("debt") or "its fence is not proven"
        lines.append(
            f"{flow.source} may take writes ({why}): keep its listeners closed until it is fenced;"
            " drkit watch does that at the first contact, or: drkit fence pay"
        )
    lines += _after_switchover(context) if context.request.planned else _after_loss(context)
    return lines


def _after_switchover(context: Context) -> list[str]:
    """The old primary is fenced and holds nothing of its own: it becomes the standby."""
    flow = context.flow
    reverse = f"{flow.target}->{flow.source}"
    begin = f"drkit replicate --flow '{reverse}' begins by itself where it runs; else"
    turn = to_reprotect(flow.source, flow.target)
    if context.result(StepName.FENCE).get("how") == SIZE and not context.request.clients_cut:
        begin = f"the return does not begin by itself: say how clients are kept off {flow.source}"
        turn = f'{turn} --clients-cut "HOW"'
    back = next((f for f in context.settings.flows if f.name == reverse), None)
    left = [] if back is None else sorted(t for t in context.scope.topics.values() if not back.copies(t))
    if back is None:
        table = f'[[flows]] source = "{flow.target}", target = "{flow.source}"'
        begin = f"add the flow back to the configuration ({table}), then"
    return [
        f"{flow.target} is not protected: nothing copies from it until the reverse replication runs",
        f"{begin}: {turn}, then: drkit replicate --flow '{reverse}'",
        *(
            [f"topics or topics_exclude of {reverse} leave out {first_of(left)}: nothing copies them"]
            * bool(left)
        ),
    ]


def _after_loss(context: Context) -> list[str]:
    """The old primary may hold records that were not copied; they would come before new records there."""
    flow = context.flow
    lines = []
    if not context.result(StepName.TRANSLATE).get("loss", {}).get("exact", True):
        lines.append(
            f"when {flow.source} answers again: drkit divergence says what it has that was not copied"
        )
    lines.append(
        f"{flow.target} is not protected: nothing copies from it, and a flow back leaves these topics out."
        f" Keep {flow.source} fenced; as soon as it answers: {to_reprotect(flow.source, flow.target)}"
    )
    return lines
