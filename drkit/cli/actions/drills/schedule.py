"""``drkit drill schedule``: run drills when they are due, or print timers for another scheduler."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Final

from drkit.chaos.verdict import PASS
from drkit.cli.actions.drills.drill import exit_code
from drkit.cli.configuration import configuration
from drkit.cli.render import emit
from drkit.cli.screens.drill import due_line
from drkit.cli.session import session
from drkit.cli.signals import until_signalled
from drkit.cli.talk import say
from drkit.config import Loaded, Settings
from drkit.config.tables.drills import DrillSettings
from drkit.drill.entry import DrillEntry, ended_notice, not_run_notice
from drkit.drill.history import DrillHistory
from drkit.drill.plan import DrillPlan
from drkit.drill.run_drill import run_drill
from drkit.drill.schedule import DrillScheduler, kubernetes_cronjob, next_times, systemd_units
from drkit.drill.steps import DrillOptions
from drkit.errors import ConfigError, DrkitError
from drkit.watch.tell import Teller

_SEND_SECONDS: Final = 10.0
"""How long the end of the process waits for notices that are not sent yet."""


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
    """Print the files of another scheduler."""
    config = str(Path(loaded.path).absolute())
    files: dict[str, str] = {}
    for drill in loaded.settings.drills:
        if scheduler == "systemd":
            files |= systemd_units(drill, config)
        else:
            files[f"drkit-drill-{drill.name}.yaml"] = kubernetes_cronjob(drill, image)
    if session().as_json:
        emit(files)
    elif scheduler == "systemd":
        emit("\n".join(f"# {name}\n{text}" for name, text in files.items()))
    else:
        emit("---\n".join(files.values()))
