"""Control keys and the topic that they sign."""

from __future__ import annotations

from typing import Final

from drkit.control_key import (
    ControlKey,
    ControlKeys,
)

KEYS: Final = ControlKeys(ControlKey.of(b"0123456789abcdef0123456789abcdef"))


TOPIC: Final = "drkit-state.a.internal"
