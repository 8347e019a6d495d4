"""``drkit drill``: run drills, now or when they are due, list them, and show or check their reports."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
import secrets
from typing import Any, Final

from drkit.cli.actions.failover import show_rehearsal
from drkit.cli.configuration import configuration
from drkit.cli.questions import ask
from drkit.cli.render import emit
from drkit.cli.screens.drill import due_line, entry_row, report_data, report_lines, step_line
from drkit.cli.screens.failover import show_proposal
from drkit.cli.session import session, to_type
from drkit.cli.signals import until_signalled
from drkit.cli.talk import say, show
from drkit.config import Loaded, Settings
from drkit.config.tables.drills import DrillKind, DrillSettings
from drkit.config.tables.fields import suggestion
from drkit.drill.entry import DrillEntry, ended_notice, not_run_notice
from drkit.drill.evidence import SWITCHOVER
from drkit.drill.history import DrillHistory, clean_up
from drkit.drill.plan import DrillPlan, new_drill_id, plan_drill, plan_kind
from drkit.drill.report import DrillReport, check_report, read_report, report_schema
from drkit.drill.report_page import render_page
from drkit.drill.run_drill import run_drill
from drkit.drill.schedule import DrillScheduler, kubernetes_cronjob, next_times, systemd_units
from drkit.drill.steps import DrillOptions
from drkit.drill.switchover import rehearse_switchover
from drkit.errors import ConfigError, DrkitError, Failed, Refused, Usage
from drkit.exercise.verdict import FAIL, PASS
from drkit.failover.proposal import Proposal
from drkit.watch.alerts import Teller

_RUN: Final = "drkit drill run"
_CODES: Final = {PASS: 0, FAIL: Failed.exit_code}
_SEND_SECONDS: Final = 10.0
"""How long the end of the process waits for notices that are not sent yet."""


def exit_code(verdict: str) -> int:
    """Return the exit code of a verdict."""
    return _CODES.get(verdict, Refused.exit_code)


def run(
    name: str | None,
    kind: DrillKind | None,
    flow: str | None,
    html: Path | None,
    report: Path | None,
    clients_cut: str | None,
    *,
    dry_run: bool,
    stay: bool,
    yes: bool,
) -> int:
    """Run ``drkit drill run``; return the exit code."""
    settings = configuration().settings
    plan = _plan(settings, name, kind, flow)
    if plan.kind == SWITCHOVER:
        stays = {"stay": True, "hold_minutes": 0.0} if stay else {}
        plan = plan.model_copy(update={"clients_cut": clients_cut or plan.clients_cut, **stays})
        if dry_run or not yes:
            _show_switchover(settings, plan, dry_run=dry_run)
        if dry_run:
            return 0
    elif dry_run or stay or clients_cut:
        option = "dry-run" if dry_run else "stay" if stay else "clients-cut"
        evidence = f"{plan.name} is a drill of kind {plan.kind}"
        raise Usage("option_of_switchover_drill", where=_RUN, evidence=evidence, option=option)
    _check_files(html, report)
    history = DrillHistory.of(settings)
    say(f"drill {plan.name}: {plan.kind} of {plan.flow}")
    with history.lock():
        options = DrillOptions(ended=lambda step: say(step_line(step)), stop=until_signalled())
        made = run_drill(settings, plan, history, options)
    if report is not None:
        report.write_text(made.to_json(), encoding="utf-8")
    path = history.report_path(plan.id)
    _show(made, report_data(made, path), path, html)
    return exit_code(made.verdict)


def history(name: str | None) -> None:
    """Run ``drkit drill history``."""
    known = DrillHistory.of(configuration().settings)
    entries = known.entries(name)
    for flow, reason in known.unread.items():
        say(f"{flow}: only the drills of this machine are shown, its target was not read: {reason}")
    if not entries:
        if name is not None:
            named = {entry.name: entry for entry in known.entries()}
            hint = suggestion(name, named) if named else "run one: drkit drill run --kind readiness"
            raise Usage("drill_never_ran", where="drkit drill history", hint=hint, name=name)
        say("no drill was run yet: drkit drill run --kind readiness")
    emit([entry_row(entry, as_json=session().as_json) for entry in entries])


def cleanup(flow: str | None) -> int:
    """Run ``drkit drill cleanup``; return the exit code."""
    settings = configuration().settings
    chosen = settings.one_flow(flow)
    history = DrillHistory.of(settings)
    with history.lock():
        cleaned = clean_up(settings, chosen, history)
    if not cleaned:
        say(f"no drill of {chosen.name} owes its cleanup")
    lines = [f"{i}: {'; '.join(problems) or 'nothing is left'}" for i, problems in cleaned.items()]
    emit([{"id": i, "left": problems} for i, problems in cleaned.items()], shown=lines)
    return Failed.exit_code if any(cleaned.values()) else 0


def report(drill_id: str | None, html: Path | None, check: Path | None, *, schema: bool) -> None:
    """Run ``drkit drill report``."""
    if schema:
        emit(report_schema(), as_json=True)
    elif check is not None:
        _check(check, drill_id)
    elif drill_id is None:
        raise Usage("drill_id_missing", where="drkit drill report")
    else:
        known = DrillHistory.of(configuration().settings)
        found = known.report_of(known.entry(drill_id))
        _show(found, found.model_dump(mode="json", by_alias=True), known.report_path(drill_id), html)


def schedule(scheduler: str | None, image: str, *, once: bool) -> int:
    """Run ``drkit drill schedule``; return the exit code."""
    loaded = configuration()
    settings = loaded.settings
    if not settings.drills:
        raise ConfigError("no_drill_configured", where=str(loaded.path))
    if scheduler is not None:
        _print(loaded, scheduler, image)
        return 0
    teller = Teller(settings.watch)
    try:
        return _run_due(settings, teller, once=once)
    finally:
        teller.close(_SEND_SECONDS)


def _show_switchover(settings: Settings, plan: DrillPlan, *, dry_run: bool) -> None:
    """Show what a switchover drill would do; ask unless it is a dry run."""
    if len(settings.flows) > 1:
        session().flow = plan.flow  # printed commands are of this flow, too
    rehearsal = rehearse_switchover(settings, plan)
    if dry_run:
        show_rehearsal(plan.flow, rehearsal)
    else:
        show_proposal(Proposal(plan.flow, rehearsal.chosen, rehearsal.survey, rehearsal.flow_back))
    target = settings.one_flow(plan.flow).target
    say(f"clients stay on {target}" if plan.stay else f"after {plan.hold_minutes:g} minutes: drkit failback")
    if not dry_run:
        ask("Move production?", command=_RUN)


def _plan(settings: Settings, name: str | None, kind: DrillKind | None, flow: str | None) -> DrillPlan:
    """Return the plan of the drill that the command line names."""
    drill_id = new_drill_id(secrets.token_hex(3))
    if name is not None and kind is None and flow is None:
        drills = {drill.name: drill for drill in settings.drills}
        if name not in drills:
            known = suggestion(name, drills) if drills else "the file has no [[drills]]"
            raise Usage("drill_unknown", where=_RUN, name=name, known=known)
        return plan_drill(settings, drills[name], drill_id)
    if name is None and kind is not None:
        return plan_kind(settings, kind, settings.one_flow(flow), drill_id)
    raise Usage("drill_name_and_kind", where=_RUN)


def _check(file: Path, drill_id: str | None) -> None:
    """Check a report in a file. Raises Failed if it was altered, or is not a report."""
    if not file.is_file():
        raise Usage("file_missing", where=str(file))
    text = file.read_bytes()
    found, problems = read_report(text), []
    if text != found.to_json().encode():
        problems.append("its text is not what drkit writes")
    before = None
    if drill_id is not None:
        known = DrillHistory.of(configuration().settings)
        entry, before = known.entry(drill_id), known.report_before(found)
        if found.id != drill_id:
            problems.append(f"it is the report of {found.id}")
        elif not known.report_path(drill_id).exists():
            say("the drill ran on another machine: it was compared with the history alone")
        elif found.hash() != known.report_of(entry).hash():
            problems.append("it differs from the report in the drill folder")
        if found.hash() != entry.hash:
            problems.append("its hash is not the one in the history")
        if found.previous and before is None:
            say("the report before it is on another machine: its hash was not compared")
    problems += check_report(found, before)
    if problems:
        raise Failed("report_altered", where=str(file), evidence="; ".join(problems))
    answer = {"id": found.id, "verdict": found.verdict, "check": "unaltered", "self": found.self_hash}
    emit(answer, shown=[f"unaltered: {found.id} {found.verdict}; hash {found.self_hash}"])


def _check_files(html: Path | None, report: Path | None) -> None:
    """Refuse files that could not be written at the end."""
    if html is not None and html == report:
        raise Usage("report_paths_equal", where=_RUN)
    for file in (html, report):
        if file is not None and not file.absolute().parent.is_dir():
            hint = "create its folder, or choose another file"
            raise Usage("report_folder_missing", where=str(file), hint=hint)


def _show(report: DrillReport, data: dict[str, Any], path: Path, html: Path | None) -> None:
    if html is not None:
        html.write_text(render_page(report), encoding="utf-8")
    emit(data, shown=map(to_type, report_lines(report, path, html)))


def _run_due(settings: Settings, teller: Teller, *, once: bool) -> int:
    history, stop, options = DrillHistory.of(settings), until_signalled(), session().given.options(flow=False)

    def run(plan: DrillPlan, due: datetime) -> str:
        report = run_drill(settings, plan, history, DrillOptions(due=due, stop=stop))
        say(f"{plan.name}: {report.verdict}, report {plan.id}")
        if report.verdict != PASS:
            teller.tell(ended_notice(plan, report.verdict, report.reasons, options))
        return report.verdict

    def tell(drill: DrillSettings, entry: DrillEntry | DrkitError) -> None:
        if isinstance(entry, DrkitError):
            say(f"{drill.name}: {entry.in_short}")
            return
        say(f"{drill.name}: {entry.verdict}")
        if notice := not_run_notice(entry, options):
            teller.tell(notice)

    drills = DrillScheduler(settings, history, run, tell=tell)
    if once:
        return max(map(exit_code, drills.run_due(stop)), default=0)
    for drill in settings.drills:
        say(due_line(drill, next_times(drill, drills.now(), 1)[0]))
    drills.run_until(stop)
    return 0


def _print(loaded: Loaded, scheduler: str, image: str) -> None:
    config = str(Path(loaded.path).absolute())
    files: dict[str, str] = {}
    for drill in loaded.settings.drills:
        if scheduler == "systemd":
            files |= systemd_units(drill, config)
        else:
            files[f"drkit-drill-{drill.name}.yaml"] = kubernetes_cronjob(drill, image)
    if scheduler == "systemd":
        text = "\n".join(f"# {name}\n{text}" for name, text in files.items())
    else:
        text = "---\n".join(files.values())
    emit(files, shown=())
    if not session().as_json:
        show(text.removesuffix("\n"))  # a terminal breaks no line of a file
