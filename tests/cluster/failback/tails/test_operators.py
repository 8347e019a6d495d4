"""People change the new primary and the configuration between a failover and the return."""

from __future__ import annotations

from pathlib import Path
import random

import pytest

from tests.support.circles import in_soak
from tests.support.failback.operators import BLOCKS, DEATHS, Operators
from tests.support.failback.pair import Pair
from tests.support.failback.tail import Case, DeadPrimary
from tests.support.shared_clusters import ModuleClusters

DISPOSITIONS = ("discard", "replay", "quarantine")


@pytest.mark.wide
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [1, *map(in_soak, range(2, 13))])
def test_a_return_while_people_change_things(
    module_cluster: ModuleClusters, tmp_path: Path, seed: int
) -> None:
    """Each refusal says what clears it, and nothing is lost, doubled or misplaced in the end."""
    chance = random.Random(seed)
    primary = module_cluster("primary")
    cases = {f"t{n}": Case(chance.choice(DISPOSITIONS), tail=chance.choice((0, 12, 24)) or 6)
             for n in range(5)}  # fmt: skip
    # Each seed has its own aliases for the same clusters: heartbeats of all would be copied by all.
    pair = Pair(primary, module_cluster("standby"), tmp_path / "journal", heartbeats_replication=False)
    home = DeadPrimary(pair, primary, cases)
    try:
        home.fall()
        people = Operators(home, tmp_path / "saved", chance)
        done = people.meddle(chance.randint(2, 5))
        home.rise()
        death = chance.choice(("", *DEATHS))
        people.come_home(death)
        people.checked()
        blocked = {BLOCKS[name] for name in done if name in BLOCKS}
        assert all(any(words in what for what in people.seen) for words in blocked), (done, people.seen)
    finally:
        home.close()
