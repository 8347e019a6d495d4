"""An entry of a journal that is larger than a record, put together from its parts. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from drkit.flow_state.codec.fields import Integer, Prose
from drkit.flow_state.codec.record import Body


@dataclass(frozen=True, slots=True)
class _Part(Body):
    part_of: Prose
    part: Integer
    number: Annotated[Integer, Field(alias="of")]
    text: Prose


class Parts:
    """Takes parts in the order of the log; those of an incomplete entry are dropped."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._of = ""

    def take(self, raw: Any) -> str | None:
        """Return the text that a part completes, or None if parts are missing. Raises Malformed."""
        part = _Part.of(raw)
        if part.part == 0:
            self._texts, self._of = [], part.part_of
        if self._of != part.part_of or len(self._texts) != part.part:
            return None
        self._texts.append(part.text)
        if len(self._texts) < part.number:
            return None
        text, self._texts, self._of = "".join(self._texts), [], ""
        return text
