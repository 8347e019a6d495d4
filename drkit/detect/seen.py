"""One observer's view of a cluster, from the results of its probes. Pure.

An address is one broker on one listener. A failure is a doubt at first. It is a fact when it has lasted for
the time of confirmation without a single success: shorter pauses, restarts and flaps stay doubts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Final, NamedTuple


class ProbeOutcome(Enum):
    """How far a probe came; the value is the sentence for a person."""

    WORKS = "takes records and gives them back"
    ANSWERS = "answers, and is the cluster that it should be; no canary is used"
    WRITE_REFUSED = "answers, but refuses the canary"
    WRITE_SILENT = "answers, but does not acknowledge the canary"
    WRONG_CLUSTER = "is another cluster"
    REFUSED = "nothing listens"
    NO_ROUTE = "no connection in time"
    SILENT = "accepts connections but does not answer"
    HUNG_UP = "accepts connections and closes them, or speaks another protocol"
    UNRESOLVED = "its name does not resolve"
    SHUT_OUT = "answers, but not to us"
    UNCONFIRMED = "answers; only a note names this address, so drkit does not log in there"


WELL: Final = frozenset({ProbeOutcome.WORKS, ProbeOutcome.ANSWERS, ProbeOutcome.UNCONFIRMED})
DEAD: Final = frozenset(
    {ProbeOutcome.REFUSED, ProbeOutcome.NO_ROUTE, ProbeOutcome.SILENT, ProbeOutcome.HUNG_UP}
)
"""No connection or no answer: killed, cut off, frozen, half open."""
ILL: Final = frozenset({ProbeOutcome.WRITE_REFUSED, ProbeOutcome.WRITE_SILENT})
UNSEEN: Final = frozenset({ProbeOutcome.UNRESOLVED, ProbeOutcome.SHUT_OUT})
"""Outcomes that point to a fault on our side rather than of the cluster."""


class Address(NamedTuple):
    """One broker on one listener."""

    listener: str
    server: str
    """host:port."""
    broker: int = -1
    """Its id; negative while unknown (of a bootstrap server)."""

    def __str__(self) -> str:
        name = f"broker {self.broker}" if self.broker >= 0 else "server"
        return f"{name} ({self.listener}, {self.server})"


class Probe(NamedTuple):
    """One probe of one address."""

    outcome: ProbeOutcome
    began: float
    """As of the observer's :class:`drkit.detect.awake.AwakeClock`."""
    ended: float
    evidence: str = ""


@dataclass(slots=True)
class Track:
    """Probe history of one address."""

    last: Probe | None = None
    failing_since: float | None = None
    """Start of the first failure since the last success."""
    of_note: bool = False
    """Only a note of the observers' topic names this address."""
    answered: bool = False
    """Some probe met a broker of the cluster here."""

    def take(self, probe: Probe) -> None:
        """Record the newest probe."""
        self.last = probe
        self.answered |= probe.outcome in WELL | ILL
        if probe.outcome in WELL:
            self.failing_since = None
        elif self.failing_since is None:
            self.failing_since = probe.began


class Sight(StrEnum):
    """One observer's conclusion from all addresses."""

    CLEAR = "clear"
    FADING = "fading"
    """Something fails, not for long enough to be a fact."""
    PARTIAL = "partial"
    """Some fail, but less than half of the brokers."""
    FEW = "few"
    """Half of the brokers or more fail, not all."""
    REFUSING = "refusing"
    """Brokers answer, none takes records."""
    GONE = "gone"
    """No broker answers on any listener."""
    BLIND = "blind"
    """Unknown, because of a fault on our side."""
    WRONG = "wrong"
    """The name leads to another cluster."""


class SightRules(NamedTuple):
    """Times in seconds."""

    confirm: float = 5.0
    """How long a failure must last to be a fact."""
    stale: float = 10.0
    """An older probe says nothing."""


@dataclass(frozen=True, slots=True)
class SourceView:
    """One observer's view, with its evidence."""

    sight: Sight
    since: float | None
    """Since when every address fails, by the observer's clock; None while one works."""
    evidence: tuple[str, ...] = ()
    brokers: int = 0
    failing: int = 0
    """Brokers with a confirmed failure on some listener."""
    answered: bool = False
    """Whether this observer ever got an answer from the cluster."""


NOTHING_SEEN: Final = SourceView(Sight.BLIND, None, ("no address was probed yet",))


