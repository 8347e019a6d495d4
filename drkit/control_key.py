"""The control key: records of drkit's own topics carry a MAC, and one without a valid MAC does not count.

Any client that may write to a `drkit-*` topic can write any bytes there. With a key that only drkit's
processes have, a record counts only when it was written with that key (decision 24). The MAC covers the
cluster, the topic and its id, the record and its order among the records of the topic, so a copy of an
earlier record does not count either. :class:`Signatures` signs and verifies; nothing else does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
import hashlib
import hmac
from typing import Final, NamedTuple
from uuid import UUID

from drkit.clock import Millis, wall_ms
from drkit.model import TopicPartition

HEADER: Final = "drkit-mac"
"""Name of the record header that holds the MAC."""
LEAST_BYTES: Final = 32
"""Minimum size of key material."""
LEAST_DIFFERENT: Final = 8
"""Minimum number of different bytes in the key material: 32 zeros are no key."""
WHO_WRITES: Final = "find out who writes there besides drkit, and deny it"
"""The hint about records of other clients."""
NO_MAC: Final = "it has no MAC"
NO_KEY: Final = "it has a MAC, and this configuration names no control key"
NOT_NAMED: Final = ", which this configuration does not name"
REPLAYED: Final = "it is a copy of an earlier record of this key"
OUTDATED: Final = "it was signed over 10 minutes before its predecessors, or before the broker's time"
UNORDERED: Final = "its MAC is of the form before ordered records, and ordered records precede it"
WINDOW_SECONDS: Final = 600.0
"""A record may be signed this much earlier than the newest of those before it: writers run side by side."""
LONGEST_KEY: Final = 4096
"""Bytes of a refused record's key that are remembered; drkit's keys are shorter."""
MOST_REFUSED: Final = 10_000
"""Maximum number of refused records that one reader remembers: clients may write any number."""
_ID_BYTES: Final = 4
_MAC_BYTES: Final = 16
_ORDER_BYTES: Final = 8
_PLAIN, _ORDERED, _OF_TOPIC = b"\x01", b"\x02", b"\x03"
"""Versions of a MAC: without an order, without the topic's id, and the one that is written."""
_SIZES: Final = {
    _PLAIN: 1 + _ID_BYTES + _MAC_BYTES,
    **dict.fromkeys((_ORDERED, _OF_TOPIC), 1 + _ID_BYTES + _ORDER_BYTES + _MAC_BYTES),
}
_UNSEEN: Final = (0, b"")
_LAST_ORDER: Final = (1 << 8 * _ORDER_BYTES - 1).to_bytes(_ORDER_BYTES, "big")
_REMEMBERED: Final = 10_000
_WINDOW: Final = int(WINDOW_SECONDS * 1_000_000)
_TO_SIGN: Final = b"drkit control key, signing 1\x00"
_TO_NAME: Final = b"drkit control key, fingerprint 1\x00"
_NAME: Final = HEADER.encode()
Headers = Mapping[str, str | bytes | None] | Iterable[tuple[str | bytes, str | bytes | None]]
"""Headers of a record, in the form of any of the clients."""


NOT_MIRRORED: Final = "mm2-"
"""Before names of drills' topics: MirrorMaker 2 copies no topic ``mm2….internal``, whatever its filters."""


class SignedTopic(StrEnum):
    """Prefixes of the names of all topics whose records carry a MAC; drkit signs and verifies no others.

    `drkit control adopt` signs each of them again when the key changes.
    """

    STATE = "drkit-state"
    MAP = "drkit-offset-map"
    NOTES = "drkit-watch"
    JOURNAL = "drkit-failover"
    FENCES = "drkit-fence"
    REPLAYS = "drkit-replay"
    DRILLS = "drkit-drills"

    def of(self, source: str, target: str = "") -> str:
        """Return the name of the topic of a flow, by the aliases of its clusters."""
        by_source = self in {SignedTopic.STATE, SignedTopic.MAP, SignedTopic.JOURNAL}
        return f"{self}.{source}.internal" if by_source else f"{self}.{source}.{target}.internal"


def is_of_other_key(why: str) -> bool:
    """Return whether a reason, or an error with it, is about a key that this host does not have."""
    return NO_KEY in why or NOT_NAMED in why


class WeakKey(ValueError):
    """Key material that is too short, or hardly random."""


