"""``drkit fence``: how the old primary is fenced; apply a pending fence, put one up again, or lift it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from drkit.cli.configuration import configuration
from drkit.cli.questions import ask
from drkit.cli.render import emit
from drkit.cli.session import to_type
from drkit.cli.waiting_flow import flow_that_owes, owing_flow
from drkit.counted import first_of
from drkit.failover import pending_fences
from drkit.failover.old_primary.fence import BY_COMMAND
from drkit.failover.pending_fences import TAKEN_AWAY, DueFences, Fences
from drkit.failover.service import FailoverService
from drkit.flow_state.pending_fence import paid_with

_NOTHING: Final = {"owed": "nothing"}


def show(flow: str | None) -> None:
    """Run ``drkit fence show``."""
    with _service(flow, owes=True) as service:
        found = pending_fences.shown(service)
    told: dict[str, Any] = {"cluster": found.cluster}
    if found.unanswered:
        told["does not answer"] = found.unanswered
    if found.pending_fence is not None:
        told["fence pending"] = found.pending_fence.in_words
    if found.lift is not None:
        told["lift pending"] = f"{found.lift.in_words}; {found.lift.why}"
    if next_ := next_of(found):
        told["next"] = to_type(next_)
    silent = {"takes_writes": "unknown"} if found.unanswered else {}
    told["topics"] = [t._asdict() | silent for t in found.topics] or "no fence is known"
    emit(found.to_json(), shown=[told])


def next_of(found: Fences) -> str:
    """Return the command that applies a pending or removed fence, or "" without one."""
    paid = paid_with(found.flow)
    if found.pending_fence is not None or found.lift is not None:
        return f"{paid}, once it answers; drkit watch does so by itself"
    away = [t.topic for t in found.topics if t.fence == TAKEN_AWAY]
    if not away:
        return ""
    return f"find out who took away the fence of {first_of(away)}; {paid} asks, and puts it up again"


def pay(flow: str | None, *, dry_run: bool, yes: bool) -> None:
    """Run ``drkit fence pay``."""
    settings = configuration().settings
    chosen = owing_flow(settings, flow)
    if chosen is None:
        _nothing(dry_run=dry_run)
        return
    with FailoverService(settings, chosen) as service:
        if dry_run:
            effects = [e._asdict() for e in pending_fences.planned(service)]
            emit(effects, shown=[effects or _NOTHING])
            return
        agreed = pending_fences.due(service)
        if (question := _question(agreed, service.flow.source)) and not yes:
            ask(question, command=BY_COMMAND)
        done = pending_fences.apply_pending(service, agreed)
    if done is None:
        _nothing(dry_run=False)
        return
    next_ = "drkit divergence" if done.is_paid else f"{paid_with(service.flow.name)} --dry-run"
    told = {"paid": done.is_paid, **done.evidence, "notes": list(done.notes), "next": to_type(next_)}
    emit(told, shown=[_filled(told)])


def _nothing(*, dry_run: bool) -> None:
    emit([] if dry_run else {"paid": False, **_NOTHING}, shown=[_NOTHING])


def _question(agreed: DueFences, source: str) -> str:
    """Return what only a person can agree to, or "" if nothing of it is due."""
    said = []
    if gone := sorted(agreed.taken_away):
        said.append(f"The fence of {first_of(gone)} on {source} was lifted outside drkit")
    if open_ := sorted(agreed.off_record):
        said.append(f"The fence of {first_of(open_)} on {source} is no longer recorded")
    return f"{'. '.join(said)}: clients may write there. Refuse them again?" if said else ""


def _filled(told: Mapping[str, Any]) -> dict[str, Any]:
    inner = {name: _filled(value) if isinstance(value, Mapping) else value for name, value in told.items()}
    return {name: value for name, value in inner.items() if value not in ("", [], {})}


def lift(
    flow: str | None, topics: tuple[str, ...], accept_divergence: str, *, dry_run: bool, yes: bool
) -> None:
    """Run ``drkit fence lift``."""
    with _service(flow) as service:
        wanted = pending_fences.liftable(service, topics, accept_divergence)
        if dry_run or not wanted:
            emit({"would lift": wanted, "lifted": []})
            return
        if not yes:
            ask(f"Lift the fences of {', '.join(wanted)}?", command="drkit fence lift")
        emit({"lifted": pending_fences.lift(service, topics, accept_divergence)})


def _service(flow: str | None, *, owes: bool = False) -> FailoverService:
    """The service of a flow.

    :param owes: without a name, that of the only flow that owes a fence, or else waits for a return
    """
    settings = configuration().settings
    chosen = flow_that_owes(settings, flow) if owes else settings.one_flow(flow)
    service = FailoverService(settings, chosen)
    service.may_be_new = True  # the record on the source may be all that is left
    return service
