"""The control key: records of drkit's own topics carry a MAC, and one without a valid MAC does not count.

Any client with write access to a `drkit-*` topic can write any bytes there. With a key that only drkit's
processes have, a record counts only if it was written with that key (decision 24). This module holds the only
function that signs (:meth:`ControlKeys.sign`) and the only one that verifies (:func:`verify`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
import hashlib
import hmac
from typing import Final

HEADER: Final = "drkit-mac"
"""Name of the record header that holds the MAC."""
LEAST_BYTES: Final = 32
"""Minimum length of key material, in bytes."""
LEAST_DIFFERENT: Final = 8
"""Minimum of different bytes in the key material: 32 zeros are not a key."""
NO_MAC: Final = "it has no MAC"
NO_KEY: Final = "it has a MAC, and this configuration names no control key"
_VERSION: Final = b"\x01"
_ID_BYTES: Final = 4
_MAC_BYTES: Final = 16
_SIZE: Final = len(_VERSION) + _ID_BYTES + _MAC_BYTES
_DOMAIN: Final = b"drkit record 1\x00"
_TO_SIGN: Final = b"drkit control key, signing 1\x00"
_TO_NAME: Final = b"drkit control key, fingerprint 1\x00"
_NAME: Final = HEADER.encode()
Headers = Mapping[str, str | bytes | None] | Iterable[tuple[str | bytes, str | bytes | None]]
"""Headers of a record, as any of the clients gives them."""


class WeakKey(ValueError):
    """Key material that is too short, or not random enough."""


@dataclass(frozen=True, slots=True, repr=False)
class ControlKey:
    """One key; its material is kept as a hash, and never shown."""

    fingerprint: str
    """Names the key: 8 hexadecimal digits, from which the key cannot be learned."""
    _secret: bytes

    @classmethod
    def of(cls, material: bytes) -> ControlKey:
        """The key in a file's content; white space around it does not count.

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
        """The value of the header for a message."""
        digest = hmac.digest(self._secret, message, "sha256")
        return _VERSION + bytes.fromhex(self.fingerprint) + digest[:_MAC_BYTES]

    def __repr__(self) -> str:
        return f"ControlKey({self.fingerprint})"


@dataclass(frozen=True, slots=True)
class ControlKeys:
    """The key that signs, and those that are accepted besides it while the key changes."""

    current: ControlKey
    previous: tuple[ControlKey, ...] = ()

    def sign(self, topic: str, key: bytes | None, value: bytes | None) -> bytes:
        """The value of the header for a record; a tombstone has the value None."""
        return self.current.mac(_message(topic, key, value))

    def why_not(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers | None) -> str:
        """Why a record was not written with one of the keys, as text; empty if it was."""
        found = _macs(headers)
        if not found:
            return NO_MAC
        mac = found[0]
        if len(found) > 1 or mac is None or len(mac) != _SIZE or mac[:1] != _VERSION:
            return "its MAC is not of a form that this drkit reads"
        name = mac[1 : 1 + _ID_BYTES].hex()
        for each in (self.current, *self.previous):
            if each.fingerprint == name:
                right = hmac.compare_digest(mac, each.mac(_message(topic, key, value)))
                return "" if right else f"its MAC is wrong for the control key {name}"
        return f"its MAC is of the control key {name}, which this configuration does not name"


def verify(
    keys: ControlKeys | None, topic: str, key: bytes | None, value: bytes | None, headers: Headers | None
) -> str:
    """Why a record of one of drkit's topics does not count, as text; empty if it does.

    :param keys: None: no control key is configured; then records count that have no MAC
    """
    if keys is None:
        return NO_KEY if headers and _macs(headers) else ""
    return keys.why_not(topic, key, value, headers)


def signed(
    keys: ControlKeys | None, topic: str, key: bytes | None, value: bytes | None
) -> list[tuple[str, str | bytes | None]] | None:
    """The headers with which a record is written; None without a control key."""
    return None if keys is None else [(HEADER, keys.sign(topic, key, value))]


def raw_headers(
    keys: ControlKeys | None, topic: str, key: bytes | None, value: bytes | None
) -> tuple[tuple[bytes, bytes | None], ...]:
    """The same headers as bytes, for writers of record batches."""
    return () if keys is None else ((_NAME, keys.sign(topic, key, value)),)


def _message(topic: str, key: bytes | None, value: bytes | None) -> bytes:
    """What the MAC covers: each part with its length, so that no two records have the same message."""
    return b"".join((_DOMAIN, *_sized(topic.encode()), *_sized(key), *_sized(value)))


def _sized(part: bytes | None) -> Sequence[bytes]:
    return (b"\x00",) if part is None else (b"\x01", len(part).to_bytes(4, "big"), part)


def _macs(headers: Headers | None) -> list[bytes | None]:
    found = headers.items() if isinstance(headers, Mapping) else headers or ()
    return [v.encode() if isinstance(v, str) else v for name, v in found if name in {HEADER, _NAME}]
