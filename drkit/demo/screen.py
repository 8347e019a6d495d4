"""What the story shows; modules above this one draw it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol


class Scene(NamedTuple):
    """The state shown at one moment."""

    written: int
    arrived: int
    behind_ms: float | None
    rate: float
    alive: bool
    note: str

    @property
    def behind(self) -> int:
        """Records that the standby does not have yet."""
        return max(0, self.written - self.arrived)

    def line(self) -> str:
        """The scene in one line."""
        late = "" if self.behind_ms is None else f", {self.behind_ms:,.0f} ms behind"
        state = "running" if self.alive else "dead"
        return (
            f"primary {self.written:,} → drkit ({state}) {self.rate:,.0f}/s → standby {self.arrived:,}"
            f"   lag {self.behind:,} records{late}"
        )


class Screen(Protocol):
    """The output of the story."""

    def act(self, title: str) -> None:
        """Begin an act."""

    def say(self, text: str) -> None:
        """A sentence of the story; ``[b]…[/b]`` makes words bold, a blank line separates paragraphs."""

    def picture(self, text: str) -> None:
        """Show a drawing in characters, unchanged."""

    def command(self, text: str) -> None:
        """What one would type."""

    def output(self, line: str) -> None:
        """Show a line that a command printed, unchanged."""

    def fact(self, text: str) -> None:
        """Something that was just shown to be true."""

    def live(self) -> AbstractContextManager[None]:
        """Scenes shown within are one moving picture, where that is possible."""

    def show(self, scene: Scene) -> None:
        """Show the current state."""

    def table(self, rows: list[tuple[str, str, str]]) -> None:
        """Measurements: what, how much, and what that means."""
