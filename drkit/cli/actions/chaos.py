"""``drkit chaos``: list scenarios, run them, and say whether drkit held its promises."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from drkit.chaos.run import ScenarioRun, run_scenario
from drkit.chaos.scenario import Scenario, load_scenario, scenarios
from drkit.cli.render import emit
from drkit.cli.screens.chaos import (
    ScenarioProgress,
    coverage_lines,
    coverage_rows,
    result_lines,
    summary_line,
)
from drkit.cli.session import session
from drkit.cli.talk import say
from drkit.clock import wall_ms
from drkit.errors import Failed, Refused, Usage, error_text
from drkit.exercise.events import HISTORY
from drkit.local.file_lock import locked_alone
from drkit.local.java import find_java
from drkit.local.pair import default_folder

_CODES: Final = {"pass": 0, "inconclusive": Refused.exit_code, "fail": Failed.exit_code}
"""Exit code of each verdict, the best verdict first."""
_NAME: Final = 30
"""Columns of a scenario's name."""


def list_scenarios(*, coverage: bool) -> None:
    """Run ``drkit chaos list``."""
    known = scenarios()
    if session().as_json:
        emit([_row(each) for each in known] if not coverage else coverage_rows())
    else:
        emit(coverage_lines() if coverage else [f"{each.name:<{_NAME}}  {each.title}" for each in known])


def run(names: Sequence[str], seed: int, folder: Path | None, *, whole: bool) -> int:
    """Run ``drkit chaos run``; return the exit code."""
    as_json = session().as_json
    chosen = _chosen(names, whole=whole)
    histories = (folder or default_folder().parent / "chaos").absolute()
    results: list[ScenarioRun] = []
    with ExitStack() as alone:
        with _writable(histories):
            histories.mkdir(parents=True, exist_ok=True)
            # Two pairs at once would slow each other down.
            alone.enter_context(locked_alone(histories / ".lock", "chaos_run_under_way"))
        find_java()  # its absence is no verdict of a scenario
        for number, scenario in enumerate(chosen, 1):
            progress = ScenarioProgress(scenario, f"{number} of {len(chosen)}" if len(chosen) > 1 else "")
            own_folder = _new_folder(histories, scenario)
            try:
                with _writable(own_folder):
                    result = run_scenario(scenario, own_folder, seed, tell=progress)
            except KeyboardInterrupt:
                say(f"interrupted; nothing is left running; history: {own_folder / HISTORY}")
                raise
            results.append(result)
            if not as_json:
                emit(result_lines(result))
    if as_json:
        emit(results[0].as_dict() if len(chosen) == 1 else [r.as_dict() for r in results])
    elif len(results) > 1:
        emit(summary_line(results))
    worst = max((r.verdict.word for r in results), key=list(_CODES).index)
    return _CODES[worst]


@contextmanager
def _writable(folder: Path) -> Iterator[None]:
    """Refuse a folder in which nothing can be written; that is no verdict over drkit."""
    try:
        yield
    except OSError as error:
        raise Refused("chaos_folder_unwritable", where=str(folder), evidence=error_text(error)) from error


def _chosen(names: Sequence[str], *, whole: bool) -> list[Scenario]:
    if whole == bool(names):
        raise Usage("scenario_missing", where="drkit chaos run")
    return scenarios() if whole else [load_scenario(name) for name in names]


def _new_folder(histories: Path, scenario: Scenario) -> Path:
    now = datetime.fromtimestamp(wall_ms() / 1000, UTC).strftime("%Y%m%d-%H%M%S")
    return histories / f"{scenario.name}-{now}"


def _row(scenario: Scenario) -> dict[str, Any]:
    faults = [{"fault": fault, "step": step} for fault, step in scenario.exercises]
    page = scenario.runbook
    return {"scenario": scenario.name, "title": scenario.title, "faults": faults, "page": page}
