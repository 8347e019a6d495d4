"""A failover on paper: the product's interpreter and table, and a primary that comes and goes.

The adversary moves at every entry of the journal, which is whenever the orchestrator leaves its own memory:
nothing moves between a look and the entry that follows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
import random
from types import SimpleNamespace
from typing import Any

from drkit.errors import DrkitError, Refused
from drkit.failover.core.context import StepProgress
from drkit.failover.core.step import Step, StepEffect, StepResult
from drkit.failover.interpreter import Interpreter
from drkit.journal.entries import EntryKind, JournalEntry, RunLog
from drkit.journal.journal import Journal, RunLocked
from drkit.journal.machine import FAILOVER, ORDER, RunState, StepName
from drkit.journal.stall import Stall
from drkit.kafka.transport import may_send
from tests.support.errors import made

_S = StepName


class Killed(Exception):
    """The orchestrator's process ends here."""


@dataclass
class World:
    """What is true, whether or not any process knows it."""

    reachable: bool = True
    """By the orchestrator; applications reach the primary always, until it is fenced."""
    fenced: bool = False
    written: int = 10
    copied: int = 10
    committed: int = 3
    """Where the group is on the primary."""
    frozen: bool = False
    opened: bool = False
    placed: int | None = None
    """Where the group is on the standby."""
    lift_pending: bool = False
    moves: list[str] = field(default_factory=list)

    def move(self, chance: random.Random) -> None:
        """One change from outside."""
        self.moves.append(chance.choice(("cut", "heal", "write", "write", "copy", "commit", "lift", "rest")))
        match self.moves[-1]:
            case "cut" | "heal":
                self.reachable = self.moves[-1] == "heal"
            case "write" if not self.fenced:
                self.written += 1
            case "copy" if not self.frozen:
                self.copied = self.written
            case "commit" if not self.opened:
                self.committed = min(self.committed + 1, self.written)
            case "lift" if chance.random() < 0.2:
                self.fenced = False


class Memory(Journal):
    """A journal in memory that survives the process, and in which the adversary moves."""

    def __init__(self, world: World, chance: random.Random, kill_at: int | None) -> None:
        self.world, self.chance, self.kill_at = world, chance, kill_at
        self._log = RunLog("r", 1)
        self.found: dict[StepName, dict[str, Any]] = {}
        self.calm = False
        self.stands_still_at: int | None = None
        self.overtaken: World | None = None
        """The world as another orchestrator left it, while this process was suspended."""
        self.seconds = 0.0

    @property
    def run(self) -> RunLog:
        return self._log

    def write(self, kind: EntryKind, step: StepName | None, effect: str, body: Mapping[str, Any]) -> None:
        number = len(self.run.entries)
        self.confirm()
        if kind is EntryKind.INTENT and step is FAILOVER.point_of_no_return and not self.world.opened:
            self._may_open()
        self.run.take(JournalEntry("r", number, "a", 1, kind, step, effect, number, dict(body)))
        if not self.calm:
            self.world.move(self.chance)
        if number == self.kill_at:
            raise Killed
        if number == self.stands_still_at:
            self.seconds += 60.0
            self.overtaken = replace(self.world)

    def confirm(self) -> None:
        if self.overtaken is not None:
            raise made(RunLocked, "it took over")

    def _may_open(self) -> None:
        w, loss = self.world, self.result(_S.DRAIN) or {}
        assert w.fenced or not w.reachable, "it opens beside a primary that answers and takes writes"
        assert w.frozen, "it opens while drkit may write"
        if w.reachable:
            assert loss["lost"] == w.written - w.copied, "what is lost is stated"
        assert w.placed == (self.result(_S.TRANSLATE) or {})["place"], "groups are where it says"


class Paper:
    """The context of one process."""

    def __init__(self, world: World, journal: Memory) -> None:
        self.world, self.journal = world, journal
        self.flow = SimpleNamespace(name="a->b", source="a")
        self.told: list[StepProgress] = []
        self.tell = self.told.append
        self.loop = SimpleNamespace(sleep=None)
        self.waited = 0.0

    def clock(self) -> float:
        return len(self.journal.run.entries) + self.waited

    def run(self, _sleep: object, seconds: float) -> None:
        self.waited += seconds

    def forget_admin(self) -> None:
        """No client is kept here."""

    def drop_source(self) -> None:
        """No connection is kept here."""

    def is_stopped(self) -> bool:
        return False

    def result(self, step: StepName) -> dict[str, Any]:
        return self.journal.result(step) or {}

    def effects(self, step: StepName) -> dict[str, dict[str, Any]]:
        return self.journal.run.effects.get(step, {})

    def look_at_source(self) -> object | None:
        return self if self.world.reachable else None


