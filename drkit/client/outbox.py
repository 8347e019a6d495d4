"""Records given to a producer that no cluster has acknowledged, in their order. No input or output."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, Message

Delivered = Callable[[KafkaError | None, Message | None], object]
RETRY_SECONDS: Final = 1.0
"""How often a fence is tried with one record."""
_REFUSED: Final = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})
_TOO_LARGE: Final = KafkaError.MSG_SIZE_TOO_LARGE
_SMALL: Final = 64 * 1024
"""Bytes. A topic that refuses even such a record accepts no records at all."""


@dataclass(eq=False, slots=True)
class OutboxRecord:
    """One call of `produce`."""

    number: int
    topic: str
    value: Any
    key: Any
    partition: int
    timestamp: int
    headers: Any
    call: Delivered | None
    born: float
    """Time of the call by a monotonic clock, in seconds."""
    generation: int = 0
    """Number of the client that it was last handed to."""
    uncertain: bool = False
    """It was in flight when its cluster was left."""
    error: KafkaError | None = None
    """The last refusal."""
    message: Message | None = field(default=None, repr=False)

    @property
    def size(self) -> int:
        """The approximate size in bytes."""
        return sum(len(x) for x in (self.key, self.value) if isinstance(x, (str, bytes)))


class DeliveryResult(NamedTuple):
    """What a delivery report means."""

    final: bool
    """Whether the result is reported to the application."""
    send: list[OutboxRecord]
    """Records that may be sent now."""


class Outbox:
    """Keeps each record until its delivery is decided.

    A record that the cluster refuses as a fence does is held, and with it all later ones of its topic, so
    that their order stays; every second one of them is sent to test whether the fence is gone.

    :param hold_seconds: how long a record may be held, counted from `produce`
    """

    def __init__(self, hold_seconds: float) -> None:
        self._hold_seconds = hold_seconds
        self._pending: dict[int, OutboxRecord] = {}
        self._held: dict[str, list[OutboxRecord]] = {}
        self._trying: dict[str, OutboxRecord] = {}
        self._waiting: list[OutboxRecord] | None = []
        self._next_try = 0.0
        self._count = 0

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def held(self) -> int:
        """The number of records that wait for a fence to be lifted."""
        return sum(map(len, self._held.values())) + len(self._trying)

    def number(self) -> int:
        """The number of the next record."""
        self._count += 1
        return self._count

    def add(self, record: OutboxRecord) -> bool:
        """Add a record; returns whether it may be sent now."""
        self._pending[record.number] = record
        if self._waiting is not None:
            self._waiting.append(record)
        elif record.topic in self._held:
            self._held[record.topic].append(record)
        else:
            return True
        return False

    def drop(self, record: OutboxRecord) -> None:
        """Remove a record that could not be handed to the client."""
        self._pending.pop(record.number, None)

    def hold(self, record: OutboxRecord) -> None:
        """Hold a record, in the order of its topic; later records of the topic wait after it."""
        if self._trying.get(record.topic) is record:
            del self._trying[record.topic]
        insort(self._held.setdefault(record.topic, []), record, key=lambda r: r.number)

    def open(self) -> list[OutboxRecord]:
        """Note that the cluster is the right one; returns the records that waited for this."""
        found, self._waiting = self._waiting or [], None
        return found

    @property
    def is_open(self) -> bool:
        """Whether the cluster is known to be the right one."""
        return self._waiting is None

    def knows(self, record: OutboxRecord, generation: int) -> bool:
        """Whether a report of this client about the record still counts."""
        return record.generation == generation and record.number in self._pending

    def settle(self, record: OutboxRecord, error: KafkaError | None, now: float) -> DeliveryResult:
        """Process a delivery report of a record."""
        if error is not None and self._is_fence(record, error) and now - record.born < self._hold_seconds:
            record.error = error
            self.hold(record)
            return DeliveryResult(final=False, send=[])
        self._pending.pop(record.number, None)
        if self._trying.get(record.topic) is not record:
            return DeliveryResult(final=True, send=[])
        del self._trying[record.topic]
        return DeliveryResult(final=True, send=self._held.pop(record.topic, []))

    def due(self, now: float) -> list[OutboxRecord]:
        """One record of each held topic, to try the fence with."""
        if now < self._next_try or not self._held:
            return []
        self._next_try = now + RETRY_SECONDS
        found = []
        for topic, records in self._held.items():
            if topic not in self._trying and records:
                self._trying[topic] = records.pop(0)
                found.append(self._trying[topic])
        return found

    def expired(self, now: float) -> list[OutboxRecord]:
        """Remove and return held records whose time is over."""
        found = []
        for topic in list(self._held):
            kept = [r for r in self._held[topic] if now - r.born < self._hold_seconds]
            found += [r for r in self._held[topic] if now - r.born >= self._hold_seconds]
            self._held[topic] = kept
            if not kept and topic not in self._trying:
                del self._held[topic]
        for record in found:
            self.drop(record)
        return found

    def purge(self) -> list[OutboxRecord]:
        """Remove and return the records that wait here instead of in the client."""
        found = [r for records in self._held.values() for r in records] + (self._waiting or [])
        self._held = {topic: [] for topic in self._trying}
        self._waiting = None if self._waiting is None else []
        for record in found:
            self.drop(record)
        return sorted(found, key=lambda r: r.number)

    def leave(self) -> list[OutboxRecord]:
        """Leave the cluster; returns all undecided records in their order. None is held any more."""
        self._held.clear()
        self._trying.clear()
        self._waiting = []
        found = sorted(self._pending.values(), key=lambda r: r.number)
        self._pending.clear()
        return found

    @staticmethod
    def _is_fence(record: OutboxRecord, error: KafkaError) -> bool:
        code = error.code()
        return code in _REFUSED or (code == _TOO_LARGE and record.size < _SMALL)
