"""The actions of scenario files: faults, commands of drkit, waiting, clients.

Chaos Toolkit calls them by name. An action that fails is recorded, so that the verdict is never `pass` by
what did not happen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
import shlex
import sys
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field, PositiveInt, ValidationError, validate_call

from drkit.catalogue import ERRORS
from drkit.chaos.faults import END, FAULTS, begin_fault, end_faults
from drkit.chaos.run import current_stage, recorded
from drkit.chaos.scenario import Scenario
from drkit.chaos.stage import LIVE_GROUP, OPERATOR, WRITERS, ScenarioStage
from drkit.detect.verdict import VerdictKind
from drkit.errors import Failed
from drkit.exercise.events import (
    PRIMARY,
    STANDBY,
    CopyEnded,
    FaultBegan,
    FaultEnded,
    JournalEntered,
    NotAcked,
    Observed,
)
from drkit.exercise.history import E
from drkit.exercise.processes import Child
from drkit.journal.entries import EntryKind
from drkit.journal.machine import StepName

EXPORT: Final = "EXPORT_FOLDER"
"""In the words of a command: the folder of this run for exports."""
_HERE, _ELSEWHERE = "here", "elsewhere"
_SOURCES: Final = {"forth": PRIMARY, "back": STANDBY}
"""The cluster from which each direction copies."""
_RIVAL, _EVERY = "rival orchestrator", "every"
_REFUSED_WRITES: Final = 3
_PROBES: Final = frozenset({"drkit.chaos.probes.holds"})
_NAMES: Final = ("fault", "drkit", "wait", "observe", "stop", "replicate", "heal")
_ACTIONS: Final = frozenset(f"{__name__}.{name}" for name in _NAMES)
"""All that a scenario may call."""


def _one_of(*words: str) -> Any:
    return Field(pattern=f"^({'|'.join(words)})$")


_STEPS, _VERDICTS = "|".join(StepName), "|".join(VerdictKind.__members__)
Change = Annotated[str, _one_of(f"({END} )?({'|'.join(FAULTS)})")]
"""The name of a fault, to begin it; or to end it."""
Entry = Annotated[str, _one_of(_EVERY, f"({_STEPS}) (effect )?({'|'.join(EntryKind)})")]
Direction = Annotated[str, _one_of(*_SOURCES)]
Machine = Annotated[str, _one_of(_HERE, _ELSEWHERE)]
Duration = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Writer = Annotated[str, _one_of(*WRITERS)]
Client = Annotated[str, _one_of(*WRITERS, LIVE_GROUP, "observer")]
Expected = int | Annotated[str, _one_of(*ERRORS)] | None
"""An exit code, the code of an error, or None for a killed process."""
_UNTIL: Final = ("acked|refused|fenced", "protected (forth|back)", f"verdict ({_VERDICTS})( .+)?")
Until = Annotated[str, _one_of(*_UNTIL, f"left ({PRIMARY}|{STANDBY}) [^ ]+")]


@dataclass
class Rival:
    """A command of another orchestrator, on another machine."""

    drkit: Sequence[str]
    expect: Sequence[Expected] = (0,)


@dataclass
class Trigger:
    """Actions at an entry of the journal, once; or once at each different entry."""

    entry: Entry
    then: Sequence[Change | Rival]
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


checked: Final = validate_call(config=ConfigDict(extra="forbid"))
"""Lets an action check its arguments."""


def unknown_names(scenario: Scenario) -> list[str]:
    """Return words and arguments in a scenario that do not exist, or have a wrong type."""
    unknown = [fault for fault, _ in scenario.exercises if fault not in {*FAULTS, _RIVAL}]
    unknown += [step for _, step in scenario.exercises if step not in {*StepName, *VerdictKind.__members__}]
    probes = scenario.experiment["steady-state-hypothesis"]["probes"]
    unknown += ["a second probe"] if len(probes) > 1 else []
    actions = (*scenario.experiment["method"], *(scenario.experiment.get("rollbacks") or ()))
    calls = [(each["provider"], _PROBES) for each in probes]
    for call, known in (*calls, *((each["provider"], _ACTIONS) for each in actions)):
        function, arguments = getattr(sys.modules[call["module"]], call["func"]), call.get("arguments") or {}
        if (name := f"{call['module']}.{call['func']}") not in known:
            unknown.append(name)
            continue
        try:
            checked(wraps(function)(lambda *_, **__: None))(**arguments)
        except ValidationError as error:
            problems = error.errors()
            words = [str(p["input"]) for p in problems if p["type"] == "string_pattern_mismatch"]
            unknown += words or [".".join(map(str, p["loc"])) for p in problems]
    return unknown


@recorded("action fault")
@checked
def fault(name: Change, delay_ms: Duration | None = None) -> str:
    """Begin a fault, such as ``kill primary``, or end it: ``end kill primary``; `delay_ms` is of ``slow``."""
    begin_fault(current_stage(), name, **({} if delay_ms is None else {"delay_ms": delay_ms}))
    return name


@recorded("action drkit")
@checked
def drkit(
    words: Annotated[Sequence[str], Field(min_length=1)],
    at: Sequence[Trigger] = (),
    expect: Sequence[Expected] = (0,),
    machine: Machine = _HERE,
    resume: Sequence[str] = (),
) -> int | None:
    """Type a command; while it waits at entries of its journal, faults happen. Return its exit code.

    :param at: ``{entry: "OPEN intent", then: [...]}``: at the first such entry, what happens there; as entry
        also ``OPEN effect intent``, or ``every``: at each entry at which it has not happened yet
    :param machine: here, or elsewhere: where the processes of this machine cannot be seen
    :param words: after `drkit`; ``EXPORT_FOLDER`` is the folder of this run for exports
    :param resume: the command to type after an orchestrator was killed at `every` entry
    """
    stage = current_stage()
    words = [str(stage.export_folder) if word == EXPORT else word for word in words]
    child = _type(stage, words, at, machine)
    while child.ended().code is None and resume:
        child = _type(stage, resume, at, machine)
    ended = child.ended()
    stage.tell("ended", ended.outcome)
    ended, where = replace(ended, expected=[*expect]), ended.typed
    stage.recorder.record(ended)
    if not ended.is_expected:
        evidence = str(ended.error or child.printed[-500:])
        raise Failed(
            "chaos_command_failed", where=where, evidence=evidence, error_code=ended.code, expect=[*expect]
        )
    if unused := [t.entry for t in at if not (t.fired or t.never)]:
        raise Failed("trigger_never_fired", where=where, entries=", ".join(unused))
    return ended.code


def _type(stage: ScenarioStage, words: Sequence[str], triggers: Sequence[Trigger], machine: str) -> Child:
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


def _trigger_action(stage: ScenarioStage, what: Change | Rival) -> None:
    """Let something happen while a command waits."""
    if isinstance(what, Rival):
        stage.recorder.record(FaultBegan(_RIVAL, " ".join(what.drkit), lasts=True))
        drkit(what.drkit, expect=what.expect, machine=_ELSEWHERE)
        stage.recorder.record(FaultEnded(_RIVAL))
    else:
        begin_fault(stage, what)


@recorded("action wait")
@checked
def wait(until: Until, records: PositiveInt = 20, by: Writer = "writer", seconds: Duration = 60.0) -> str:
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
@checked
def stop(clients: Sequence[Client]) -> str:
    """Stop clients: writer, transactions, till, shop, observer."""
    current_stage().stop_clients(*clients)
    return ", ".join(clients)


@recorded("action replicate")
@checked
def replicate(direction: Direction) -> str:
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
