"""The topic of a flow's state on the target: small, compacted, keys as text, values as JSON objects.

The topic holds the whole state of a flow, so any machine can continue it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Generic, Self, TypeVar

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

    def add(self, key: bytes | None, offset: int, why: str) -> None:
        """Count a record, and name it."""
        self.count += 1
        self.first = self.first or f"offset {offset}: {why}"
        reason = f"offset {offset}: {why}"
        if self.count == 1 or (is_reported(self.count) and not is_of_other_key(why)):
            observe.event(
                "record_dropped", level="warning", where=self._where, reason=reason, hint=HOW_TO_ADOPT,
                key=(key or b"")[:80].decode(errors="backslashreplace"), count=self.count,
            )  # fmt: skip


T = TypeVar("T")
_SEEN: Final = SourceSeenRecord.KEY.encode()
_KEPT: Final = 16


class NewestRecords(Generic[T]):
    """Passes on what is read; notes of the source's ends wait until all is read.

    A note has a row for each partition: to parse a day of them takes minutes where there are thousands.

    :param take: gets what is read
    :param is_damaged: whether the newest record under a key is damaged; then those before it are parsed, too
    """

    def __init__(self, take: Callable[[T], None], is_damaged: Callable[[str], bool]) -> None:
        self._take = take
        self._is_damaged = is_damaged
        self._late: deque[T] = deque(maxlen=_KEPT)

    def put(self, key: bytes | None, record: T) -> None:
        """Take one record of the topic."""
        if key == _SEEN:
            self._late.append(record)
        else:
            self._take(record)

    def flush(self) -> None:
        """Pass on the notes that wait, at the end of the topic."""
        if self._late:
            self._take(self._late[-1])
        if len(self._late) > 1 and self._is_damaged(SourceSeenRecord.KEY):
            for record in self._late:
                self._take(record)
        self._late.clear()


class StateTopic:
    """Reads and writes a flow's state. May be used from several threads."""

    def __init__(self, target: ClusterSettings, source: str) -> None:
        self.name = state_topic(source)
        self._log = SignedLog(target, self.name, self._read_one)
        self.records = FlowState(self._log.where)
        """The state read so far."""
        self._is_read = self._is_closed = False
        self._newest = NewestRecords[tuple[Record, str]](
            self._take, lambda key: key in self.records.unreadable
        )
        self._refused: dict[bytes, tuple[int, str]] = {}
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
            raise self._unreadable("it was closed")
        hidden = read()
        with self._log.lock:
            self._newest.flush()
            self._name_dropped()
            self._is_read = True
        return hidden

    def _read_one(self, record: Record, why: str) -> None:
        self._newest.put(record.key, (record, why))

    def _take(self, found: tuple[Record, str]) -> None:
        record, why = found
        if record.key is None:
            if why:
                self.dropped.add(None, record.offset, why)
                self.records.pass_over(f"offset {record.offset}: {why}", live=self._is_read)
            return
        if why:
            self.records.refuse(record.key, why, record.offset, live=self._is_read)
            self._refused[record.key] = record.offset, why
            return
        change = self.records.take(record.key, record.value, record.offset)
        if change is not None:
            self.followed.get(change.key, []).append(record.value)
            self.on_read(record.offset, change)

    def _name_dropped(self) -> None:
        """Report records that do not count, except those that were since written again with a MAC."""
        for key, (offset, why) in self._refused.items():
            if self._is_read or key.decode("utf-8", errors="replace") in self.records.refused:
                self.dropped.add(key, offset, why)
        self._refused.clear()

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
        self._log.append(*((key.encode(), value) for key, _, value in written))
        for key, record, value in written:
            self.records.keep(key, record, value)

    def delete(self, kind: type[StateRecord], name: str = "") -> None:
        """Delete one record. Raises as :meth:`put` does."""
        self._delete([kind.key(name)])

    def delete_all(self, kind: type[StateRecord], names: Iterable[str]) -> None:
        """Delete the records of a kind with these names, those that are there. Raises as :meth:`put` does."""
        self._delete([kind.key(name) for name in names if self.get(kind, name) is not None])

    def _delete(self, keys: Iterable[str]) -> None:
        deleted = [key.encode() for key in keys]
        self._log.append(*((key, None) for key in deleted))
        for key in deleted:
            self.records.take(key, None)

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

    def _unreadable(self, evidence: str) -> Failed:
        return Failed("own_topic_unreadable", where=self._log.where, evidence=evidence)
