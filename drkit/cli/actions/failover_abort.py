"""``drkit failover --abort`` while the target does not answer: by the record on the source."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from drkit.cli.questions import ask
from drkit.cli.render import emit
from drkit.cli.screens.failover import Progressing
from drkit.cli.session import session, to_type
from drkit.cli.talk import say
from drkit.config import FlowSettings, Settings
from drkit.errors import ClusterUnreachable, DrkitError, Usage
from drkit.failover.service import FailoverService
from drkit.failover.source_abort import SourceAbortPlan, abort_at_source

_PLACE = "drkit failover"


@contextmanager
def connected(
    settings: Settings, flow: FlowSettings, target_lost: str, *, aborts: bool, yes: bool
) -> Iterator[FailoverService | None]:
    """With the service of a flow; None: the target does not answer, and the abort was done at the source.

    :param target_lost: how a person knows that the target is lost
    :param aborts: whether the command is an abort
    :raises Usage: the target answers, and is said to be lost
    :raises DrkitError: the target does not answer, or the abort at the source was refused
    """
    with ExitStack() as stack:
        service = FailoverService(settings, flow, Progressing())
        try:
            stack.enter_context(service)
        except ClusterUnreachable as error:
            if not aborts:
                raise
            _at_source(settings, flow, error, target_lost, yes=yes)
            yield None
            return
        _refuse_answering(target_lost, flow)
        yield service


def _at_source(
    settings: Settings, flow: FlowSettings, error: DrkitError, target_lost: str, *, yes: bool
) -> None:
    """Abort by the record on the source, and print the report."""

    def confirm(plan: SourceAbortPlan) -> None:
        say(plan.in_words())
        if not yes:
            ask(f"Lift the fence of {plan.source}?", command=f"{_PLACE} --abort")

    report = abort_at_source(settings, flow, error, statement=target_lost, confirm=confirm)
    report = report | {"next": [to_type(line) for line in report["next"]]}
    if session().as_json:
        emit(report)
        return
    emit({k: v for k, v in report.items() if v})


def check_lost(target_lost: str, *, abort: bool) -> None:
    """Refuse a statement that the target is lost where it decides nothing. Raises Usage."""
    if target_lost and not abort:
        raise Usage("target_lost_without_abort", where=_PLACE)


def _refuse_answering(target_lost: str, flow: FlowSettings) -> None:
    if target_lost:
        raise Usage(
            "target_answers", where=_PLACE, evidence=f"--target-lost {target_lost}", target=flow.target
        )