@dataclass(slots=True)
class _Counts:
    working: set[str] = field(default_factory=set)
    """Brokers with an address that works, or whose failure is not confirmed yet."""
    failing: set[str] = field(default_factory=set)
    confirmed: set[ProbeOutcome] = field(default_factory=set)
    unresolved_names: bool = False
    """A bootstrap server's name does not resolve; it is not among `confirmed_brokers`."""
    confirmed_brokers: set[ProbeOutcome] = field(default_factory=set)
    ours_dead: bool = False
    """An address that is not only from a note is dead: so names resolve, and connections are tried."""
    doubtful: int = 0
    stale: int = 0
    lines: list[str] = field(default_factory=list)


def see(tracks: Mapping[Address, Track], now: float, rules: SightRules) -> SourceView:
    """One view from all addresses; those that were not probed yet do not count."""
    probed = {a: t for a, t in tracks.items() if t.last is not None}
    counts = _counted(probed, now, rules)
    answered = any(t.answered for t in probed.values())
    if counts.stale == len(probed):
        lines = tuple(counts.lines) or NOTHING_SEEN.evidence
        return SourceView(Sight.BLIND, None, lines, answered=answered)
    # A bootstrap name is an address, but does not count as a broker.
    known = {_broker(a) for a in probed if a.broker >= 0}
    brokers = known or {_broker(a) for a in probed}
    since = [t.failing_since for t in probed.values()]
    all_since = max(s for s in since if s is not None) if None not in since else None
    lost = (counts.failing - counts.working) & brokers
    sight = _sight(counts, len(lost), len(brokers), brokers_known=bool(known))
    return SourceView(sight, all_since, tuple(counts.lines), len(brokers), len(lost), answered)


def _counted(probed: Mapping[Address, Track], now: float, rules: SightRules) -> _Counts:
    counts = _Counts()
    for address, track in sorted(probed.items()):
        probe, broker = track.last, _broker(address)
        if probe is None or _is_stale(address, probe, now, rules):
            counts.stale += 1
            counts.working.add(broker)
            counts.lines.append(f"{address}: no probe ended in the last {rules.stale:g} s")
        elif track.failing_since is None:
            counts.working.add(broker)
            if probe.outcome is ProbeOutcome.UNCONFIRMED:
                counts.lines.append(f"{address}: {probe.outcome.value}")
        else:
            lasted = now - track.failing_since
            said = f" ({probe.evidence})" if probe.evidence else ""
            counts.lines.append(f"{address}: {probe.outcome.value}{said}, for {lasted:.1f} s")
            if lasted >= rules.confirm or probe.outcome is ProbeOutcome.WRONG_CLUSTER:
                counts.confirmed.add(probe.outcome)
                counts.ours_dead |= not track.of_note and probe.outcome in DEAD
                if address.broker < 0 and probe.outcome is ProbeOutcome.UNRESOLVED:
                    counts.unresolved_names = True
                else:
                    counts.confirmed_brokers.add(probe.outcome)
                counts.failing.add(broker)
            else:
                counts.doubtful += 1
                counts.working.add(broker)
    return counts


def _is_stale(address: Address, probe: Probe, now: float, rules: SightRules) -> bool:
    waits = address.broker < 0 and probe.outcome is ProbeOutcome.UNRESOLVED
    return now - probe.ended > rules.stale and not waits


def _sight(counts: _Counts, lost: int, brokers: int, *, brokers_known: bool) -> Sight:
    if ProbeOutcome.WRONG_CLUSTER in counts.confirmed:
        return Sight.WRONG
    if not counts.confirmed:
        return Sight.FADING if counts.doubtful or counts.stale else Sight.CLEAR
    if counts.working:
        return Sight.FEW if 2 * lost >= brokers else Sight.PARTIAL
    if _all_dead(counts, brokers_known=brokers_known):
        return Sight.GONE
    return Sight.REFUSING if counts.confirmed & ILL else Sight.BLIND


def _all_dead(counts: _Counts, *, brokers_known: bool) -> bool:
    """Whether every broker is dead.

    A bootstrap name that does not resolve, beside others that do, leads to one of the brokers; while none of
    these is known it may lead to one that lives.
    """
    passed_over = not counts.unresolved_names or (brokers_known and counts.ours_dead)
    return passed_over and bool(counts.confirmed_brokers) and counts.confirmed_brokers <= DEAD


def _broker(address: Address) -> str:
    return str(address.broker) if address.broker >= 0 else address.server