class Work(Step):
    """A step of the model; its name says what it does."""

    name: StepName = StepName.LOCK

    def __init__(self, name: StepName) -> None:
        self.name = name

    def plan(self, context: Any) -> list[StepEffect]:  # noqa: ARG002  the contract's
        return []

    def run(self, context: Any) -> StepResult:
        w = context.world
        match self.name:
            case _S.FENCE if w.reachable:
                with context.journal.effect(self.name, "acl", {}):
                    may_send()
                    w.fenced, w.lift_pending = True, False
                if not w.fenced:
                    raise made(Refused, "it takes writes")
                return StepResult({"how": "acl", "proven": True})
            case _S.FENCE:
                return StepResult({"how": "debt", "proven": False})
            case _S.DRAIN:
                if w.fenced and not w.frozen:
                    w.copied = w.written
                return StepResult({"lost": w.written - w.copied})
            case _S.FREEZE:
                with context.journal.effect(self.name, "writers", {}):
                    may_send()
                    w.frozen = True
            case _S.TRANSLATE:
                return StepResult({"place": min(w.committed, w.copied)})
            case _S.COMMIT_OFFSETS:
                with context.journal.effect(self.name, "groups", {}):
                    may_send()
                    w.placed = context.result(_S.TRANSLATE)["place"]
            case _S.OPEN:
                may_send()
                w.opened = True
        return StepResult({})

    def prove(self, context: Any) -> StepResult:
        w, how = context.world, context.result(self.name).get("how")
        broken = {
            _S.FENCE: w.reachable and (how == "debt" or not w.fenced),
            _S.FREEZE: not w.frozen,
            _S.COMMIT_OFFSETS: w.placed != context.result(_S.TRANSLATE).get("place"),
            _S.OPEN: not w.opened,
        }
        if broken.get(self.name):
            raise made(Refused, f"{self.name} does not hold")
        return StepResult()

    def undo(self, context: Any) -> StepResult:
        w = context.world
        may_send()
        if self.name is _S.FREEZE:
            w.frozen = False
        if self.name is _S.FENCE:
            w.lift_pending = w.fenced and not w.reachable
            w.fenced = w.fenced and not w.reachable
        return StepResult()


STEPS = {name: Work(name) for name in ORDER}


class Play:
    """A run by a chance of its own: processes are killed, and others resume or abort."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.world = World()
        self.journal = Memory(self.world, self.chance, self._when())
        self.journal.write(EntryKind.RUN, None, "", {"holder": {}})

    def _when(self) -> int | None:
        return self.chance.randrange(3, 60) if self.chance.random() < 0.7 else None

    def process(self, *, abort: bool) -> None:
        """One process works at the run until it is killed, held or done."""
        self.journal.found = {}
        stall = Stall(lambda: self.journal.seconds)
        interpreter = Interpreter(Paper(self.world, self.journal), self.journal, STEPS, stall)  # type: ignore[arg-type]
        try:
            if abort or self.run.state is RunState.ABORTING:
                interpreter.abort("why")
            else:
                interpreter.walk()
        except (Killed, DrkitError):
            pass

    def to_the_end(self) -> None:
        """Chances first; then the adversary rests, and the commands that are offered have to work."""
        self.process(abort=False)
        for _ in range(4):
            if self.run.state.is_over:
                return
            self.journal.kill_at = len(self.run.entries) + self.chance.randrange(1, 40)
            self.journal.write(EntryKind.HOLD, None, "", {"holder": {}})
            self.process(abort=self.run.abortable and self.chance.random() < 0.3)
        if not self.run.state.is_over:
            self.journal.calm, self.journal.kill_at = True, None
            self.journal.write(EntryKind.HOLD, None, "", {"holder": {}})
            self.process(abort=False)

    @property
    def run(self) -> RunLog:
        return self.journal.run
