"""A few pairs of a journal entry and an event, walked on brokers by ``make soak``; its walks are longer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.failover.walk.pairs import EVENTS, Pair, every_pair, sampled
from tests.support.failover.walk.walker import Stages

SEED = 5
NUMBER = 3
PAIRS = sampled(SEED, NUMBER)


@pytest.fixture(scope="module")
def stages() -> Iterator[Stages]:
    with Stages() as made:
        yield made


@pytest.mark.soak
@pytest.mark.parametrize("pair", PAIRS, ids=lambda p: p.id)
def test_a_pair_ends_right_or_by_commands_that_were_printed(
    pair: Pair, stages: Stages, tmp_path: Path
) -> None:
    stages.walk(pair, tmp_path, SEED)


def test_a_walk_continues_after_the_pairs_that_are_finished() -> None:
    whole = sampled(SEED, 10_000)
    assert sorted(whole) == sorted(every_pair())
    finished = [p.id for p in whole[:30]]
    assert sampled(SEED, 20, finished) == whole[30:50]
    kinds = [(event, kind) for event, kinds in EVENTS.items() for kind in kinds]
    assert sorted((p.event, p.kind) for p in whole[: len(kinds)]) == sorted(kinds), "each once, then again"
