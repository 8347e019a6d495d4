"""A fence that is owed, as it stands in the flow's state: the old primary may take writes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
import shlex
from typing import Any, Final

FENCE_DEBT: Final = "fence-debt"
"""Key in the flow's state."""
_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Debt:
    """What is to be fenced at the first contact."""

    run_id: str
    """Of the failover that owes it."""
    term: int
    since_ms: int
    why: str
    topics: tuple[str, ...]
    """Of the source."""

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Debt:
        """As it stands in the state."""
        return cls(raw["run_id"], raw["term"], raw["since_ms"], raw["why"], tuple(raw["topics"]))

    @property
    def owed_by(self) -> str:
        """Who owes it, and on what."""
        some = ", ".join(self.topics[:_SHOWN]) + (" …" if len(self.topics) > _SHOWN else "")
        return f"run {self.run_id} (term {self.term}) owes it for {len(self.topics)} topics: {some}"


def debt_of(values: Mapping[str, Any]) -> Debt | None:
    """What is owed, from the flow's state."""
    found = values.get(FENCE_DEBT)
    return None if found is None else Debt.from_json(found)


def paid_with(flow: str) -> str:
    """The command that pays.

    :param flow: its name
    """
    return shlex.join(["drkit", "fence", "pay", "--flow", flow])
