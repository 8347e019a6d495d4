"""Scenes between the two brokers that all pages share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from drkit.journal import journal
from drkit.local.cluster import LocalCluster
from tests.support.runbooks.scene import Scene


@pytest.fixture(autouse=True)
def _its_process_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that began a run is the test's own, which lives: here it counts as ended."""
    monkeypatch.setattr(journal, "lives_here", lambda _: False)


@pytest.fixture
def scene(
    source: LocalCluster, target: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Scene]:
    """A scene for one page."""
    made = Scene(source, target, tmp_path, monkeypatch)
    yield made
    made.close()
