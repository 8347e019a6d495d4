"""A return on paper: the product's interpreter and table, a primary that changes, processes that die.

As in :mod:`tests.support.failover.paper.model` the adversary moves at every entry of the journal.
"""

from __future__ import annotations

from dataclasses import dataclass, field
import random
from typing import Any

from drkit.errors import DrkitError, Refused
from drkit.failover.core.step import Step, StepEffect, StepResult
from drkit.failover.interpreter import Interpreter
from drkit.journal.entries import EntryKind, RunLog
from drkit.journal.machine import RETURN, RunState, StepName
from drkit.journal.stall import Stall
from drkit.kafka.transport import may_send
from tests.support.errors import made
from tests.support.failover.paper.model import Killed, Memory, Paper

_S = StepName


@dataclass
class ReturnWorld:
    """The old primary, with the state of the reverse flow on it."""

    reachable: bool = True
    fenced: bool = True
    members: bool = False
    end: int = 10
    """Ten records were copied; what is more is there only."""
    promoted: bool = True
    """The role that an earlier switchover in the other direction gave it."""
    commits: tuple[str, ...] = ("own", "own")
    producer_id: int = 7
    seeded_at: int | None = None
    may_copy: bool = False
    moves: list[str] = field(default_factory=list)

    def move(self, chance: random.Random) -> None:
        """One change from outside."""
        self.moves.append(chance.choice(("cut", "heal", "heal", "join", "leave", "leave", "lift", "write")))
        match self.moves[-1]:
            case "cut" | "heal":
                self.reachable = self.moves[-1] == "heal"
            case "join" | "leave":
                self.members = self.moves[-1] == "join"
            case "lift" if chance.random() < 0.1:
                self.fenced = False
            case "write" if not self.fenced and not self.may_copy:
                self.end += 1


class ReturnWork(Step):
    """A step of the model; its name says what it does."""

    name: StepName = StepName.LOCK

    def __init__(self, name: StepName) -> None:
        self.name = name

    def plan(self, context: Any) -> list[StepEffect]:  # noqa: ARG002  the contract's
        return []

    def run(self, context: Any) -> StepResult:
        w = context.world
        if self.name is not _S.LOCK and not w.reachable:
            raise made(Refused, f"{self.name}: it does not answer")
        match self.name:
            case _S.CONTACT:
                self._fenced(w)
                if w.members:
                    raise made(Refused, "a group has members")
            case _S.COMPARE:
                if w.end != 10:
                    raise made(Refused, "it is not what was copied")
                return StepResult({"end": w.end})
            case _S.DEMOTE:
                self._fenced(w)
                self._demote(context)
            case _S.BEGIN:
                self._begin(context)
        return StepResult({})

    def _fenced(self, w: ReturnWorld) -> None:
        if not w.fenced:
            raise made(Refused, "it takes writes")

    def _intent(self, context: Any, name: str, fresh: dict[str, Any]) -> dict[str, Any]:
        known = context.journal.effects(self.name).get(name)
        found: dict[str, Any] = known["intent"] if known is not None else fresh
        return found

    def _demote(self, context: Any) -> None:
        w = context.world
        before = self._intent(context, "groups", {"before": list(w.commits)})
        with context.journal.effect(self.name, "groups", before):
            may_send()
            w.commits = tuple("drkit's" for _ in w.commits)
        roles = self._intent(context, "roles", {"promoted": w.promoted})
        with context.journal.effect(self.name, "roles", roles):
            may_send()
            w.promoted = False
        ended = self._intent(context, "producer", {"ended": w.producer_id})
        with context.journal.effect(self.name, "producer", ended):
            may_send()
            w.producer_id = int(ended["ended"]) + 1

    def _begin(self, context: Any) -> None:
        w, effects = context.world, context.journal.effects(self.name)
        if "lift" not in effects:
            self._fenced(w)
            if w.end != context.result(_S.COMPARE)["end"]:
                raise made(Refused, "it has changed since it was compared")
            with context.journal.effect(self.name, "seeds", {"at": w.end}):
                may_send()
                w.seeded_at = w.end
        with context.journal.effect(self.name, "lift", {}):
            may_send()
            w.fenced = False
        may_send()
        w.may_copy = True

    def prove(self, context: Any) -> StepResult:
        w = context.world
        broken = {_S.DEMOTE: w.promoted, _S.BEGIN: not w.may_copy}
        if broken.get(self.name):
            raise made(Refused, f"{self.name} does not hold")
        return StepResult()

    def undo(self, context: Any) -> StepResult:
        w, effects = context.world, context.journal.effects(self.name)
        may_send()
        if w.may_copy:
            return StepResult()  # it is copied on
        if self.name is _S.BEGIN and "lift" in effects:
            w.fenced = True
        if self.name is _S.DEMOTE:
            if "groups" in effects:
                w.commits = tuple(effects["groups"]["intent"]["before"])
            if "roles" in effects:
                w.promoted = effects["roles"]["intent"]["promoted"]
        return StepResult()


RETURN_STEPS = {name: ReturnWork(name) for name in RETURN.order}


class ReturnPlay:
    """A return whose processes are killed, and others resume or abort it.

    :param kill_at: number of the entry at which the first process dies
    """

    def __init__(self, seed: int, kill_at: int | None, *, calm: bool) -> None:
        self.chance = random.Random(seed)
        self.world = ReturnWorld()
        self.journal = Memory(self.world, self.chance, None)  # type: ignore[arg-type]
        self.journal.calm = True
        self.journal.write(EntryKind.RUN, None, "", {"holder": {}, "table": RETURN.name})
        self.journal.calm, self.journal.kill_at = calm, kill_at

    def process(self, *, abort: bool) -> DrkitError | None:
        """One process works at the run until it is killed, held or done; returns what stopped it."""
        self.journal.found = {}
        stall = Stall(lambda: self.journal.seconds)
        paper = Paper(self.world, self.journal)  # type: ignore[arg-type]
        interpreter = Interpreter(paper, self.journal, RETURN_STEPS, stall)  # type: ignore[arg-type]
        try:
            if abort or self.run.state is RunState.ABORTING:
                interpreter.abort("why")
            else:
                interpreter.walk()
        except Killed:
            return None
        except DrkitError as error:
            return error
        return None

    def again(self, *, abort: bool) -> DrkitError | None:
        """The next process."""
        self.journal.write(EntryKind.HOLD, None, "", {"holder": {}})
        return self.process(abort=abort)

    def to_the_end(self) -> None:
        """Chances first; then the adversary rests, and what is offered has to work."""
        self.process(abort=False)
        for _ in range(4):
            if self.run.state.is_over:
                return
            self.journal.kill_at = len(self.run.entries) + self.chance.randrange(1, 30)
            try:
                self.again(abort=self.run.abortable and self.chance.random() < 0.3)
            except Killed:
                continue
        self.journal.calm, self.journal.kill_at = True, None
        self.world.reachable, self.world.members = True, False
        for abort in (False, True):
            if not self.run.state.is_over:
                self.again(abort=abort)

    @property
    def run(self) -> RunLog:
        return self.journal.run
