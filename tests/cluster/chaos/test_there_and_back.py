"""Clients move there and back: see `test_scenarios.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.chaos.passing import THERE_AND_BACK, assert_passes


@pytest.mark.timeout(600)
def test_clients_move_there_and_back(tmp_path: Path):
    assert_passes(THERE_AND_BACK, tmp_path)
