"""The actions of scenario files: faults, commands of drkit, waiting, clients.

Chaos Toolkit calls them by name. An action that fails is recorded, so that the verdict is never `pass` by
what did not happen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
import shlex
from typing import Any, Final

from drkit.chaos.faults import END, FAULTS, begin_fault, end_faults
from drkit.chaos.run import current_stage, recorded
from drkit.chaos.scenario import Scenario
from drkit.chaos.stage import OPERATOR, ScenarioStage
from drkit.detect.verdict import VerdictKind
from drkit.errors import Failed
from drkit.exercise.history import (
    PRIMARY,
    STANDBY,
    CopyEnded,
    E,
    FaultBegan,
    FaultEnded,
    JournalEntered,
    NotAcked,
    Observed,
)
from drkit.exercise.processes import Child
from drkit.journal.machine import StepName

EXPORT: Final = "EXPORT_FOLDER"
"""In the words of a command: the folder of this run for exports."""
_HERE, _ELSEWHERE = "here", "elsewhere"
_SOURCES: Final = {"forth": PRIMARY, "back": STANDBY}
"""The cluster from which each direction copies."""
_RIVAL, _EVERY = "rival orchestrator", "every"
_REFUSED_WRITES: Final = 3
_UNTIL: Final = ("acked", "protected", "refused", "verdict", "left", "fenced")
Then = str | Mapping[str, Any]
"""The action at an entry: the name of a fault, or ``{drkit: [words], ...}`` for another orchestrator."""


def unknown_names(scenario: Scenario) -> list[str]:
    """Return the faults, steps and conditions of a scenario that do not exist. Raises as for a wrong type."""
    calls = (activity["provider"] for activity in scenario.experiment["method"])
    arguments = [(call["func"], call.get("arguments") or {}) for call in calls]
    triggers = [trigger for _, each in arguments for trigger in each.get("at", ())]
    faults = [each["name"] for func, each in arguments if func == fault.__name__]
    faults += [name for trigger in triggers for name in trigger["then"] if isinstance(name, str)]
    faults = [name.removeprefix(f"{END} ") for name in faults] + [name for name, _ in scenario.exercises]
    steps = [step for _, step in scenario.exercises] + [t["entry"].split(" ")[0] for t in triggers]
    known, entries = {*FAULTS, _RIVAL}, {_EVERY, *StepName, *VerdictKind.__members__}
    untils = [each["until"].split(" ")[0] for func, each in arguments if func == wait.__name__]
    wrong = [n for n in faults if n not in known] + [step for step in steps if step not in entries]
    return wrong + [until for until in untils if until not in _UNTIL]


@recorded("action fault")
def fault(name: str, **options: Any) -> str:
    """Begin a fault, such as ``kill primary``, or end it: ``end kill primary``."""
    begin_fault(current_stage(), name, **options)
    return name


@recorded("action drkit")
def drkit(
    words: Sequence[str],
    at: Sequence[Mapping[str, Any]] = (),
    expect: Sequence[int | str | None] = (0,),
    machine: str = _HERE,
    resume: Sequence[str] = (),
) -> int | None:
    """Type a command; while it waits at entries of its journal, faults happen. Return its exit code.

    :param at: ``{entry: "OPEN intent", then: [...]}``: at the first such entry, what happens there; as entry
        also ``OPEN effect intent``, or ``every``: at each entry at which it has not happened yet
    :param expect: what the scenario allows: exit codes, codes of errors; None for a killed process
    :param machine: here, or elsewhere: where the processes of this machine cannot be seen
    :param words: after `drkit`; ``EXPORT_FOLDER`` is the folder of this run for exports
    :param resume: the command to type after an orchestrator was killed at `every` entry
    """
    stage, triggers = current_stage(), [_Trigger(**each) for each in at]
    words = [str(stage.export_folder) if word == EXPORT else word for word in words]
    child = _type(stage, words, triggers, machine)
    while child.ended().code is None and resume:
        child = _type(stage, resume, triggers, machine)
    ended = child.ended()
    stage.tell("ended", ended.outcome)
    ended, where = replace(ended, expected=[*expect]), ended.typed
    stage.recorder.record(ended)
    if not ended.is_expected:
        evidence = str(ended.error or child.printed[-500:])
        raise Failed(
            "chaos_command_failed", where=where, evidence=evidence, error_code=ended.code, expect=[*expect]
        )
    if unused := [t.entry for t in triggers if not (t.fired or t.never)]:
        raise Failed("trigger_never_fired", where=where, entries=", ".join(unused))
    return ended.code


@dataclass
class _Trigger:
    """Actions at an entry of the journal, once; or once at each different entry."""

    entry: str
    then: Sequence[Then]
    never: bool = False
    """True for an entry that must not come: `then` kills the command there."""
    fired: set[str] = field(default_factory=set, init=False)
    """The entries at which they happened."""

    def is_due(self, e: JournalEntered) -> bool:
        """Return whether it happens at this entry; that counts as its time."""
        name = f"{e.step} {'effect ' if e.effect else ''}{e.kind}".strip()
        time = f"{name} {e.effect}" if self.entry == _EVERY else self.entry
        is_due = self.entry in {_EVERY, name} and time not in self.fired
        self.fired |= {time} if is_due else set()
        return is_due


def _type(stage: ScenarioStage, words: Sequence[str], triggers: Sequence[_Trigger], machine: str) -> Child:
    stage.tell("command", shlex.join(("drkit", *words)))
    config = stage.config(OPERATOR if machine == _HERE else _ELSEWHERE)
    child = stage.parent.run_command(config, *words, elsewhere=machine != _HERE)
    outer, stage.orchestrator = stage.orchestrator, child
    try:
        while (entry := child.next_entry()) is not None:
            stage.recorder.record(entry)
            stage.tell("entry", f"{entry.step} {entry.kind}" if not entry.effect else "")
            for each in (each for t in triggers if t.is_due(entry) for each in t.then):
                _trigger_action(stage, each)
            child.proceed()
    finally:
        stage.orchestrator = outer
    return child


def _trigger_action(stage: ScenarioStage, what: Then) -> None:
    """Let something happen while a command waits."""
    if isinstance(what, Mapping):
        options = {"machine": _ELSEWHERE, **what}
        words = options.pop("drkit")
        stage.recorder.record(FaultBegan(_RIVAL, " ".join(words), lasts=True))
        drkit(words, **options)
        stage.recorder.record(FaultEnded(_RIVAL))
    else:
        begin_fault(stage, what)


@recorded("action wait")
def wait(until: str, records: int = 20, by: str = "writer", seconds: float = 60.0) -> str:
    """Wait for a state of the pair, never for a time.

    :param until: such as ``acked``, ``fenced``, ``protected forth``, ``left primary shop``, ``verdict LOST``
    :param records: how many records `acked` waits for
    :param by: the client of `acked`
    """
    stage, (what, _, rest) = current_stage(), until.partition(" ")
    began = len(stage.history().events)

    def recent(kind: type[E]) -> list[E]:
        return [e for e in stage.history().events[began:] if isinstance(e, kind)]

    conditions: dict[str, Callable[[], bool]] = {
        "refused": lambda: sum(e.is_refused for e in recent(NotAcked)) >= _REFUSED_WRITES,
        "verdict": lambda: any(rest in {e.verdict, f"{e.verdict} {e.reason}"} for e in recent(Observed)[-1:]),
        "left": lambda: not stage.has_members(*rest.split(" ", 1)),
        "fenced": lambda: any(e.was_fenced for e in stage.history().of(CopyEnded)),
    }
    stage.tell("wait", until)
    if what == "acked":
        stage.wait_acked(records, by, seconds)
    elif what == "protected":
        stage.wait_protected(_SOURCES[rest])
    else:
        stage.wait_for(conditions[what], until, seconds)
    return until


@recorded("action observe")
def observe() -> str:
    """Start an observer, as of `drkit watch`; it works until `stop` names it."""
    stage = current_stage()
    stage.start_client("observer", "observer", config=str(stage.config()))
    return "observer"


@recorded("action stop")
def stop(clients: Sequence[str]) -> str:
    """Stop clients: writer, transactions, till, shop, observer."""
    current_stage().stop_clients(*clients)
    return ", ".join(clients)


@recorded("action replicate")
def replicate(direction: str) -> str:
    """Start the replicator of a direction, `forth` or `back`; the other one is stopped."""
    stage, source = current_stage(), _SOURCES[direction]
    while stage.replicators:
        stage.kill_replicator()
    for name in [name for name in stage.faults if name.endswith("replicator")]:
        del stage.faults[name]  # it is not restored: another one works now
        stage.recorder.record(FaultEnded(name))
    stage.start_replicator(source)
    stage.tell("replicate", stage.flows[source].name)
    return direction


@recorded("action heal")
def heal() -> str:
    """End every fault that is in force."""
    end_faults(current_stage())
    return PRIMARY
