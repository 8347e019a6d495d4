"""An entry of a journal that is larger than a record, put together from its parts. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Parts:
    """Takes parts in the order of the log; those of an incomplete entry are dropped."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._of = ""

    def take(self, part: Mapping[str, Any]) -> str | None:
        """Return the text of the entry that a part completes; None: parts are missing."""
        if part["part"] == 0:
            self._texts, self._of = [], part["part_of"]
        if self._of != part["part_of"] or len(self._texts) != part["part"]:
            return None
        self._texts.append(part["text"])
        if len(self._texts) < part["of"]:
            return None
        text, self._texts, self._of = "".join(self._texts), [], ""
        return text
