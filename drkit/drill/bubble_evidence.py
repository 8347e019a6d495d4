"""The evidence of a bubble: outages, lost records, checks, controls, what is left. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from drkit.chaos.checks import CheckResult
from drkit.chaos.history import PRIMARY, STANDBY, Acked, Consumed, ScenarioHistory
from drkit.drill.inventory import InventoryComparison


class ClientOutage(NamedTuple):
    """The outage of one client, by the monotonic clock of the machine."""

    client: str
    operation: str
    """produce or consume"""
    began_seconds: float
    """Its last good operation on the source, since the first one of any client."""
    seconds: float
    """From there to its first good operation on the target."""


class MeasuredLoss(NamedTuple):
    """Acknowledged records that are missing on the target, by the clients' own history."""

    records: int
    seconds: float
    """From the first lost acknowledgement to the last acknowledgement of the source."""


class ProductionLoss(NamedTuple):
    """What production would have lost if its source had died during the drill, by looks each two seconds."""

    looks: int
    unknown: int
    """Looks without an answer."""
    most_records: int
    most_seconds: float | None
    """Age of the oldest record; None: unknown."""
    median_seconds: float | None


@dataclass(frozen=True, kw_only=True)
class BubbleEvidence:
    """All that a bubble has recorded."""

    error: str = ""
    """Of the step that failed; empty: none did."""
    steps: Mapping[str, float] | None = None
    """Seconds of each step of its failover; None: that is not done."""
    outages: tuple[ClientOutage, ...] = ()
    loss: MeasuredLoss | None = None
    checks: tuple[CheckResult, ...] = ()
    missing: tuple[str, ...] = ("the history was not checked",)
    """What the checks could not examine."""
    controls: Mapping[str, bool] | None = None
    """Defect that was put into the history → whether its check found it."""
    inventory: Mapping[str, InventoryComparison] | None = None
    """By the side of the drill."""
    cleanup_problems: tuple[str, ...] = ()
    scope: Mapping[str, str] | None = None
    """See :func:`drkit.drill.scope.scope_of`; None: it was not read."""
    production: ProductionLoss | None = None
    """None: no look answered."""
    is_application: bool = False
    """Whether its clients had properties of an application instead of drkit's."""


def measure_outages(history: ScenarioHistory) -> tuple[ClientOutage, ...]:
    """Return the outage of each client that worked on both sides."""
    good: dict[tuple[str, str], dict[str, list[float]]] = {}
    for e in history.events:
        if isinstance(e, Acked | Consumed):
            operation = "produce" if isinstance(e, Acked) else "consume"
            client = e.by.partition(" ")[0]  # one that was started again has a number
            sides = good.setdefault((client, operation), {PRIMARY: [], STANDBY: []})
            sides[e.cluster].append(e.seconds)
    first = min((min(sides[PRIMARY]) for sides in good.values() if sides[PRIMARY]), default=0.0)
    return tuple(
        ClientOutage(
            client,
            operation,
            round(max(sides[PRIMARY]) - first, 3),
            round(min(sides[STANDBY]) - max(sides[PRIMARY]), 3),
        )
        for (client, operation), sides in sorted(good.items())
        if sides[PRIMARY] and sides[STANDBY]
    )


def measure_loss(history: ScenarioHistory) -> MeasuredLoss | None:
    """Return what the target lacks of the source's acknowledged records; None: its logs were not read."""
    facts = history
    of_source = [(record, e) for record, (_, e) in facts.acked.items() if e.cluster == PRIMARY]
    if any((STANDBY, e.tp) not in facts.log_ends for _, e in of_source):
        return None
    lost = [e.seconds for record, e in of_source if record not in facts.offsets[STANDBY]]
    last = max((e.seconds for _, e in of_source), default=0.0)
    return MeasuredLoss(len(lost), round(last - min(lost), 3) if lost else 0.0)


def bubble_failures(
    bubble: BubbleEvidence, rto_seconds: float | None, rpo_seconds: float | None
) -> Iterator[tuple[bool, str]]:
    """Return what is wrong with a bubble: whether that is a failure, and what it is.

    What is no failure was not exercised, or not read.

    :param rto_seconds: longest outage of a client; None: any
    :param rpo_seconds: longest loss; None: any
    """
    if bubble.error:
        yield True, bubble.error
        return
    yield from ((True, f"{c.name}: {offence}") for c in bubble.checks for offence in c.offences)
    yield from ((False, each) for each in bubble.missing)
    if bubble.steps is None:
        yield False, "the failover of the drill is not done"
    if not any(each.examined for each in bubble.checks):
        yield False, "no check examined anything"
    yield from _of_outages(bubble, rto_seconds)
    if bubble.loss is None:
        yield False, "the loss is unknown: a log of the target was not read"
    elif rpo_seconds is not None and bubble.loss.seconds > rpo_seconds:
        yield True, f"{bubble.loss.seconds:g} s of records are lost, rpo_seconds = {rpo_seconds:g}"
    yield from ((True, f"not cleaned up: {problem}") for problem in bubble.cleanup_problems)
    if (bubble.inventory or {}).keys() != {"source", "target"}:
        yield False, "the inventories were not compared"
    for side, compared in (bubble.inventory or {}).items():
        yield from ((True, f"left on the {side}: {item}") for item in compared.ours_left)
        yield from ((False, f"unknown on the {side}: {part}") for part in compared.unknown)
    if not bubble.controls:
        yield False, "no control was run"


def too_long(outages: Iterable[ClientOutage], rto_seconds: float | None) -> Iterator[tuple[bool, str]]:
    """Return the outages that are longer than a limit, as failures."""
    for outage in outages:
        if rto_seconds is not None and outage.seconds > rto_seconds:
            what = f"{outage.client} could not {outage.operation} for {outage.seconds:g} s"
            yield True, f"{what}, rto_seconds = {rto_seconds:g}"


def _of_outages(bubble: BubbleEvidence, rto_seconds: float | None) -> Iterator[tuple[bool, str]]:
    for outage in bubble.outages:
        if not outage.seconds >= 0:  # NaN, too
            yield False, f"the outage of {outage.client} is unknown: {outage.seconds} s"
    yield from too_long(bubble.outages, rto_seconds)
    operations = {outage.operation for outage in bubble.outages}
    yield from (
        (False, f"no client resumed to {each}") for each in ("consume", "produce") if each not in operations
    )
