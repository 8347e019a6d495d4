"""Collect the evidence of a `readiness` drill: whether a failover of the whole flow could begin now.

Only questions are asked: a dry run of the failover, and the state of the pair and of its groups.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

from drkit.config import FlowSettings, Settings
from drkit.drill.evidence import ReadinessFacts, SeenRefusal
from drkit.errors import DrkitError, Refused
from drkit.failover.core.request import RunRequest
from drkit.failover.service import FailoverService
from drkit.status.groups import GroupsSeen, group_faults
from drkit.status.model import FlowStatus
from drkit.status.pair.model import PairState
from drkit.status.paired import PairedCollector


def collect_readiness(settings: Settings, flow: FlowSettings, *, planned: bool = False) -> ReadinessFacts:
    """Return the facts on which a failover of a whole flow would be decided now.

    A question that gets no answer is part of the facts, never an error.

    :param planned: of a switchover instead of a failover
    """
    with closing(PairedCollector(settings, flow)) as collector:
        facts = _from_status(collector.look())
    try:
        with FailoverService(settings, flow) as service:
            rehearsal = service.rehearse((), RunRequest(planned=planned))
    except Refused as error:
        return replace(facts, refusals=(SeenRefusal("", "", error.in_full),))
    except DrkitError as error:
        return replace(facts, unknown=(*facts.unknown, error.in_full))
    risk = rehearsal.survey.risk
    return replace(
        facts,
        refusals=tuple(SeenRefusal(g, f"runbooks/{g}.md", e.in_full) for g, e in rehearsal.refusals),
        loss_seconds=risk.seconds,
        loss_records=risk.records,
        loss_basis=risk.basis,
    )


def _from_status(status: FlowStatus) -> ReadinessFacts:
    pair, seen = status.pair, status.groups
    unknown = [] if pair is None else list(pair.unknown)
    if not (status.source_answers and status.target_answers):
        silent = status.target if status.source_answers else status.source
        unknown.append(f"{silent} does not answer")
    if seen is not None and seen.error:
        unknown.append(f"the positions of groups are unknown: {seen.error}")
    return ReadinessFacts(
        PairState.UNKNOWN if pair is None else pair.state,
        _pair_reason(status),
        groups=0 if seen is None else len(seen.groups),
        not_ready=() if seen is None else _not_ready(seen),
        loss_basis="the failover was not rehearsed",
        unknown=tuple(unknown),
    )


def _pair_reason(status: FlowStatus) -> str:
    """Return why the pair is not protected: of the first topics in the worst state."""
    if status.pair is None or not status.pair.parts:
        return status.pair.why if status.pair is not None else "its state was not read"
    worst = status.pair.parts[0]
    return f"{worst.topics[0].topic}: {worst.why}"


def _not_ready(seen: GroupsSeen) -> tuple[tuple[str, str], ...]:
    """Return the groups that do not become ready by themselves; all of them where checkpoints are stale."""
    stale = [text for code, text in group_faults(seen) if code == "checkpoints_stale"]
    return tuple((g.group, stale[0] if stale else g.reason) for g in seen.groups if stale or g.faulty)


def refuse_unprotected(settings: Settings, flow: FlowSettings) -> None:
    """Refuse a drill while the copy of production is not complete. Raises Refused."""
    with closing(PairedCollector(settings, flow, groups=False)) as collector:
        pair = collector.look().pair
    if pair is None or pair.state is not PairState.PROTECTED:
        parts = () if pair is None else pair.parts
        raise Refused(
            "not_protected",
            where=flow.name,
            evidence=f"{parts[0].state}: {parts[0].why}" if parts else "unknown",
            flow=flow.name,
        )
