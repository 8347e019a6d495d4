"""Planned switchovers in a row under load: nothing is lost, repeated or skipped, and each place is exact."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.failback.pair import Pair
from tests.support.failback.rounds import Rounds


def _is_whole(found: dict[str, int]) -> None:
    assert {k: found[k] for k in ("lost", "repeated", "skipped", "read twice")} == dict.fromkeys(
        ("lost", "repeated", "skipped", "read twice"), 0
    ), found
    assert found["acknowledged"] > 500
    assert found["places"] > 2000


def test_there_and_back_under_load(pair: Pair, tmp_path: Path) -> None:
    _is_whole(Rounds(pair, tmp_path, groups=8).run(2))


@pytest.mark.soak
@pytest.mark.timeout(1500)
def test_six_switchovers_under_load(pair: Pair, tmp_path: Path) -> None:
    _is_whole(Rounds(pair, tmp_path, groups=34).run(6))
