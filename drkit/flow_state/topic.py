"""The topic of a flow's state on the target: small, compacted, keys as text, values as JSON objects.

The topic holds the whole state of a flow, so any machine can continue it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Self

from drkit import observe
from drkit.catalogue import ERRORS, filled
from drkit.clock import wall_ms
from drkit.config import ClusterSettings
from drkit.control_key import is_of_other_key
from drkit.counted import is_reported
from drkit.errors import Failed
from drkit.flow_state.names import state_topic
from drkit.flow_state.records import EventRecord, SourceSeenRecord, StateRecord
from drkit.flow_state.state import FlowState, R, StateChange
from drkit.kafka.admin import Cluster
from drkit.kafka.reading.signed_log import SignedLog
from drkit.kafka.topics import describe_topics
from drkit.wire import Record

HOW_TO_ADOPT: Final = filled(ERRORS["state_unsigned"].hint, {})
"""What to do about records without a valid MAC."""


class Dropped:
    """Records that one reader of a topic passed over.

    :param where: the topic and its cluster
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self.count = 0
        self.first = ""
        """The offset of the first one, and why it does not count."""

    def add(self, key: str, reason: str) -> None:
        """Count a record, and name it.

        :param reason: its offset, and why it does not count
        """
        self.count += 1
        self.first = self.first or reason
        if self.count == 1 or (is_reported(self.count) and not is_of_other_key(reason)):
            observe.event(
                "record_dropped", level="warning", where=self._where, reason=reason, hint=HOW_TO_ADOPT,
                key=key[:80], count=self.count,
            )  # fmt: skip


_SEEN: Final = SourceSeenRecord.KEY.encode()
_KEPT: Final = 4


class StateTopic:
    """Reads and writes a flow's state. May be used from several threads."""

    def __init__(self, target: ClusterSettings, source: str) -> None:
        self.name = state_topic(source)
        self._log = SignedLog(target, self.name, self._read_one)
        self.records = FlowState(self._log.where)
        """The state read so far."""
        self._is_read = self._is_closed = False
        self._seen = deque[Record](maxlen=_KEPT)
        """Notes of the source's ends that wait until all is read. A note has a row for each partition: to
        parse a day of them takes minutes where there are thousands."""
        self.dropped = Dropped(self._log.where)
        """Records without a valid MAC: they were passed over."""
        self.followed: dict[str, list[bytes | None]] = {}
        """What is read under some keys, in its order: for who put a key there."""
        self.on_read: Callable[[int, StateChange], None] = lambda _offset, _change: None
        """Called with every change that is read, and its offset, by the thread that reads it."""

    def load(self) -> None:
        """Read on to the end: all that was acknowledged before this call is read.

        :raises DrkitError: the topic cannot be read, or an open transaction hides a record of drkit's
        """
        self._read(self._log.load)

    def load_existing(self, cluster: Cluster) -> bool:
        """Read on to the end, as :meth:`load` does, if the target has the topic; return whether it has."""
        if is_there := bool(describe_topics(cluster, [self.name])):
            self.load()
        return is_there

    def load_decided(self) -> bool:
        """Return whether every record written before this call is read: open transactions may hide some.

        :raises DrkitError: the topic cannot be read
        """
        return self._read(self._log.read_decided) is None

    def _read(self, read: Callable[[], int | None]) -> int | None:
        if self._is_closed:  # a thread may read after the attempt has ended
            raise Failed("own_topic_unreadable", where=self._log.where, evidence="it was closed")
        hidden = read()
        with self._log.lock:
            self._take_seen()
            if not self._is_read:  # those that were written again with a MAC are not named
                for key in self.records.refused:
                    self.dropped.add(key, self.records.unreadable[key])
            self._is_read = True
        return hidden

    def _read_one(self, record: Record, why: str) -> None:
        reason = f"offset {record.offset}: {why}"
        if why and (self._is_read or record.key is None):
            self.dropped.add((record.key or b"").decode(errors="backslashreplace"), reason)
        if record.key is None:
            if why:
                self.records.pass_over(reason, live=self._is_read)
        elif why:
            if record.key == _SEEN:
                self._take_seen()  # those that wait precede it
            self.records.refuse(record.key, why, record.offset, live=self._is_read)
        elif record.key == _SEEN:
            self._seen.append(record)
        else:
            self._take(record.key, record)

    def _take_seen(self) -> None:
        """Take the newest note, and where it is damaged those before it."""
        notes = list(self._seen)
        self._seen.clear()
        for note in notes[-1:]:
            self._take(_SEEN, note)
        if len(notes) > 1 and SourceSeenRecord.KEY in self.records.unreadable:
            for note in notes:
                self._take(_SEEN, note)

    def _take(self, key: bytes, record: Record) -> None:
        change = self.records.take(key, record.value, record.offset)
        if change is not None:
            self.followed.get(change.key, []).append(record.value)
            self.on_read(record.offset, change)

    @property
    def position(self) -> int:
        """The first offset of the topic not read yet."""
        return self._log.tail.next_offset

    def headers(self, key: bytes, value: bytes | None) -> dict[str, str | bytes | None] | None:
        """The headers of a record to write in a transaction, right after the topic was read."""
        return self._log.signatures.text_headers(key, value)

    def get(self, kind: type[R], name: str = "") -> R | None:
        """The record of a kind, or None.

        :param name: the name in the key, for kinds with many records
        :raises Damaged: a required record was replaced by one that is not drkit's
        """
        return self.records.get(kind, name)

    def all(self, kind: type[R]) -> dict[str, R]:
        """All records of a kind, by the names in their keys. Raises as :meth:`get` does."""
        return self.records.all(kind)

    def put(self, record: StateRecord, name: str = "") -> None:
        """Write one record, durably (acks=all).

        :param name: the name in the key, for kinds with many records
        :raises Failed: it was not accepted
        """
        self.put_all([(name, record)])

    def put_all(self, records: Iterable[tuple[str, StateRecord]]) -> None:
        """Write records with their names, durably and together. Raises as :meth:`put` does."""
        written = [(record.key(name), record, record.encode()) for name, record in records]
        first = self._log.append(*((key.encode(), value) for key, _, value in written))
        with self._log.lock:
            for key, record, value in written[self._read_from(first) :]:
                self.records.keep(key, record, value)

    def delete(self, kind: type[StateRecord], name: str = "") -> None:
        """Delete one record. Raises as :meth:`put` does."""
        self._delete([kind.key(name)])

    def delete_all(self, kind: type[StateRecord], names: Iterable[str]) -> None:
        """Delete the records of a kind with these names, those that are there. Raises as :meth:`put` does."""
        self._delete([kind.key(name) for name in names if self.get(kind, name) is not None])

    def _delete(self, keys: Iterable[str]) -> None:
        deleted = [key.encode() for key in keys]
        first = self._log.append(*((key, None) for key in deleted))
        with self._log.lock:
            for key in deleted[self._read_from(first) :]:
                self.records.take(key, None)

    def _read_from(self, first: int) -> int:
        return max(0, self._log.tail.end - first) if first >= 0 else 0  # a repeated request has no offset

    def write(self, key: str, value: bytes | None) -> None:
        """Write bytes as they are; None deletes the key. Raises as :meth:`put` does."""
        self._log.append((key.encode(), value))

    def emit(self, kind: str, topic: str, partition: int = -1, **fields: object) -> None:
        """Write an event where `drkit status` finds it; partition −1 is the whole topic."""
        event = EventRecord(kind, topic, partition, wall_ms(), fields)
        self.put(event, event.name)

    def close(self) -> None:
        """Let go of the connections."""
        self._is_closed = True
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
