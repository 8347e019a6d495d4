"""Records of drkit's own topics that do not count, because they have no valid MAC: counted and named."""

from __future__ import annotations

from typing import Final

from drkit import observe
from drkit.control_key import WHO_WRITES
from drkit.counted import is_reported

HOW_TO_ADOPT: Final = (
    "if it was written before this pair had a control key: drkit control adopt; if another process of drkit"
    f" has another key, or none: give it this one; if neither: {WHO_WRITES}"
)
"""What to do about records without a valid MAC."""


class Dropped:
    """What one reader of a topic has passed over.

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
        if is_reported(self.count):
            observe.event(
                "record_dropped", level="warning", where=self._where, reason=reason, hint=HOW_TO_ADOPT,
                key=(key or b"")[:80].decode(errors="backslashreplace"), count=self.count,
            )  # fmt: skip
