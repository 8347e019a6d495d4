"""What happens to a copy, step by step, from a seed. Pure: the same seed gives the same steps."""

from __future__ import annotations

from collections.abc import Collection, Mapping
import random
from typing import NamedTuple

KILLS: Mapping[str, int] = {
    "kill": 1,
    "kill slow": 1,
    "kill after a claim": 1,
    "kill, gap, kill": 2,
    "twice": 2,
    "takeover": 1,
    "takeover with a gap": 1,
    "gap": 0,
    "brokers": 0,
    "recreated": 0,
    "check": 0,
}
"""How many copy processes die by SIGKILL in a step."""
ELECTIONS: Mapping[str, int] = {
    "kill": 1,
    "unclean": 0,
    "unclean, killed before": 1,
    "unclean, killed after": 1,
    "unclean, killed after a claim": 1,
    "check": 0,
}
"""The same where one cluster has three brokers and elects unclean leaders."""
_WEIGHTS = {
    "kill": 4,
    "kill slow": 3,
    "kill after a claim": 3,
    "kill, gap, kill": 4,
    "takeover with a gap": 3,
}


class Step(NamedTuple):
    """One step; three numbers between 0 and 1 for all that is random in it."""

    what: str
    first: float
    second: float
    third: float

    def __str__(self) -> str:
        return f"{self.what} ({self.first:.3f}, {self.second:.3f}, {self.third:.3f})"


def schedule(
    seed: int, kills: int, *, kinds_of_step: Mapping[str, int] = KILLS, without: Collection[str] = ()
) -> list[Step]:
    """Steps with at least `kills` kills: each kind once in any order, then any of them."""
    chance = random.Random(seed)
    every = [k for k in kinds_of_step if k not in without]
    kinds = [k for k in every if k != "check"]
    chance.shuffle(kinds)
    out: list[Step] = []
    died = 0
    while died < kills:
        what = kinds.pop() if kinds else chance.choices(every, [_WEIGHTS.get(k, 1) for k in every])[0]
        out.append(Step(what, chance.random(), chance.random(), chance.random()))
        died += kinds_of_step[what]
    return out
