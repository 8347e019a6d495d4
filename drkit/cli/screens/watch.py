"""Display of `drkit watch`: a live view on a terminal, a line of JSON for each change, or only its log.

With ``--once`` the last verdict is the answer, and nothing else is printed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
import sys
from typing import Final

from rich.console import Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from drkit.cli.render import emit_line
from drkit.cli.session import session
from drkit.cli.talk import say_over
from drkit.detect.verdict import VerdictKind
from drkit.visible import visible
from drkit.watch.alerts import in_words
from drkit.watch.run import FlowMoment, Show

_COLORS: Final = {
    VerdictKind.UP: "green", VerdictKind.SUSPECT: "yellow", VerdictKind.DEGRADED: "yellow",
    VerdictKind.HOLD: "magenta", VerdictKind.LOST: "red",
}  # fmt: skip
_LINES: Final = 12


@contextmanager
def screen(*, once: float | None) -> Iterator[Show]:
    """Yield the function that shows moments while something runs.

    :param once: the watch ends after this many seconds, and prints only its last result
    """
    if once is not None:
        with _progress(f"watching for {once:g} s, or until the verdict is confirmed"):
            yield _silent
    elif session().as_json:
        yield _lines
    elif sys.stdout.isatty():
        with Live(Text("looking…"), refresh_per_second=4, screen=False) as live:
            yield lambda said: live.update(Group(*(panel(s) for s in said)))
    else:
        yield _silent  # each change is an event in the log


@contextmanager
def _progress(line: str) -> Iterator[None]:
    """Show a line on a terminal's stderr while something runs."""
    if not sys.stderr.isatty():
        yield
        return
    say_over(line)
    try:
        yield
    finally:
        say_over("")


def _silent(_said: Sequence[FlowMoment]) -> None:
    """Show nothing."""


def _lines(said: Sequence[FlowMoment]) -> None:
    for s in said:
        if s.changed:
            emit_line(s.moment.as_dict() | {"command": s.command})


def in_short(said: FlowMoment) -> str:
    """The last result for a flow, for people."""
    return in_words(said.moment.flow, said.moment.verdict, said.command)


def panel(said: FlowMoment) -> Panel:
    """The current state of one flow."""
    moment, picture, verdict = said.moment, said.moment.picture, said.moment.verdict
    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="bold")
    rows.add_column()
    color = _COLORS[verdict.kind]
    rows.add_row("verdict", Text(verdict.name, style=f"bold {color}"))
    phi = "no heartbeat yet" if picture.phi is None else f"phi {picture.phi:.1f} of {picture.threshold:g}"
    silence = "" if picture.beat_silence is None else f", the last {picture.beat_silence:.1f} s ago"
    rows.add_row("heartbeats", Text(phi + silence))
    rows.add_row("primary", Text(moment.picture.seen.sight.value))
    for line in verdict.evidence[:_LINES]:
        rows.add_row("", Text(visible(line), style="dim"))
    if picture.fence_owed:
        rows.add_row("fence pending", Text(visible(picture.fence_owed), style="red"))
    rows.add_row("a failover now would lose", Text(visible(picture.risk.in_words)))
    if len(moment.votes) > 1 or picture.tally.observers > 1:
        rows.add_row("votes", Text(visible("; ".join(picture.tally.in_words()))))
    for agent in moment.agents:
        how = "has fenced" if agent.fenced else agent.hold.value
        rows.add_row("fence agent", Text(visible(f"{agent.agent}: {how}")))
    for finding in moment.sensed.findings:
        rows.add_row("target", Text(visible(finding.text), style="red" if finding.blocks else "yellow"))
    if picture.paused:
        rows.add_row("failovers", Text(visible(picture.paused), style="magenta"))
    rows.add_row("next", Text(visible(said.command or verdict.next), style="bold" if said.command else ""))
    return Panel(rows, title=Text(visible(moment.flow)), border_style=color)
