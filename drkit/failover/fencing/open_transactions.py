"""Open transactions under a fence: each ends by itself or is aborted; then partition ends do not move.

A transaction that was open before the fence can still commit afterwards and move the last stable offset.

A topic that takes no record (``max.message.bytes`` = 0) also refuses markers. A coordinator gives up a marker
that is refused for its size, and never sends it again. So drkit suspends such a fence briefly to end
transactions. For those that ended under the fence, drkit writes the lost markers, as their coordinators
decided.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, Final

from drkit.clock import Seconds, monotonic
from drkit.counted import first_of
from drkit.errors import Refused
from drkit.kafka.codes import error_name
from drkit.kafka.raw import RawCluster
from drkit.kafka.transactions import OpenProducer, Owner, Owners, abort, all_owners, open_on
from drkit.model import TopicPartition

_PAUSE_SECONDS: Final = 0.1
_MARKERS_SECONDS: Final = 5.0
"""Timeout for markers once they are decided and not blocked."""
_LOST_SECONDS: Final = 0.25
"""A decided marker that is missing after this time is not in flight; a duplicate costs one offset."""
_ROUNDS: Final = 5
_BY_ITSELF: Final = "by itself"
_NOT_ABORTED: Final = "not aborted"
Suspend = Callable[[], None]
Found = list[OpenProducer]


@dataclass
class Resolved:
    """The outcome of the transactions that were open when the fence was applied."""

    seen: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Producer id → transactional id, partitions, and how the transaction ended."""
    left: list[str] = field(default_factory=list)
    """Partitions whose transactions are still open."""

    def see(self, found: Found, known: Mapping[int, Owner]) -> None:
        """Add open transactions."""
        for one in sorted(found):
            owner = known.get(one.producer_id)
            name = owner.transactional_id if owner else None
            new: dict[str, Any] = {"transactional_id": name, "partitions": [], "ended": _BY_ITSELF}
            seen = self.seen.setdefault(one.producer_id, new)
            if str(one.at) not in seen["partitions"]:
                seen["partitions"].append(str(one.at))

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as plain data, for the journal."""
        transactions = [{"producer_id": i, **v} for i, v in sorted(self.seen.items())]
        return {"transactions": transactions, "left": self.left}

    @property
    def aborted(self) -> int:
        """Number of transactions that drkit has aborted."""
        return sum(v["ended"].startswith("aborted") for v in self.seen.values())

    @property
    def marked(self) -> list[str]:
        """Transactional ids whose coordinators lost a marker that drkit wrote instead."""
        return sorted(v["transactional_id"] for v in self.seen.values() if v.get("marked"))

    def notes(self) -> list[str]:
        """Return the facts that a person needs, as sentences."""
        found = [f"{self.aborted} open transactions were aborted"] if self.aborted else []
        if self.marked:
            found.append(
                "drkit wrote the markers of transactions that ended after the fence; on the old primary these"
                f" transactional ids work again after a restart of its brokers: {first_of(self.marked)}"
            )
        if self.left:
            found.append(f"transactions are still open on {first_of(self.left)}")
        return found


@dataclass
class TransactionResolver:
    """Resolves the open transactions on some topics."""

    cluster: RawCluster
    topics: Collection[str]
    _: KW_ONLY
    wait_seconds: float
    aborts: bool
    suspend: Suspend | None = None
    """Suspends a fence that also refuses markers; None if it does not."""
    restore: Suspend | None = None
    """Applies the fence again."""
    clock: Seconds = monotonic
    resolved: Resolved = field(default_factory=Resolved, init=False)
    _known: Owners = field(default_factory=lambda: Owners({}, ""), init=False)

    def beforehand(self) -> None:
        """End open transactions before a fence that refuses markers is applied.

        Does nothing if the settings say to hold, since no transaction may be aborted then.

        :raises RawError: the cluster stopped answering
        """
        if self.aborts and self.suspend is not None:
            if found := self._gone(self.wait_seconds):
                self._end(found)
            self.wait_seconds = 0.0

    def run(self) -> Resolved:
        """Wait, then abort, until no transaction is open; return the outcome.

        :raises Refused: some are open, and the settings do not abort them
        :raises RawError: the cluster stopped answering
        """
        wait = self.wait_seconds
        for _ in range(_ROUNDS):
            found = self._gone(wait)
            if not found or (self._known.silent and all(map(self._stays, _producers(found)))):
                break
            self._refuse(found)
            self._suspended()
            wait = 0.0
        self.resolved.left = [str(tp) for tp in sorted({one.at for one in self._open()})]
        return self.resolved

    def _open(self) -> Found:
        found: Found = self.cluster.loop.run(open_on, self.cluster, self.topics)
        if found:
            self._known = self.cluster.loop.run(all_owners, self.cluster, _producers(found))
            self.resolved.see(found, self._known.owners)
        return found

    def _is_decided(self, producer: int) -> bool:
        owner = self._known.owners.get(producer)
        return owner is not None and owner.is_decided

    def _gone(self, seconds: float) -> Found:
        """Wait until the transactions open now have ended, or `seconds` have passed; return the open ones.

        If the fence refuses markers, the wait also ends when every open transaction is decided.
        """
        deadline = self.clock() + seconds
        first = _each(found := self._open())
        while first & _each(found) and self.clock() < deadline:
            if self.suspend is not None and all(self._is_decided(p) for p in _producers(found)):
                break
            self.cluster.loop.run(self.cluster.loop.sleep, _PAUSE_SECONDS)
            found = self._open()
        return found

    def _refuse(self, found: Found) -> None:
        waiting: dict[TopicPartition, str] = {}
        for one in sorted(found):
            if not self._is_decided(one.producer_id):
                name = self.resolved.seen[one.producer_id]["transactional_id"]
                waiting.setdefault(one.at, f"{one.at} by {name or f'producer {one.producer_id}'}")
        if self.aborts or not waiting:
            return
        evidence = ", ".join(waiting.values())
        raise Refused("open_transactions", where=self.cluster.alias, evidence=evidence, count=len(waiting))

    def _suspended(self) -> None:
        """End transactions while the fence is suspended; the fence is always restored."""
        if self.suspend is not None:
            self.suspend()
        try:
            self._end(self._open())
        finally:
            if self.restore is not None:
                self.restore()

    def _end(self, found: Found) -> None:
        if self.aborts:
            self._abort(found)
        wanted = {e for e in _each(found) if not self._stays(e[1])}
        began, marked = self.clock(), False
        while wanted & _each(found := self._open()) and self.clock() - began < _MARKERS_SECONDS:
            if self.clock() - began >= _LOST_SECONDS and not marked:
                marked = True
                # Their coordinators have lost a marker.
                for producer in filter(self._is_decided, _producers(found)):
                    self._mark(producer, found, commits=self._known.owners[producer].commits)
                    self.resolved.seen[producer]["marked"] = True
            self.cluster.loop.run(self.cluster.loop.sleep, _PAUSE_SECONDS / 10)

    def _stays(self, producer: int) -> bool:
        return str(self.resolved.seen[producer]["ended"]).startswith(_NOT_ABORTED)

    def _abort(self, found: Found) -> None:
        for producer in sorted(_producers(found)):
            known, owner = self.resolved.seen[producer], self._known.owners.get(producer)
            if owner is None and self._known.silent:
                # It may have decided to commit, and acknowledged that to the producer.
                known["ended"] = f"{_NOT_ABORTED}: {self._known.silent}"
            elif owner is None:
                self._mark(producer, found, commits=False)
                known["ended"] = "aborted by a marker: no coordinator knows it"
            elif not owner.is_decided:
                code = self.cluster.loop.run(abort, self.cluster, owner.transactional_id)
                known["ended"] = "aborted" if not code else f"{_NOT_ABORTED}: {error_name(code)}"

    def _mark(self, producer: int, found: Found, *, commits: bool) -> None:
        """End a transaction without its coordinator (KIP-664), in the epoch of its records."""
        for one in found:
            if one.producer_id == producer:
                self.cluster.loop.run(partial(one.end, commits=commits), self.cluster, one.state.epoch)


def _producers(found: Found) -> set[int]:
    return {one.producer_id for one in found}


def _each(found: Found) -> set[tuple[TopicPartition, int, int]]:
    """Return single transactions: a producer's next transaction begins at another offset."""
    return {(one.at, one.producer_id, one.state.open_since) for one in found}