@dataclass(frozen=True, slots=True, repr=False)
class ControlKey:
    """One key; its material is stored as a hash, and never shown."""

    fingerprint: str
    """Identifies the key: 8 hexadecimal digits that do not reveal it."""
    _secret: bytes

    @classmethod
    def of(cls, material: bytes) -> ControlKey:
        """The key in a file's content; surrounding white space does not count.

        :raises WeakKey: it is too short, or hardly random
        """
        kept = material.strip(b" \t\r\n")
        if len(kept) < LEAST_BYTES:
            raise WeakKey(f"{len(kept)} bytes of key material, at least {LEAST_BYTES} are needed")
        if len(set(kept)) < LEAST_DIFFERENT:
            raise WeakKey(f"its {len(kept)} bytes have only {len(set(kept))} different values")
        name = hashlib.sha256(_TO_NAME + kept).digest()[:_ID_BYTES].hex()
        return cls(name, hashlib.sha256(_TO_SIGN + kept).digest())

    def mac(self, message: bytes) -> bytes:
        """The MAC of a message."""
        return hmac.digest(self._secret, message, "sha256")[:_MAC_BYTES]

    def __repr__(self) -> str:
        return f"ControlKey({self.fingerprint})"


@dataclass(frozen=True, slots=True)
class ControlKeys:
    """The key that signs, and the other accepted keys while the key changes."""

    current: ControlKey
    previous: tuple[ControlKey, ...] = ()

    def named(self, fingerprint: str) -> ControlKey | None:
        """The key with a fingerprint, if this is one of these keys."""
        return next((k for k in (self.current, *self.previous) if k.fingerprint == fingerprint), None)


class LogPlace(NamedTuple):
    """The log in which a record counts."""

    at: TopicPartition
    cluster_id: str = ""
    topic_id: UUID = UUID(int=0)
    """A topic that is deleted and created again has another one."""

    @property
    def log(self) -> bytes:
        """The log's name in a MAC with an order."""
        return (str(self.at) if self.at.partition else self.at.topic).encode()


class Signatures:
    """The MACs of one partition of one of drkit's topics: verifies what is read, in order, and signs.

    An order is a time in µs, or more than the newest order that was read: so writers need not have equal
    clocks (a hybrid logical clock, Kulkarni et al. 2014). A record counts when its order is above that of the
    last one with its key, and not much below that of all before it. The second rule holds for readers that
    come after compaction has removed the newest record of a key in favour of a copy of an older one.

    :param keys: None: no control key is configured; then records without a MAC count
    :raises ValueError: there is a control key, and the topic is no :class:`SignedTopic`
    """

    def __init__(self, keys: ControlKeys | None, at: TopicPartition, wall: Millis = wall_ms) -> None:
        if keys is not None:
            SignedTopic(at.topic.removeprefix(NOT_MIRRORED).partition(".")[0])
        self._keys, self._wall = keys, wall
        self.place = LogPlace(at)
        """Its reader sets it (:class:`drkit.kafka.reading.log_tail.LogTail`)."""
        self._newest = 0
        """The highest order of a record with a valid MAC, also in an open or aborted transaction."""
        self._orders: dict[bytes | None, tuple[int, bytes]] = {}
        """Key → order and MAC of its last record. Two writers may sign one order at a time."""
        self._reserved: dict[bytes | None, list[int]] = {}
        """Key → offsets of records in open transactions that may count, and that no later record replaces."""
        self._due = b""
        """The MAC of a record whose transaction was committed, until it is asked for."""
        self._signed = 0
        """The highest order signed here."""
        self._forget_at = _REMEMBERED

    def refused(
        self, key: bytes | None, value: bytes | None, headers: Headers | None, stamped_ms: int = 0
    ) -> str:
        """Return the reason why the next record of the log does not count, or an empty text.

        :param stamped_ms: its timestamp; where brokers set it, a copy has a later one
        """
        if self._keys is None:
            return NO_KEY if headers and _macs(headers) else ""
        found = read_mac(self._keys, self.place, key, value, headers)
        if isinstance(found, str):
            return found
        mac, due, self._due = _macs(headers)[0] or b"", self._due, b""
        if mac == due:
            return ""
        if why := self._out_of_order(key, found, stamped_ms * 1000, mac):
            return why
        self._reserved.pop(key, None)  # this one replaces them
        return ""

    def reserve(
        self, offset: int, key: bytes | None, value: bytes | None, headers: Headers | None, stamped_ms: int
    ) -> bool:
        """Return whether the next record of the log, in an open transaction, may count.

        It uses up its order, whichever way the transaction ends: no copy of it counts.
        """
        if self._keys is None:
            return key is not None and not (headers and _macs(headers))
        order = read_mac(self._keys, self.place, key, value, headers)
        if isinstance(order, str):
            return False
        if self._out_of_order(key, order, stamped_ms * 1000, _macs(headers)[0] or b""):
            return False
        self._reserved.setdefault(key, []).append(offset)
        return True

    def may_count(self, offset: int, key: bytes | None) -> bool:
        """Return whether a record that was reserved counts if its transaction is committed now."""
        return self._keys is None or offset in self._reserved.get(key, ())

    def settle(self, offset: int, key: bytes | None, headers: Headers | None, *, committed: bool) -> None:
        """End the transaction of a record that was reserved; others are left alone.

        If it is committed, it is the next to be asked for. It counts, unless a later record of its key did.
        """
        reserved = self._reserved.get(key, [])
        if offset not in reserved:
            return
        if committed:
            self._due = _macs(headers)[0] or b""
        self._reserved[key] = [o for o in reserved if o > offset or (o < offset and not committed)]
        if not self._reserved[key]:
            del self._reserved[key]

    def _out_of_order(self, key: bytes | None, order: int, stamped: int, mac: bytes) -> str:
        """Return why a record does not count by its order, which it uses up if it does."""
        if not order:
            return UNORDERED if self._newest else ""
        if (order, mac) <= self._orders.get(key, _UNSEEN):  # also of its last record: each counts once
            return REPLAYED
        if order < max(self._newest, stamped) - _WINDOW:
            return OUTDATED
        self._newest = max(self._newest, order)
        self._orders[key] = order, mac
        if len(self._orders) > self._forget_at:
            # Older ones need no memory: a copy of them is outdated.
            self._orders = {k: o for k, o in self._orders.items() if o[0] >= self._newest - _WINDOW}
            self._forget_at = max(_REMEMBERED, 2 * len(self._orders))
        return ""

    def headers(self, key: bytes | None, value: bytes | None) -> tuple[tuple[bytes, bytes], ...]:
        """The headers of the next record to write: empty without a control key.

        The log has to be read to its end before: by then no order of another writer is higher.
        """
        if self._keys is None:
            return ()
        assert self.place.cluster_id, "the log was not read"  # noqa: S101  else every reader refuses the record
        self._signed = order = max(self._newest + 1, self._signed + 1, self._wall() * 1000)
        return ((_NAME, mac_of(self._keys.current, self.place, key, value, order)),)

    def text_headers(self, key: bytes | None, value: bytes | None) -> dict[str, str | bytes | None] | None:
        """Return the same headers for confluent-kafka, or None without a control key."""
        return {name.decode(): mac for name, mac in self.headers(key, value)} or None


