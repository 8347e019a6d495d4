"""Open transactions behind a fence: each ends by itself or is aborted; then ends of partitions stand.

A transaction that was open before the fence can still commit behind it and move the last stable offset.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kafka.errors import for_code

from drkit.clock import Seconds, monotonic
from drkit.errors import Refused
from drkit.kafka.markers import Marker, write_markers
from drkit.kafka.open_transactions import Open, abort, open_on, transactional_ids
from drkit.kafka.raw import RawCluster
from drkit.model import TopicPartition

_PAUSE_SECONDS: Final = 0.1
_MARKERS_SECONDS: Final = 5.0
"""How long markers may take once they are decided and nothing holds them back."""
_ROUNDS: Final = 5
_SHOWN: Final = 5
Blink = Callable[[], None]
Found = Mapping[TopicPartition, list[Open]]


@dataclass
class Resolved:
    """What became of the transactions that were open when the fence stood."""

    seen: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Producer id → transactional id, partitions, and how it ended."""
    left: list[str] = field(default_factory=list)
    """Partitions whose transactions are still open."""

    def see(self, found: Found, names: Mapping[int, str]) -> None:
        """Remember transactions that are open."""
        for at, opened in sorted(found.items()):
            for one in opened:
                known = self.seen.setdefault(
                    one.producer_id,
                    {"transactional_id": names.get(one.producer_id), "partitions": [], "ended": "by itself"},
                )
                if str(at) not in known["partitions"]:
                    known["partitions"].append(str(at))

    def to_json(self) -> dict[str, Any]:
        """For the journal."""
        return {
            "transactions": [{"producer_id": i, **v} for i, v in sorted(self.seen.items())],
            "left": self.left,
        }

    @property
    def aborted(self) -> int:
        """How many were cut."""
        return sum(v["ended"] != "by itself" for v in self.seen.values())


class Resolver:
    """Resolves the open transactions on some topics.

    :param lift: takes the fence away where it also holds back markers; None where it does not
    :param restore: puts it up again
    """

    def __init__(
        self,
        cluster: RawCluster,
        topics: Collection[str],
        *,
        wait_seconds: float,
        aborts: bool,
        lift: Blink | None = None,
        restore: Blink | None = None,
        clock: Seconds = monotonic,
    ) -> None:
        self._cluster, self._topics = cluster, topics
        self._wait_seconds, self._aborts = wait_seconds, aborts
        self._lift, self._restore = lift, restore
        self._clock = clock
        self.resolved = Resolved()

    def run(self) -> Resolved:
        """Wait, then abort, until none is open.

        :raises Refused: some are open, and the settings say to hold then
        :raises RawError: the cluster stopped answering
        """
        wait = self._wait_seconds
        for _ in range(_ROUNDS):
            found = self._gone(wait)
            if not found:
                break
            self._refuse(found)
            self._abort(found)
            self._pass_markers()
            wait = _PAUSE_SECONDS if self._lift else _MARKERS_SECONDS
        self.resolved.left = [str(at) for at in sorted(self._open())]
        return self.resolved

    def _open(self) -> Found:
        found: Found = self._cluster.loop.run(open_on, self._cluster, self._topics)
        if unknown := {o.producer_id for some in found.values() for o in some} - self.resolved.seen.keys():
            names = self._cluster.loop.run(transactional_ids, self._cluster, unknown)
            self.resolved.see(found, names)
        return found

    def _gone(self, seconds: float) -> Found:
        """What is still open when the time is over, or nothing."""
        deadline = self._clock() + seconds
        while (found := self._open()) and self._clock() < deadline:
            self._cluster.loop.run(self._cluster.loop.sleep, _PAUSE_SECONDS)
        return found

    def _refuse(self, found: Found) -> None:
        if self._aborts:
            return
        some = ", ".join(f"{at} by {self._name(o)}" for at, os in sorted(found.items()) for o in os[:1])
        raise Refused(
            f"{len(found)} partitions have an open transaction behind the fence",
            where=self._cluster.alias,
            evidence=some,
            hint='let their producers end them, or set open_transactions = "abort" in [failover.fence];'
            " then: drkit failover --resume",
        )

    def _name(self, opened: Open) -> str:
        known = self.resolved.seen.get(opened.producer_id, {}).get("transactional_id")
        return str(known or f"producer {opened.producer_id}")

    def _abort(self, found: Found) -> None:
        by_producer: dict[int, list[tuple[TopicPartition, Open]]] = {}
        for at, opened in found.items():
            for one in opened:
                by_producer.setdefault(one.producer_id, []).append((at, one))
        for producer, places in sorted(by_producer.items()):
            known = self.resolved.seen[producer]
            if known["transactional_id"] is None:
                self._mark(producer, places)
                known["ended"] = "aborted by a marker: no coordinator knows it"
                continue
            code = self._cluster.loop.run(abort, self._cluster, known["transactional_id"])
            known["ended"] = "aborted" if not code else f"not aborted: {for_code(code).__name__} ({code})"

    def _mark(self, producer: int, places: list[tuple[TopicPartition, Open]]) -> None:
        """A transaction that hangs: its coordinator has forgotten it (KIP-664)."""
        for at, one in places:
            marker = Marker(producer, one.state.epoch, max(0, one.state.coordinator_epoch), (at,))
            self._cluster.loop.run(write_markers, self._cluster, one.node, [marker])

    def _pass_markers(self) -> None:
        """Where the fence holds markers back: open it until they are through, and close it again."""
        if self._lift is None or self._restore is None:
            return
        decided = {p for p, v in self.resolved.seen.items() if not v["ended"].startswith("not aborted")}
        self._lift()
        try:
            deadline = self._clock() + _MARKERS_SECONDS
            while self._clock() < deadline:
                found = self._open()
                if not decided & {o.producer_id for some in found.values() for o in some}:
                    break
                self._cluster.loop.run(self._cluster.loop.sleep, _PAUSE_SECONDS / 10)
        finally:
            self._restore()
