"""Display of the demo: a live picture on a terminal, plain lines elsewhere, nothing with ``--json``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
import sys
import time
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from drkit.demo.screen import Scene

_PLAIN_SECONDS = 3.0
_REFRESH_PER_SECOND = 8
_WIDTH = 100


class RichScreen:
    """The only part of the demo that prints."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        width = None if sys.stdout.isatty() else _WIDTH
        self._console = Console(quiet=quiet, highlight=False, width=width)
        self._live: Live | None = None
        self._said = float("-inf")
        self._act = 0

    def act(self, title: str) -> None:
        """Begin an act."""
        self._act += 1
        self._console.print()
        self._console.print(Rule(Text(f"{self._act}. {title}", style="bold"), align="left"))

    def say(self, text: str) -> None:
        """A sentence of the story; a blank line separates paragraphs."""
        for paragraph in text.strip().split("\n\n"):
            words = " ".join(paragraph.split())
            self._console.print(Padding(Text.from_markup(words), (0, 0, 0, 3)))

    def picture(self, text: str) -> None:
        """Print a drawing in characters, unchanged."""
        self._console.print(Text(text.strip("\n"), style="cyan"))

    def command(self, text: str) -> None:
        """Print a command to type."""
        self._console.print(Padding(Text(f"$ {text}", style="green"), (0, 0, 0, 3)))

    def output(self, line: str) -> None:
        """Print a line that a command printed, unchanged."""
        self._console.print(Text(f"   {line}"), soft_wrap=True)

    def fact(self, text: str) -> None:
        """Print a fact that the demo has just shown."""
        self._console.print(Padding(Text.assemble(("✓ ", "bold green"), text), (0, 0, 0, 3)))

    @contextmanager
    def live(self) -> Iterator[None]:
        """Show the scenes within as one live picture on a terminal."""
        self._said = float("-inf")
        if self._quiet or not self._console.is_terminal:
            yield
            return
        with Live(console=self._console, refresh_per_second=_REFRESH_PER_SECOND, transient=True) as live:
            self._live = live
            try:
                yield
            finally:
                self._live = None

    def show(self, scene: Scene) -> None:
        """Show the current state."""
        if self._live is not None:
            self._live.update(_panel(scene))
        elif time.monotonic() - self._said >= _PLAIN_SECONDS:
            self._said = time.monotonic()
            self._console.print(f"     {scene.line()}", soft_wrap=True)

    def table(self, rows: list[tuple[str, str, str]]) -> None:
        """Print measurements: name, value, meaning."""
        table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
        table.add_column(style="bold")
        table.add_column(justify="right", style="cyan")
        table.add_column(style="dim")
        for row in rows:
            table.add_row(*row)
        self._console.print(Padding(table, (1, 0, 1, 3)))


def _panel(scene: Scene) -> Any:
    flow = Table.grid(expand=True)
    for justify in ("left", "center", "center", "center", "right"):
        flow.add_column(justify=justify)
    arrow = Text("━━━━━━▶", style="green" if scene.alive and scene.rate else "red")
    drkit = Text("drkit", style="bold green") if scene.alive else Text("drkit ✗ killed", style="bold red")
    flow.add_row(Text("primary", style="bold"), arrow, drkit, arrow, Text("standby", style="bold"))
    flow.add_row(
        f"{scene.written:,} records", "", f"{scene.rate:,.0f} records/s", "", f"{scene.arrived:,} records"
    )
    late = "" if scene.behind_ms is None else f", {scene.behind_ms:,.0f} ms"
    lag = Text.assemble("lag ", (f"{scene.behind:,} records{late}", "bold" if scene.behind else "bold green"))
    return Panel(Group(flow, Text(""), lag, Text(scene.note, style="dim")), width=_WIDTH - 10, padding=(1, 2))
