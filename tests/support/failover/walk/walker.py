"""One pair, walked: the failover begins, something happens at an entry, and the operator ends it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Self

from drkit.exercise.events import CommandEnded
from drkit.exercise.processes import Child
from drkit.journal.machine import RunState
from tests.support.children import finish, run_until
from tests.support.failover.walk.events import ANOTHER, CHANGES
from tests.support.failover.walk.operator import Operator
from tests.support.failover.walk.pairs import Pair
from tests.support.failover.walk.stage import ELSEWHERE, HERE, Scene, Stage, shown
from tests.support.failover.walk.truth import check

_SLEEP_SECONDS = 60.0
_LATEST = 8
"""An event passes after at most this number of entries, or when the command has ended."""


class Walked(NamedTuple):
    """What became of a pair."""

    reached: bool
    """The entry was written."""
    refused: bool
    """The first command did not end it."""
    commands: tuple[str, ...]
    state: RunState | None


class Stages:
    """The stage that is up; another one where a pair left it beyond repair. Use it in a ``with``."""

    def __init__(self) -> None:
        self._up: Stage | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        up, self._up = self._up, None
        if up is not None:
            up.__exit__()

    def walk(self, pair: Pair, folder: Path, seed: int) -> Walked:
        """Walk a pair, and check what must hold after it."""
        self._up = self._up or Stage().__enter__()
        try:
            return walk(self._up, pair, folder, seed)
        except BaseException:
            self.__exit__()
            raise


def walk(stage: Stage, pair: Pair, folder: Path, seed: int) -> Walked:
    """Walk a pair, and check what must hold after it."""
    chance = pair.chance(seed)
    with stage.scene(pair, folder) as scene:
        # An orchestrator that another one may take over from is on a machine that cannot be seen from here.
        running = scene.types(*scene.begins, host=ELSEWHERE if pair.event in ANOTHER else HERE)
        at = run_until(running, pair.is_at)
        said: list[CommandEnded] = []
        if at is None:
            assert running.result is not None
            said = [running.result]
        elif pair.event in ANOTHER:
            said.append(finish(scene.types("failover", ANOTHER[pair.event])))
            running.proceed(_SLEEP_SECONDS)
            said.append(finish(running))
        elif pair.event == "orchestrator-sleeps":
            running.proceed(_SLEEP_SECONDS)
            said = [finish(running)]
        elif pair.event == "orchestrator-dies":
            said = [running.kill(), finish(scene.types("failover", "--resume"))]
        else:
            said = [_changed(scene, running, pair.event, chance.randrange(_LATEST))]
        operator = Operator(scene, chance)
        operator.typed += said[:-1]
        try:
            state: RunState | None = operator.to_the_end(said[-1], scene.begins)
            if state is not RunState.DONE:
                check(scene, state)
                ended = finish(scene.types(*opens(scene)))
                state_then = operator.to_the_end(ended, opens(scene))
                assert state_then is RunState.DONE, (
                    f"after {state} the standby cannot be opened: {state_then}"
                )
            check(scene, RunState.DONE)
        except AssertionError as error:
            error.add_note("\n".join(map(shown, operator.typed)))
            raise
        commands = tuple(shown(s) for s in operator.typed)
        return Walked(at is not None, said[-1].code != 0, commands, state)


def opens(scene: Scene) -> tuple[str, ...]:
    """What opens the standby, whatever became of the first command."""
    words = [w for w in scene.begins if w != "--planned"]
    return (*words, "--accept-data-loss", "the walk")


def _changed(scene: Scene, running: Child, event: str, later: int) -> CommandEnded:
    begins, passes = CHANGES[event]
    begins(scene)
    running.proceed()
    if passes is None:
        return finish(running)
    left = iter(range(later, -1, -1))
    if run_until(running, lambda _: next(left, 0) == 0) is not None:
        passes(scene)
        running.proceed()
        return finish(running)
    passes(scene)
    assert running.result is not None
    return running.result
