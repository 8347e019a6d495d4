"""Planned switchovers in a row under load: no record is lost, repeated or skipped; positions are exact."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.circles import in_soak
from tests.support.failback.pair import Pair
from tests.support.failback.rounds import Rounds, is_whole


@pytest.mark.soak
@pytest.mark.parametrize("turns", [1, in_soak(2)])
def test_there_and_back_under_load(pair: Pair, tmp_path: Path, turns: int) -> None:
    """With a load of which the brokers are not busy: six switchovers with one that is are a soak run."""
    is_whole(Rounds(pair, tmp_path, groups=8, tick=0.05).run(turns), turns)


@pytest.mark.soak
@pytest.mark.timeout(1500)
def test_six_switchovers_under_load(pair: Pair, tmp_path: Path) -> None:
    is_whole(Rounds(pair, tmp_path, groups=34).run(6), 6)
