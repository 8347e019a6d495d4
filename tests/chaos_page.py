"""The page of chaos scenarios, made from the results of their last runs.

``python -m tests.chaos_page FOLDER ...`` takes the newest result of each scenario, and each mutant that was
caught, below these folders into ``docs/chaos.json`` and writes ``docs/reference/chaos.md``; without a folder
it writes only the page.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
import json
from pathlib import Path
import sys
from typing import Any, Final

from drkit.chaos.run import RESULT
from drkit.chaos.scenario import Scenario, scenarios
from drkit.detect.verdict import VerdictKind
from drkit.exercise.verdict import DETECTION
from drkit.journal.machine import TABLES
from tests.support.chaos.mutant_rows import PATTERN

ROOT: Final = Path(__file__).parent.parent
RESULTS: Final = ROOT / "docs" / "chaos.json"
PAGE: Final = ROOT / "docs" / "reference" / "chaos.md"
_CIRCLES: Final = {"test": "`make test`", "wide": "`make test-wide`", "soak": "`make soak`"}
_HEADER: Final = """\
# Chaos scenarios

<!-- Generated: `python -m tests.chaos_page`, from the results of runs. A test keeps this page current. -->

For whoever wants to see what drkit does when something breaks, before trusting it. `drkit chaos run
NAME` starts two clusters on this machine, puts clients to work, breaks something at a named step, types
the commands of an operator, and judges by what the clients recorded. It needs no configuration, and
never touches other clusters, but two packages: `pip install 'chaostoolkit-lib>=1.44,<1.45' 'pyyaml>=6,<7'`.
[How to write a scenario](../../chaos/README.md).

A verdict is `pass`, `fail` or `inconclusive`. What was not exercised, or could not be read to its end,
is `inconclusive`.

## Scenarios
"""
_COVERAGE: Final = """\
## Coverage

Each ● was observed: in the last run of a scenario the journal shows the step under way while the fault
was in force, and the scenario passed.
"""
_DETECTION: Final = """\
### Detection

A ● means that this verdict of an observer stood while the fault was in force.
"""
_MUTANTS: Final = """\
## Mutants

Each scenario is shown to fail. A mutant is a build of drkit that is broken in the way its scenario guards
against. The scenario must end with `fail` by the named check (or drkit itself must refuse, where the table
has that), and the fault must have been in force. `blind_check` is judged in runs of a model: there
one check at a time sees nothing.
"""


def circle_of(scenario: Scenario) -> str:
    """Return the test run that includes a scenario: test, wide or soak."""
    [extension] = (each for each in scenario.experiment["extensions"] if each["name"] == "drkit")
    return str(extension["circle"])


def results() -> dict[str, Any]:
    """Return the results of the last runs: `scenarios` and `mutants`, each by name."""
    found: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


def kept(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the page needs of a result: no paths, no reasons."""
    checks = {c["check"]: c["examined"] for c in result["checks"] if c["examined"]}
    names = ("seed", "verdict", "seconds", "covered")
    return {name: result[name] for name in names} | {"examined": checks}


def collected(folders: Iterable[Path]) -> dict[str, Any]:
    """Return the newest result of each scenario below some folders."""
    files = sorted((f for folder in folders for f in folder.rglob(RESULT)), key=lambda f: f.stat().st_mtime)
    found = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    return {result["scenario"]: kept(result) for result in found}


def caught(folders: Iterable[Path]) -> dict[str, Any]:
    """Return the rows of the mutants that were caught, of the files below some folders."""
    rows = [json.loads(f.read_text(encoding="utf-8")) for folder in folders for f in folder.rglob(PATTERN)]
    return {row.pop("mutant"): row for row in rows}


def covered(known: Mapping[str, Any]) -> dict[tuple[str, str, str], list[str]]:
    """Return fault, table and step → the scenarios that passed with that fault in force there."""
    cells: dict[tuple[str, str, str], list[str]] = {}
    for name, result in sorted(known.items()):
        if result["verdict"] == "pass":
            for fault, table, step in result["covered"]:
                cells.setdefault((fault, table, step), []).append(name)
    return cells


def page() -> str:
    """Return the whole page."""
    known, found = scenarios(), results()
    cells = covered(found["scenarios"])
    lines = [_HEADER, *_table(("scenario", "what happens", "page", "runs in"), map(_row, known)), _COVERAGE]
    for name, table in TABLES.items():
        lines += [f"### Steps of a {name}", "", *_cells(cells, name, [step.value for step in table.order])]
    verdicts = [kind.name for kind in VerdictKind if kind is not VerdictKind.DEGRADED]
    lines += [_DETECTION, *_cells(cells, DETECTION, verdicts), _MUTANTS]
    mutants = sorted(found["mutants"].items())
    lines += _table(
        ("mutant", "what is broken", "scenario", "caught by"),
        [(f"`{name}`", m["broken"], m["scenario"], m["caught_by"]) for name, m in mutants],
    )
    return "\n".join(lines).rstrip() + "\n"


def _cells(cells: Collection[tuple[str, str, str]], table: str, steps: Sequence[str]) -> list[str]:
    """Return a table: a row for each fault, a column for each step."""
    faults = sorted({fault for fault, of, _ in cells if of == table})
    rows = [(fault, *("●" if (fault, table, step) in cells else "" for step in steps)) for fault in faults]
    return _table((table, *steps), rows)


def _row(scenario: Scenario) -> tuple[str, ...]:
    runbook = f"[{scenario.runbook}](../../runbooks/{scenario.runbook}.md)"
    return f"`{scenario.name}`", scenario.title, runbook, _CIRCLES[circle_of(scenario)]


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    return [*("| " + " | ".join(line) + " |" for line in (head, ("---",) * len(head), *rows)), ""]


def main(folders: list[Path]) -> None:
    """Take results, and write the page."""
    if folders:
        found = results() if RESULTS.exists() else {"scenarios": {}, "mutants": {}}
        found["scenarios"] |= collected(folders)
        found["mutants"] |= caught(folders)
        text = json.dumps(found, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        RESULTS.write_text(text.replace('},"', '},\n"') + "\n", encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
