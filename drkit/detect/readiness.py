"""Could the target take over now? Named findings from plain facts. Pure.

A blocking finding holds back an automatic failover, and is shown in one by hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from drkit.counted import counted, first_of

_few: Final = partial(first_of, most=3)
_LITTLE: Final = 0.10
_NOTHING: Final = 0.02
PARITY_SECONDS: Final = 900.0
"""Age from which a comparison of the two clusters is reported as old."""


class ReadinessFinding(NamedTuple):
    """A fault of the target."""

    code: str
    blocks: bool
    text: str
    next: str


class Disk(NamedTuple):
    """A log directory of a broker; bytes."""

    broker: int
    path: str
    free: int
    total: int


class Parity(NamedTuple):
    """Differences between target and source in the last comparison."""

    age_seconds: float
    changes: tuple[str, ...] = ()
    """Partitions and settings of topics."""
    acls: tuple[str, ...] = ()
    error: str = ""
    """Why they could not be compared."""


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """What was seen of the target."""

    error: str = ""
    """Why it did not answer."""
    alive: tuple[int, ...] = ()
    """Brokers that take part."""
    registered: tuple[int, ...] | None = None
    """All brokers, including those that are down; None: the cluster does not report them."""
    offline: tuple[str, ...] = ()
    """Partitions of copies without a leader."""
    under_min_isr: tuple[str, ...] = ()
    """Partitions that refuse records with acks=all."""
    behind: int = 0
    """Partitions with a replica that is not in sync."""
    faults: Mapping[str, str] | None = None
    """Of the flow's status: code → text. None: not known yet."""
    parity: Parity | None = None
    """None: never compared, as when the source was gone from the start."""
    disks: tuple[Disk, ...] | None = None
    """None: the brokers do not tell (before Kafka 3.3), or drkit may not ask."""


_FAULTS: Final[Mapping[str, tuple[bool, str]]] = {
    "target_unreachable": (True, "repair the target, or the way to it"),
    "control_key_mismatch": (True, "give this host the key file of the pair: drkit config check"),
    "not_authorized": (True, "grant drkit's principal the rights of its role"),
    "topics_left_out": (True, "drkit status --partitions; the flow's events say why they have no copy"),
    "lag_unknown": (True, "drkit status --partitions names the partitions"),
    "heartbeat_missing": (False, "let heartbeats flow: emit_heartbeats"),
}
"""Faults of the status that concern a takeover: whether they block, and what to do. `drkit status` reports
the others, or they are no fault of the target."""
_ABOUT_GROUPS: Final = ("checkpoint", "group")


def readiness(facts: TargetFacts) -> list[ReadinessFinding]:
    """All findings about the target, blocking ones first."""
    found = [*_of_brokers(facts), *_of_partitions(facts), *_of_status(facts), *_of_parity(facts)]
    found += _of_disks(facts.disks or ())
    return sorted(found, key=lambda f: not f.blocks)


def _of_brokers(facts: TargetFacts) -> Iterator[ReadinessFinding]:
    if facts.error:
        text = f"the target does not answer: {facts.error}"
        yield ReadinessFinding(
            "target_unreachable", blocks=True, text=text, next=_FAULTS["target_unreachable"][1]
        )
        return
    down = sorted(set(facts.registered or ()) - set(facts.alive))
    if down:
        most = 2 * len(down) >= len(facts.registered or ())
        text = f"brokers of the target are down: {_few(map(str, down))}"
        yield ReadinessFinding("brokers_down", most, text, "start them")


def _of_partitions(facts: TargetFacts) -> Iterator[ReadinessFinding]:
    if facts.offline:
        text = f"{counted(len(facts.offline), 'partition', 'has')} no leader: {_few(facts.offline)}"
        yield ReadinessFinding(
            "partitions_offline", blocks=True, text=text, next="start the brokers of their replicas"
        )
    if facts.under_min_isr:
        some = counted(len(facts.under_min_isr), "partition", "refuses")
        text = f"{some} acks=all: {_few(facts.under_min_isr)}"
        yield ReadinessFinding(
            "under_min_isr", blocks=True, text=text, next="start the brokers of their replicas"
        )
    if facts.behind:
        text = f"{facts.behind} partitions have replicas that are not in sync"
        yield ReadinessFinding(
            "replicas_behind", blocks=False, text=text, next="wait, or look at the brokers"
        )


def _of_status(facts: TargetFacts) -> Iterator[ReadinessFinding]:
    if facts.faults is None:
        yield ReadinessFinding("not_looked", blocks=True, text="no look at the flow yet", next="wait")
        return
    for code, text in facts.faults.items():
        if code in _FAULTS and not (facts.error and code == "target_unreachable"):
            blocks, hint = _FAULTS[code]
            yield ReadinessFinding(code, blocks, text, hint)
        elif code.startswith(_ABOUT_GROUPS):
            yield ReadinessFinding(
                code, blocks=False, text=text, next="drkit status names the groups and why"
            )


def _of_parity(facts: TargetFacts) -> Iterator[ReadinessFinding]:
    parity, hint = facts.parity, "drkit config show --plan"
    if parity is None:
        text = "the clusters' settings were never compared by this observer"
        yield ReadinessFinding("parity_unknown", blocks=False, text=text, next=hint)
        return
    if parity.error:
        text = f"the clusters' settings cannot be compared: {parity.error}"
        yield ReadinessFinding("parity_unknown", blocks=False, text=text, next=hint)
    elif parity.age_seconds > PARITY_SECONDS:
        text = f"the clusters' settings were compared {parity.age_seconds / 60:.0f} min ago"
        yield ReadinessFinding("parity_old", blocks=False, text=text, next=hint)
    if parity.changes:
        text = f"{len(parity.changes)} settings of topics differ: {_few(parity.changes)}"
        yield ReadinessFinding("topics_differ", blocks=False, text=text, next=hint)
    if parity.acls:
        text = f"{len(parity.acls)} ACLs differ: {_few(parity.acls)}"
        yield ReadinessFinding("acls_differ", blocks=False, text=text, next=hint)


def _of_disks(disks: Iterable[Disk]) -> Iterator[ReadinessFinding]:
    for disk in disks:
        share = disk.free / disk.total if disk.total > 0 else 1.0
        if share < _LITTLE:
            text = f"broker {disk.broker}: {share:.0%} free in {disk.path}"
            yield ReadinessFinding("disk_low", share < _NOTHING, text, "make room, or add disks")
