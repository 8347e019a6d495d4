"""The result of a bubble: outages, lost records, checks, controls, inventories, verdict. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from drkit.chaos.facts import CheckResult, Facts
from drkit.chaos.history import PRIMARY, STANDBY, Acked, Consumed, ScenarioHistory
from drkit.chaos.verdict import FAIL, INCONCLUSIVE, PASS
from drkit.drill.inventory import InventoryComparison
from drkit.drill.plan import DrillPlan


class ClientOutage(NamedTuple):
    """The outage of one client, by the monotonic clock of the machine."""

    client: str
    operation: str
    """produce or consume"""
    seconds: float | None
    """From its last good operation before the cut to the first one after it; None: there is none."""


class MeasuredLoss(NamedTuple):
    """Acknowledged records that are missing on the target, by the clients' own history."""

    records: int
    seconds: float
    """From the first lost acknowledgement to the last acknowledgement of the source."""


@dataclass(frozen=True, kw_only=True)
class BubbleResult:
    """The result of a bubble."""

    plan: DrillPlan
    verdict: str = ""
    reasons: tuple[str, ...] = ()
    steps: tuple[Mapping[str, Any], ...] = ()
    outages: tuple[ClientOutage, ...] = ()
    loss: MeasuredLoss | None = None
    checks: tuple[CheckResult, ...] = ()
    controls: Mapping[str, bool] | None = None
    """Defect that was put into the history → whether its check found it."""
    inventory: Mapping[str, InventoryComparison] | None = None
    """By the side of the drill."""
    cleanup_problems: tuple[str, ...] = ()
    cleanup_owed: bool = False
    failover: Mapping[str, Any] | None = None
    """The report of the bubble's failover."""

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain data."""
        data = asdict(replace(self, plan=self.plan)) | {"plan": self.plan.to_json()}
        data["outages"] = [each._asdict() for each in self.outages]
        data["loss"] = None if self.loss is None else self.loss._asdict()
        data["checks"] = [each._asdict() for each in self.checks]
        return data


def measure_outages(history: ScenarioHistory) -> tuple[ClientOutage, ...]:
    """Return the outage of each client that worked on both sides."""
    good: dict[tuple[str, str], dict[str, list[float]]] = {}
    for e in history.events:
        if isinstance(e, Acked | Consumed):
            operation = "produce" if isinstance(e, Acked) else "consume"
            client = e.by.partition(" ")[0]  # one that was started again has a number
            sides = good.setdefault((client, operation), {PRIMARY: [], STANDBY: []})
            sides[e.cluster].append(e.seconds)
    return tuple(
        ClientOutage(client, operation, round(min(sides[STANDBY]) - max(sides[PRIMARY]), 3))
        for (client, operation), sides in sorted(good.items())
        if sides[PRIMARY] and sides[STANDBY]
    )


def measure_loss(history: ScenarioHistory) -> MeasuredLoss | None:
    """Return what the target lacks of the source's acknowledged records; None: its logs were not read."""
    facts = Facts(history.events)
    of_source = [(record, e) for record, (_, e) in facts.acked.items() if e.cluster == PRIMARY]
    if any((STANDBY, e.tp) not in facts.log_ends for _, e in of_source):
        return None
    lost = [e.seconds for record, e in of_source if record not in facts.offsets[STANDBY]]
    last = max((e.seconds for _, e in of_source), default=0.0)
    return MeasuredLoss(len(lost), round(last - min(lost), 3) if lost else 0.0)


def judge_bubble(result: BubbleResult, checked: str, reasons: Sequence[str]) -> BubbleResult:
    """Return the result with its verdict.

    :param checked: the verdict of the checks of the history: pass, fail or inconclusive
    :param reasons: of that verdict
    """
    failed = list(_failures(result))
    unproven = list(_unproven(result))
    if checked == FAIL or failed:
        return replace(result, verdict=FAIL, reasons=(*(reasons if checked == FAIL else ()), *failed))
    if checked == INCONCLUSIVE or unproven:
        return replace(result, verdict=INCONCLUSIVE, reasons=(*reasons, *unproven))
    return replace(result, verdict=PASS)


def _failures(result: BubbleResult) -> Iterator[str]:
    objectives = result.plan.objectives
    for outage in result.outages:
        if objectives.rto_seconds is not None and (outage.seconds or 0.0) > objectives.rto_seconds:
            limit = f"the objective is {objectives.rto_seconds:g} s"
            yield f"{outage.client} could not {outage.operation} for {outage.seconds:g} s, {limit}"
    lost, limit_seconds = 0.0 if result.loss is None else result.loss.seconds, objectives.rpo_seconds
    if limit_seconds is not None and lost > limit_seconds:
        yield f"{lost:g} s of records are lost, the objective is {limit_seconds:g} s"
    yield from (f"not cleaned up: {problem}" for problem in result.cleanup_problems)
    for side, comparison in (result.inventory or {}).items():
        yield from (f"left on the {side}: {item}" for item in comparison.ours_left)


def _unproven(result: BubbleResult) -> Iterator[str]:
    operations = {outage.operation for outage in result.outages}
    yield from (f"no client resumed to {each}" for each in ("consume", "produce") if each not in operations)
    if result.loss is None:
        yield "the loss is unknown: a log of the target was not read"
    if not result.controls:
        yield "no control was run"
    yield from (
        f"control not caught: {name}" for name, is_found in (result.controls or {}).items() if not is_found
    )
    if result.inventory is None:
        yield "the inventories were not compared"
    for side, comparison in (result.inventory or {}).items():
        yield from (f"unknown on the {side}: {part}" for part in comparison.unknown)
