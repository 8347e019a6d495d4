"""``drkit failover``: move topics and their groups to the standby, or go on with it, or take it back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from drkit.cli.configuration import configuration
from drkit.cli.failover_view import notes_of, rows_of, show_progress, show_proposal, shown
from drkit.cli.render import emit
from drkit.cli.session import session, to_type
from drkit.config import Settings
from drkit.errors import ConfigError, DrkitError
from drkit.failover.context import Request
from drkit.failover.desk import Confirm, Desk, Proposal, Rehearsal
from drkit.failover.journal import NoRun
from drkit.failover.journal_file import folder_of
from drkit.failover.journal_lost import explained

_PLACE = "drkit failover"


def failover(
    flow: str | None,
    groups: tuple[str, ...],
    topics: tuple[str, ...],
    accept_data_loss: str,
    despite_signs_of_life: str,
    without_quorum: str,
    leave_behind: tuple[str, ...],
    *,
    whole: bool,
    planned: bool,
    dry_run: bool,
    resume: bool,
    abort: bool,
    take_over: bool,
    yes: bool,
    evict_members: bool,
    keep_positions: bool,
    repoint_others: bool,
) -> None:
    """Run ``drkit failover``."""
    _one_of(**{"group or --topic": bool(groups or topics)}, all=whole, resume=resume, abort=abort)
    settings = configuration().settings
    request = Request(
        planned=planned, accept_data_loss=accept_data_loss, evict_members=evict_members,
        keep_positions=keep_positions, leave_behind=leave_behind, repoint_others=repoint_others,
        despite_signs_of_life=despite_signs_of_life, without_quorum=without_quorum,
    )  # fmt: skip
    chosen = settings.one_flow(flow)
    with Desk(settings, chosen, show_progress) as desk:
        if dry_run:
            _rehearse(chosen.name, desk.rehearse(groups, request, topics))
        elif resume:
            _told(desk, lambda: _found(settings, flow, lambda: desk.resume(request, take_over=take_over)))
        elif abort:
            _told(
                desk,
                lambda: _found(
                    settings, flow, lambda: desk.abort("asked for by --abort", take_over=take_over)
                ),
            )
        else:
            _told(desk, lambda: desk.begin(groups, request, _asking(yes=yes), topics=topics))


def _one_of(**said: bool) -> None:
    if sum(said.values()) != 1:
        raise ConfigError(
            "say what is to be done, and one thing only",
            where=_PLACE,
            evidence=", ".join(f"--{name}" for name, given in said.items() if given) or "nothing was named",
            hint="drkit failover --group G, or --topic T, or --all, or --resume, or --abort",
        )


def _found(settings: Settings, flow: str | None, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Where the target's journal has no run, say what this machine's files know of one."""
    try:
        return work()
    except NoRun as error:
        files = folder_of(settings.failover.journal_folder)
        raise explained(error, files, settings.one_flow(flow).name) from error


def _told(desk: Desk, work: Callable[[], dict[str, Any]]) -> None:
    """Print the report also of a run that was held."""
    try:
        report = work()
    except DrkitError:
        if (so_far := desk.report()) is not None:
            _print(so_far)
        raise
    _print(report)


def _print(report: dict[str, Any]) -> None:
    report = report | {"next": [to_type(line) for line in report["next"]]}
    emit(report if session().as_json else shown(report))


def _rehearse(flow: str, found: Rehearsal) -> None:
    proposal = Proposal(flow, found.chosen, found.survey)
    rows = rows_of(found)
    refused = [
        error.as_dict() | {"gate": gate, "hint": to_type(error.hint)} for gate, error in found.refusals
    ]
    show_proposal(proposal)
    notes = notes_of(proposal)
    emit({"steps": rows, "refused": refused, "notes": notes} if session().as_json else rows)
    for _, error in found.refusals:
        raise error


def _asking(*, yes: bool) -> Confirm:
    def ask(proposal: Proposal) -> None:
        show_proposal(proposal)
        if not yes and not click.confirm("Fail over?", default=False, err=True):
            raise ConfigError(
                "nobody agreed, so nothing was begun",
                where=_PLACE,
                hint="answer y, or add --yes",
            )

    return ask
