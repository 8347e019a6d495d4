"""The longest files begin first: with several processes the last ones end together. A part of conftest.py.

``--record-durations`` writes what each file takes into ``tests/durations.json``; that file gives the order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
import json
from pathlib import Path
from typing import Final

import pytest

DURATIONS: Final = Path(__file__).parents[1] / "durations.json"
UNKNOWN_SECONDS: Final = 10.0
"""For a file that was never recorded: after the long ones, before those that take a moment."""
_LEAST_SECONDS: Final = 1.0
"""Files that take less are not kept: for the order they are all alike."""


class Recorder:
    """Adds up what the tests of each file take, with their fixtures, wherever they run."""

    def __init__(self, root: Path, file: Path) -> None:
        self._root, self._file = root, file
        self._seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid.partition("::")[0]] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write the file; those of earlier runs stay, unless their tests are no more."""
        kept = {name: s for name, s in read(self._file).items() if (self._root / name).exists()}
        found = {**kept, **{name: round(s, 1) for name, s in self._seconds.items()}}
        longest = sorted(found.items(), key=lambda item: (-item[1], item[0]))
        text = json.dumps({name: s for name, s in longest if s >= _LEAST_SECONDS}, indent=0)
        self._file.write_text(text + "\n", encoding="utf-8")


def read(file: Path) -> dict[str, float]:
    """Seconds by the path of a test file, from the folder of the project; empty without a recording."""
    return dict(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else {}


def seconds_of(name: str, recorded: Mapping[str, float]) -> float:
    """What a file takes; of one that is not recorded a guess, which is nothing for unit tests."""
    return recorded.get(name, 0.0 if name.startswith("tests/unit/") else UNKNOWN_SECONDS)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("order")
    group.addoption("--record-durations", action="store_true", help="write what each file of this run takes")
    group.addoption("--durations-file", type=Path, default=DURATIONS, help="where the recording is")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("record_durations") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(config.rootpath, config.getoption("durations_file")))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Longest file first. For that, pytest-xdist must keep this order: ``--no-loadscope-reorder``."""
    recorded = read(config.getoption("durations_file"))
    items.sort(key=lambda item: -seconds_of(item.nodeid.partition("::")[0], recorded))
