"""Control keys, the topic that they sign, and what writes and reads its records."""

from __future__ import annotations

from typing import Final

from drkit.control_key import ControlKey, ControlKeys, Place, Signatures

KEYS: Final = ControlKeys(ControlKey.of(b"0123456789abcdef0123456789abcdef"))
TOPIC: Final = "drkit-state.a.internal"
PLACE: Final = Place(TOPIC, "cluster-b")


def signatures(keys: ControlKeys | None = KEYS, topic: str = TOPIC, now_ms: int = 1_000) -> Signatures:
    """The signatures of a topic on one cluster, at a time that stands still."""
    return Signatures(keys, topic, lambda: PLACE.cluster_id, lambda: now_ms)
