"""Control keys, the topic that they sign, and what writes and reads its records."""

from __future__ import annotations

from typing import Final

from drkit.control_key import HEADER, ControlKey, ControlKeys, LogPlace, Signatures

KEYS: Final = ControlKeys(ControlKey.of(b"0123456789abcdef0123456789abcdef"))
TOPIC: Final = "drkit-state.a.internal"
PLACE: Final = LogPlace(TOPIC, "cluster-b")


def signatures(keys: ControlKeys | None = KEYS, topic: str = TOPIC, now_ms: int = 1_000) -> Signatures:
    """The signatures of a topic on one cluster, at a time that stands still."""
    return Signatures(keys, topic, lambda: PLACE.cluster_id, lambda: now_ms)


def earlier_form(key: bytes | None, value: bytes | None) -> list[tuple[str, bytes]]:
    """A MAC as drkit wrote it before MACs had an order."""
    parts = b"".join(
        b"\x00" if part is None else b"\x01" + len(part).to_bytes(4, "big") + part
        for part in (TOPIC.encode(), key, value)
    )
    mac = KEYS.current.mac(b"drkit record 1\x00" + parts)
    return [(HEADER, b"\x01" + bytes.fromhex(KEYS.current.fingerprint) + mac)]