def mac_of(key: ControlKey, place: LogPlace, name: bytes | None, value: bytes | None, order: int) -> bytes:
    """The value of the header of a record.

    :param name: the record's key
    """
    number = order.to_bytes(_ORDER_BYTES, "big")
    message = _message(_OF_TOPIC, place, name, value, number)
    return _OF_TOPIC + bytes.fromhex(key.fingerprint) + number + key.mac(message)


def read_mac(
    keys: ControlKeys, place: LogPlace, key: bytes | None, value: bytes | None, headers: Headers | None
) -> int | str:
    """Return the order in a MAC, 0 for a MAC without one, or the reason why it is not valid."""
    found = _macs(headers)
    if not found:
        return NO_MAC
    mac = found[0]
    if len(found) > 1 or mac is None or _SIZES.get(mac[:1]) != len(mac):
        return "its MAC is not of a form that this drkit reads"
    version, fingerprint = mac[:1], mac[1 : 1 + _ID_BYTES].hex()
    control = keys.named(fingerprint)
    if control is None:
        return f"its MAC is of the control key {fingerprint}{NOT_NAMED}"
    number = mac[1 + _ID_BYTES : -_MAC_BYTES]
    if number > _LAST_ORDER:
        return "its order leaves no order for later records"
    if not hmac.compare_digest(mac[-_MAC_BYTES:], control.mac(_message(version, place, key, value, number))):
        return f"its MAC is wrong for the control key {fingerprint}, or for this topic and its id"
    return int.from_bytes(number, "big")


def is_current(keys: ControlKeys, headers: Headers | None) -> bool:
    """Return whether a valid MAC is of the current key and of the version that is written."""
    return (_macs(headers)[0] or b"")[: 1 + _ID_BYTES] == _OF_TOPIC + bytes.fromhex(keys.current.fingerprint)


def _message(version: bytes, place: LogPlace, key: bytes | None, value: bytes | None, number: bytes) -> bytes:
    """What the MAC covers: each part with its length, so that no two records have the same message."""
    parts: tuple[bytes | None, ...] = (place.at.topic.encode(), key, value)
    if version != _PLAIN:
        topic_id = (place.topic_id.bytes,) if version == _OF_TOPIC else ()
        parts = (place.cluster_id.encode(), *topic_id, place.log, key, value, number)
    return b"drkit record %d\x00" % version[0] + b"".join(piece for part in parts for piece in _sized(part))


def _sized(part: bytes | None) -> Sequence[bytes]:
    return (b"\x00",) if part is None else (b"\x01", len(part).to_bytes(4, "big"), part)


def _macs(headers: Headers | None) -> list[bytes | None]:
    found = headers.items() if isinstance(headers, Mapping) else headers or ()
    return [v.encode() if isinstance(v, str) else v for name, v in found if name in {HEADER, _NAME}]
