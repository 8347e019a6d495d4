"""``drkit failover``: move topics and their groups to the standby, resume the move, or roll it back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NoReturn

from drkit.cli.configuration import configuration
from drkit.cli.questions import ask
from drkit.cli.render import emit
from drkit.cli.screens.failover import Progressing, notes_of, rows_of, show_proposal, shown, verdict_of
from drkit.cli.session import to_type
from drkit.cli.signals import stopping_run
from drkit.cli.talk import say
from drkit.config import FlowSettings, Settings
from drkit.errors import ClusterUnreachable, DrkitError, Usage
from drkit.failover.core.request import RunRequest
from drkit.failover.proposal import Confirm, Proposal, Rehearsal
from drkit.failover.service import FailoverService
from drkit.failover.source_abort import abort_at_source
from drkit.journal.file import folder_of
from drkit.journal.journal import NoRun
from drkit.journal.lost import explained

_PLACE = "drkit failover"


@contextmanager
def connected(
    settings: Settings, flow: FlowSettings, target_lost: str, *, aborts: bool, yes: bool, begins: bool = False
) -> Iterator[FailoverService | None]:
    """Yield the service of a flow, or None if the target does not answer and the source did the abort.

    :param target_lost: how a person knows that the target is lost
    :param aborts: whether the command is an abort
    :param begins: whether it is to begin a failover, or to rehearse one
    :raises Usage: `target_lost` is given, and the target answers
    :raises DrkitError: the target does not answer, or the abort at the source was refused
    """
    with ExitStack() as stack:
        service = FailoverService(settings, flow, Progressing())
        service.may_be_new = begins
        try:
            stack.enter_context(service)
        except ClusterUnreachable as error:
            if not aborts:
                raise
            _at_source(settings, flow, error, target_lost, yes=yes)
            yield None
            return
        if target_lost:
            evidence = f"--target-lost {target_lost}"
            raise Usage("target_answers", where=_PLACE, evidence=evidence, target=flow.target)
        yield service


def _at_source(
    settings: Settings, flow: FlowSettings, error: DrkitError, target_lost: str, *, yes: bool
) -> None:
    """Abort by the record on the source, and print the report."""

    def confirm(known: str) -> None:
        say(known)
        if not yes:
            ask(f"Lift the fence of {flow.source}?", command=f"{_PLACE} --abort")

    report = abort_at_source(settings, flow, error, statement=target_lost, confirm=confirm)
    report = report | {"next": [to_type(line) for line in report["next"]]}
    emit(report, shown=[{k: v for k, v in report.items() if v}])


_ASKED = "asked for by --abort"


def failover(
    flow: str | None,
    groups: tuple[str, ...],
    topics: tuple[str, ...],
    target_lost: str,
    *,
    whole: bool,
    dry_run: bool,
    resume: bool,
    abort: bool,
    take_over: bool,
    yes: bool,
    quiet: bool,
    verbose: bool,
    **more: Any,
) -> None:
    """Run ``drkit failover``.

    :param more: the options that are fields of :class:`RunRequest`
    """
    request = RunRequest(**more | {"acls_only_home": more["acls_only_home"] or ""})
    _check(request, quiet=quiet, dry_run=dry_run)
    if target_lost and not abort:
        raise Usage("target_lost_without_abort", where=_PLACE)
    _one_of(**{"group or --topic": bool(groups or topics)}, all=whole, resume=resume, abort=abort)
    settings = configuration().settings
    chosen = settings.one_flow(flow)
    aborts, begins = abort and not dry_run, not (resume or abort)
    with connected(settings, chosen, target_lost, aborts=aborts, yes=yes, begins=begins) as service:
        if service is not None and dry_run:
            show_rehearsal(chosen.name, service.rehearse(groups, request, topics), quiet=quiet)
        elif service is not None:

            def work() -> dict[str, Any]:
                again = partial(service.resume, request) if resume else partial(service.abort, _ASKED)
                if resume or abort:
                    return _found(settings, flow, partial(again, take_over=take_over))
                return service.begin(groups, request, asking(yes=yes), topics=topics)

            reported(service, work, verbose=verbose)


def _check(request: RunRequest, *, quiet: bool, dry_run: bool) -> None:
    if quiet and not dry_run:
        raise Usage("quiet_without_dry_run", where=_PLACE)
    if request.acls_only_home and not request.planned:
        raise Usage("acls_only_home_without_planned", where=_PLACE)
    if request.clients_cut and not request.planned:
        raise Usage("clients_cut_without_planned", where=_PLACE)


def _one_of(**options: bool) -> None:
    if sum(options.values()) != 1:
        evidence = ", ".join(f"--{name}" for name, given in options.items() if given) or "nothing was named"
        raise Usage("failover_scope_missing", where=_PLACE, evidence=evidence)


def _found(settings: Settings, flow: str | None, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Report the run in this machine's files when the target's journal has none."""
    try:
        return work()
    except NoRun as error:
        files = folder_of(settings.failover.journal_folder)
        raise explained(error, files, settings.one_flow(flow).name) from error


def reported(service: FailoverService, work: Callable[[], dict[str, Any]], *, verbose: bool) -> None:
    """Print the report, also of a run that was held."""
    service.stopping = stopping_run
    try:
        report = work()
    except DrkitError:
        if (so_far := service.report()) is not None:
            _print(so_far, verbose=verbose)
        raise
    _print(report, verbose=verbose)


def _print(report: dict[str, Any], *, verbose: bool) -> None:
    report = report | {"next": [to_type(line) for line in report["next"]]}
    emit(report, shown=shown(report, verbose=verbose))


def _say_verdict(found: Rehearsal) -> NoReturn:
    """Print a dry run in one line and exit with the code that the failover would have."""
    verdict = verdict_of(found)
    refused = [gate for gate, _ in found.refusals]
    emit({"verdict": verdict, "refused": refused}, shown=[verdict])
    raise SystemExit(found.refusals[0][1].exit_code if found.refusals else 0)


def show_rehearsal(flow: str, found: Rehearsal, *, quiet: bool = False) -> None:
    """Print a dry run.

    :param quiet: the verdict alone, in one line
    :raises Refused: the failover would be refused
    """
    if quiet:
        _say_verdict(found)
    proposal = Proposal(flow, found.chosen, found.survey, found.flow_back)
    rows = rows_of(found.lines)
    refused = [
        error.as_dict() | {"gate": gate, "hint": to_type(error.hint)} for gate, error in found.refusals
    ]
    show_proposal(proposal)
    notes = notes_of(proposal)
    verdict = verdict_of(found)
    answer: dict[str, Any] = {"verdict": verdict, "steps": rows, "refused": refused, "notes": notes}
    answer["flow_back"] = found.flow_back
    emit(answer, shown=[rows, verdict])
    for _, error in found.refusals:
        raise error


def asking(*, yes: bool, place: str = _PLACE) -> Confirm:
    """What shows a failover, and asks unless `yes` was said.

    :param place: the command, for errors
    """

    def confirm(proposal: Proposal) -> None:
        show_proposal(proposal)
        if not yes:
            ask("Fail over?", command=place)

    return confirm
