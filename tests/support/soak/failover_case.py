"""A random failover by its seed: state of the primary, scope, clients, deaths of the orchestrator."""

from __future__ import annotations

import random
from typing import NamedTuple

from tests.support.failover.orchestrator import Kill

KINDS = ("planned", "answering", "killed", "frozen", "both links cut", "operator's link cut")
SCOPES = ("all", "group", "topic")
READERS = (
    "python", "python static", "python consumer protocol", "restarted", "restarted static",
    "restarted consumer protocol", "java", "java cooperative", "java static", "java consumer protocol",
)  # fmt: skip
"""Consumers beside the transactional application, which is always there."""
_ENTRIES = 40
"""Of an unbroken run, about."""


class Case(NamedTuple):
    """What is to happen."""

    seed: int
    kind: str
    scope: str
    readers: tuple[str, ...]
    java_producer: bool
    lag_seconds: float
    """How long the replicator is suspended before the primary is lost."""
    kills: tuple[Kill, ...]
    elsewhere: tuple[bool, ...]
    """Whether the first orchestrator, and each that resumes, runs on another machine."""

    def text(self) -> str:
        kills = ", ".join(f"{k.entry} {k.when}" for k in self.kills) or "none"
        return (
            f"seed {self.seed}: {self.kind}, --{self.scope}, lag {self.lag_seconds:.1f} s, kills {kills},"
            f" {', '.join(self.readers)}{', java producer' if self.java_producer else ''}"
        )


def drawn(seed: int) -> Case:
    """The failover of a seed."""
    chance = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]  # each of them as often as the others
    kills = tuple(
        Kill(
            chance.randrange(_ENTRIES if n == 0 else _ENTRIES // 2),
            chance.choice(("before", "file", "after")),
        )
        for n in range(chance.choice((0, 1, 1, 2, 3)))
    )
    return Case(
        seed, kind, chance.choice(SCOPES), tuple(sorted(chance.sample(READERS, 3))), chance.random() < 0.6,
        0.0 if kind in {"planned", "answering"} or chance.random() < 0.3 else chance.uniform(0.2, 1.5),
        kills, tuple(chance.random() < 0.3 for _ in range(len(kills) + 1)),
    )  # fmt: skip
