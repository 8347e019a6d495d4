"""Primaries that die under load with records of their own and come home, three times in a row.

In `make test` one round is walked without a load, by
``tests/cluster/failback/tails/test_tail.py::test_what_was_decided_is_done``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.failback.pair import Pair
from tests.support.failback.unplanned import UnplannedRounds
from tests.support.shared_clusters import ModuleClusters

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]
ROUNDS = [
    {"orders": "replay", "tx": "replay", "keys": "replay", "old": "replay"},
    {"orders": "discard", "tx": "quarantine", "keys": "discard", "old": "replay"},
    {"orders": "replay", "tx": "replay", "keys": "quarantine", "old": "discard"},
]


@pytest.fixture
def pair(module_cluster: ModuleClusters, tmp_path: Path) -> Iterator[Pair]:
    found = Pair(module_cluster("primary"), module_cluster("standby"), tmp_path / "journal")
    yield found
    found.close()


def test_three_unplanned_failovers_and_returns_under_load(pair: Pair, tmp_path: Path) -> None:
    """Every record of each tail, every record and offset of both logs, every position."""
    found = UnplannedRounds(pair, tmp_path, tick=0.05).run(ROUNDS, loaded=1)
    for counts in found:
        assert counts.tail > 200
        assert counts.offsets > 1000
        assert counts.places > 0
    assert found[0].again > 0, "the reader had processed some of the tail"
