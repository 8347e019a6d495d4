"""Planned switchovers in a row under load: nothing is lost, repeated or skipped, and each place is exact."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.failback.pair import Pair
from tests.support.failback.rounds import Rounds, is_whole


def test_there_and_back_under_load(pair: Pair, tmp_path: Path) -> None:
    """With a load of which the brokers are not busy: six switchovers with one that is are a soak run."""
    is_whole(Rounds(pair, tmp_path, groups=8, tick=0.05).run(2))


@pytest.mark.soak
@pytest.mark.timeout(1500)
def test_six_switchovers_under_load(pair: Pair, tmp_path: Path) -> None:
    is_whole(Rounds(pair, tmp_path, groups=34).run(6))
