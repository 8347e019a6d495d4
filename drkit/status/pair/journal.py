"""The run that is under way, from a journal's records. Pure.

`drkit status` only shows the journal. So it reads every table and every step, also of a later drkit, and
passes over what it does not understand; :mod:`drkit.failover.journal` refuses that.
"""

from __future__ import annotations

from collections.abc import Mapping
import json
from typing import Any, Final, NamedTuple

from drkit.flow_state.codec.parts import Parts
from drkit.next_command import typed

FAILOVER: Final = "failover"
RETURN: Final = "return"
"""The table of a run that makes the old primary passive."""
_OVER: Final = frozenset({"aborted", "refused", "done"})
_OPEN: Final = "OPEN"
_HOLDS: Final = frozenset({"run", "hold"})
_SILENT_SECONDS: Final = 15.0
"""A process that waits in a step writes an entry every 4 s."""
_SILENT_ELSEWHERE_SECONDS: Final = 60.0
"""For a process on another machine, whose clock may differ."""
_COMMANDS: Final = {FAILOVER: "failover", RETURN: "reprotect"}


class RunUnderWay(NamedTuple):
    """A run that has not ended."""

    run_id: str
    table: str
    topics: frozenset[str]
    """Names of the topics in its scope, on either side; empty: unknown, so any."""
    step: str = ""
    """The newest step that began; empty: none has begun."""
    held: str = ""
    """Why it waits for a person; empty: it does not."""
    aborting: bool = False
    has_opened: bool = False
    """Whether its step OPEN has begun: it is not aborted any more."""

    def covers(self, *names: str) -> bool:
        """Whether a topic with one of these names may be in its scope."""
        return not self.topics or not self.topics.isdisjoint(names)

    @property
    def in_words(self) -> str:
        """The step, and why it is held."""
        doing = f"rolling back, last {self.step or 'LOCK'}" if self.aborting else self.step or "LOCK"
        return f"{doing}, held: {self.held}" if self.held else doing

    def leads_on(self, flow: str) -> str:
        """What continues the run, and what rolls it back, as it is typed; empty: no person has to.

        :param flow: the name of the flow that its journal is of
        """
        verb = _COMMANDS.get(self.table)
        if not self.held or verb is None:
            return ""
        command = typed("drkit", verb, "--flow", flow)
        if self.aborting:
            return f"{command} --abort"
        rolls_back = f"; to roll it back: {command} --abort"
        return f"{command} --resume" + ("" if self.has_opened else rolls_back)


class JournalRuns:
    """Follows a journal, record by record."""

    def __init__(self) -> None:
        self.under_way: RunUnderWay | None = None
        """As the journal has it."""
        self.current: RunUnderWay | None = None
        """As seen last, see :meth:`see`."""
        self.fences: dict[str, str] = {}
        """Run → how its step FENCE ended."""
        self.holder: Mapping[str, Any] = {}
        """Host, process and token of the process that works at the run, or has."""
        self.written_ms = 0
        """When its newest entry was written, by the clock of its host."""
        self._seen: set[str] = set()
        self._parts = Parts()

    def take(self, value: bytes) -> None:
        """Take the next record; one that is no entry is passed over."""
        try:
            entry = self._whole(json.loads(value))
            if entry is not None:
                self._entry(entry)
                self.current = self.under_way
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return

    def _whole(self, raw: Mapping[str, Any]) -> Mapping[str, Any] | None:
        if "part_of" not in raw:
            return raw
        text = self._parts.take(raw)
        whole: Mapping[str, Any] | None = None if text is None else json.loads(text)
        return whole

    def _entry(self, entry: Mapping[str, Any]) -> None:
        kind, run_id, body = entry["kind"], entry["run_id"], entry["body"]
        if kind == "run" and self.under_way is None and run_id not in self._seen:
            self._seen.add(run_id)
            topics = body.get("scope", {}).get("topics", {})
            names = frozenset(topics) | frozenset(topics.values() if isinstance(topics, dict) else ())
            self.under_way = RunUnderWay(run_id, str(body.get("table") or FAILOVER), names)
        run = self.under_way
        if run is None or run.run_id != run_id:
            return
        if kind in _HOLDS:
            self.holder, self.under_way = dict(body["holder"]), run._replace(held="")
        elif entry["by"] != self.holder.get("token"):
            return  # an overtaken process does not count
        else:
            self._step(run, kind, entry)
        self.written_ms = int(entry["at_ms"])

    def see(self, now_ms: int, *, alive: bool | None) -> None:
        """Judge the run that is under way: it is held when its process is gone, or has been silent too long.

        :param alive: whether its process lives, or None if that is on another machine
        """
        run, silent = self.under_way, (now_ms - self.written_ms) / 1000
        if run is not None and not run.held:
            host = self.holder.get("host", "")
            if alive is False:
                run = run._replace(held=f"its process {self.holder.get('pid')} on {host} is gone")
            elif silent > (_SILENT_SECONDS if alive else _SILENT_ELSEWHERE_SECONDS):
                run = run._replace(held=f"its process on {host} has written nothing for {silent:.0f} s")
        self.current = run

    def _step(self, run: RunUnderWay, kind: str, entry: Mapping[str, Any]) -> None:
        step, body = str(entry["step"] or ""), entry["body"]
        if kind == "intent" and not entry["effect"]:
            self.under_way = run._replace(step=step, held="", has_opened=run.has_opened or step == _OPEN)
        elif kind == "result" and not entry["effect"] and step == "FENCE":
            self.fences[run.run_id] = str(body.get("evidence", {}).get("how", ""))
        elif kind == "held":
            error = body.get("error", {})
            text = error.get("error", "") if isinstance(error, dict) else str(error)
            self.under_way = run._replace(held=text or "it was refused")
        elif kind == "abort":
            self.under_way = run._replace(aborting=True, held="")
        elif kind == "end" and body.get("state") in _OVER:
            self.under_way = None
