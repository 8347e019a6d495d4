"""The pairs: what is failed over and how, an entry of the journal, and what happens there. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
import random
from typing import NamedTuple

from drkit.exercise.events import JournalEntered
from drkit.journal.machine import ORDER, StepName

KINDS = ("dead", "cut", "alive", "planned")
"""An unplanned failover of a primary that is dead, that only drkit does not reach, and that answers; and a
switchover.
"""
SCOPES = ("all", "group", "topic")
_WITH_EFFECTS = frozenset({
    StepName.FENCE, StepName.FREEZE, StepName.COMMIT_OFFSETS, StepName.OPEN, StepName.REPOINT,
})  # fmt: skip
ANSWERS = frozenset({"alive", "planned"})
REACHED = ANSWERS | {"cut"}
EVENTS: dict[str, frozenset[str]] = {
    "primary-dies": REACHED,
    "primary-bounces": REACHED,
    "primary-returns": frozenset({"dead", "cut"}),
    "primary-freezes": REACHED,
    "new-topic": REACHED,
    "new-group": REACHED,
    "new-commit": REACHED,
    "new-member": REACHED,
    "new-guest": frozenset(KINDS),
    "standby-loses-broker": frozenset(KINDS),
    "operator-cut": ANSWERS,
    "replicator-cut": ANSWERS,
    "application-cut": REACHED,
    "replicator-dies": ANSWERS,
    "another-resumes": frozenset(KINDS),
    "another-aborts": frozenset(KINDS),
    "orchestrator-sleeps": frozenset(KINDS),
    "orchestrator-dies": frozenset(KINDS),
}
"""What may happen, and to which kinds of failover."""


class Pair(NamedTuple):
    """One of them."""

    kind: str
    scope: str
    entry: str
    event: str

    @property
    def id(self) -> str:
        """As pytest shows it."""
        return "-".join(self)

    def chance(self, seed: int) -> random.Random:
        """Its own dice: a pair that runs alone does what it did among others."""
        return random.Random(f"{self.id} {seed}")

    def is_at(self, at: JournalEntered) -> bool:
        """Whether an entry is the one at which the event happens."""
        return self.entry == _named(at)


def _named(at: JournalEntered) -> str:
    return ".".join(filter(None, (at.step, "effect" if at.effect else "", at.kind)))


def entries() -> Iterator[str]:
    """All entries of an unbroken run; of several effects of a step the first."""
    yield "run"
    for step in ORDER:
        effects = ("effect.intent", "effect.result") if step in _WITH_EFFECTS else ()
        yield from (f"{step}.{what}" for what in ("intent", *effects, "result"))


def every_pair() -> list[Pair]:
    """All of them."""
    return [
        Pair(kind, scope, entry, event)
        for event, kinds in EVENTS.items() for kind in KINDS if kind in kinds
        for scope in SCOPES for entry in entries()
    ]  # fmt: skip


def sampled(seed: int, number: int, finished: Sequence[str] = ()) -> list[Pair]:
    """Some pairs in a chance order, even over events and kinds; without those that are finished."""
    chance, heaps = random.Random(seed), dict[tuple[str, str], list[Pair]]()
    for pair in every_pair():
        heaps.setdefault((pair.event, pair.kind), []).append(pair)
    for heap in heaps.values():
        chance.shuffle(heap)
    order = []
    while heaps:
        turn = list(heaps)
        chance.shuffle(turn)
        order += [heaps[key].pop() for key in turn]
        heaps = {key: heap for key, heap in heaps.items() if heap}
    done = set(finished)
    return [pair for pair in order if pair.id not in done][:number]
