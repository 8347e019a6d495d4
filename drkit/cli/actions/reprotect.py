"""``drkit reprotect``: make the old primary the standby of the new one, resume that, or roll it back."""

from __future__ import annotations

from typing import Any, Final

from drkit.cli.actions.failover import reported
from drkit.cli.configuration import configuration
from drkit.cli.questions import ask
from drkit.cli.render import emit
from drkit.cli.screens.failover import Progressing, rows_of
from drkit.cli.screens.reprotect import show_return, verdict_of_return
from drkit.cli.session import session
from drkit.config import FlowSettings, Settings
from drkit.errors import ConfigError, Usage
from drkit.failover.core.machine import RETURN
from drkit.failover.core.request import RunRequest
from drkit.failover.core.reverse import state_of
from drkit.failover.journal.file import folder_of
from drkit.failover.journal.journal import NoRun
from drkit.failover.journal.lost import explained
from drkit.failover.proposal import ConfirmReturn, ReturnProposal
from drkit.failover.returning.waiting import pairs_of_flows, waiting
from drkit.failover.service import FailoverService

_PLACE: Final = RETURN.command


def reprotect(
    flow: str | None,
    clients_cut: str,
    *,
    dry_run: bool,
    resume: bool,
    abort: bool,
    take_over: bool,
    yes: bool,
    verbose: bool,
) -> None:
    """Run ``drkit reprotect``."""
    _check(clients_cut, dry_run=dry_run, resume=resume, abort=abort, take_over=take_over)
    settings = configuration().settings
    chosen = _chosen(settings, flow, is_under_way=resume or abort)
    if len(settings.flows) > 1:
        session().flow = chosen.name  # printed commands are of this flow, too
    request = RunRequest(clients_cut=clients_cut)
    with FailoverService(settings, chosen, Progressing()) as service:
        if dry_run:
            _rehearse(service.rehearse_return(request))
            return

        def work() -> dict[str, Any]:
            if not (resume or abort):
                return service.begin_return(request, _asking(yes=yes))
            _refuse_failover(service)
            try:
                if resume:
                    return service.resume(request, take_over=take_over)
                return service.abort("asked for by --abort", take_over=take_over)
            except NoRun as error:
                error.what = f"there is no return to {'resume' if resume else 'abort'}"
                error.hint = "begin one: drkit reprotect"
                raise explained(error, folder_of(settings.failover.journal_folder), chosen.name) from error

        reported(service, work, verbose=verbose)


def _check(clients_cut: str, **said: bool) -> None:
    """Refuse options that contradict each other.

    :raises Usage: some do
    """
    again = [f"--{name}" for name in ("resume", "abort") if said[name]]
    wrong = ""
    if len(again) > 1:
        wrong = "--resume and --abort exclude each other"
    elif said["dry_run"] and again:
        wrong = f"--dry-run shows a return that would begin, not {again[0]}"
    elif said["take_over"] and not again:
        wrong = "--take-over is for --resume or --abort"
    elif clients_cut and said["abort"]:
        wrong = "--clients-cut is not for --abort"
    if wrong:
        raise Usage(wrong, where=_PLACE, hint=f"{_PLACE} --help")


def _chosen(settings: Settings, name: str | None, *, is_under_way: bool) -> FlowSettings:
    """The flow of that name; without one, the only flow that waits for a return, or of whose one is open.

    :raises ConfigError: no flow has that name, or it is not clear which is meant
    :raises DrkitError: a cluster does not answer
    """
    if name is not None or len(settings.flows) == 1:
        return settings.one_flow(name)
    looked = _is_open if is_under_way else _waits
    found = [there for there, back in pairs_of_flows(settings) if looked(settings, there, back)]
    if len(found) == 1:
        return found[0]
    if not found:
        what = "no return of them is under way" if is_under_way else "no topic of them waits for a return"
        return settings.one_flow(None, f"{what}, which one do you mean?")
    why = "have a return under way" if is_under_way else "wait for a return"
    raise ConfigError(
        f"{len(found)} flows {why}: which one?",
        where="--flow",
        hint=", ".join(f"--flow '{f.name}'" for f in found),
    )


def _waits(settings: Settings, there: FlowSettings, back: FlowSettings) -> bool:
    return bool(waiting(settings, there, back))


def _is_open(settings: Settings, there: FlowSettings, _back: FlowSettings) -> bool:
    with state_of(settings, there) as state:
        if state is None:
            return False
    with FailoverService(settings, there) as service:
        return service.under_way is not None and service.under_way.table is RETURN


def _refuse_failover(service: FailoverService) -> None:
    """Refuse to continue a failover under the name of a return.

    :raises Usage: a failover is under way
    """
    run = service.under_way
    if run is not None and run.table is not RETURN:
        raise Usage(
            "a failover is under way, not a return",
            where=_PLACE,
            evidence=f"run {run.run_id}: {run.state}",
            hint=f"{run.table.command} --resume" + (f", or {run.table.command} --abort" * run.abortable),
        )


def _rehearse(found: ReturnProposal) -> None:
    show_return(found)
    rows, verdict = rows_of(found.lines), verdict_of_return(found)
    if session().as_json:
        emit({"verdict": verdict, "steps": rows, "topics": dict(found.topics)})
        return
    emit(rows)
    emit(verdict)


def _asking(*, yes: bool) -> ConfirmReturn:
    def confirm(proposal: ReturnProposal) -> None:
        show_return(proposal)
        if not yes:
            ask(f"Make {proposal.old_primary} the standby?", command=_PLACE)

    return confirm
