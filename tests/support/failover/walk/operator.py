"""An operator who has only what drkit prints: types the offered commands until the failover is over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
import random
import re
import shlex
from typing import Any, Final

from drkit.exercise.events import CommandEnded
from drkit.journal.machine import RunState
from tests.support.children import finish
from tests.support.failover.walk.stage import Scene, shown

_MOST_COMMANDS: Final = 9
_PATIENCE: Final = 2
"""After this number of equal refusals the operator repairs what is broken."""
_CONFIG: Final = r"--config \S+"
_GROUP: Final = r"[A-Za-z0-9.-]*-(?:fresh|orders|pay)"
_WORD: Final = rf"{_CONFIG}|{_GROUP}|--[a-z-]+|\"REASON\"|'[^']*'|show|pay|lift|resume"
_COMMAND: Final = re.compile(
    rf"drkit (?:{_CONFIG} )?(?:failover|fence|replicate|watch)(?: (?:{_WORD}))*"
    rf"|without --planned|--(?!config)[a-z-]+(?: (?:{_WORD}))*"
)
_OVER: Final = frozenset({RunState.DONE, RunState.ABORTED, RunState.REFUSED})


class Locked(AssertionError):
    """No printed command led to an end."""


class Operator:
    """One night of one operator.

    :param chance: decides between commands that are offered
    """

    def __init__(self, scene: Scene, chance: random.Random) -> None:
        self._scene, self._chance = scene, chance
        self.typed: list[CommandEnded] = []
        self._refused: dict[str, int] = {}
        self._tried: set[tuple[str, ...]] = set()

    def to_the_end(self, first: CommandEnded, begins: Sequence[str]) -> RunState:
        """Type commands until the run is over; how it ended.

        :param begins: what is typed where no run is under way
        """
        said, begins = first, tuple(begins)
        for _ in range(_MOST_COMMANDS):
            self.typed.append(said)
            run = self._scene.last_run()
            if said.code == 0 and run is not None and run.state in _OVER:
                return run.state
            open_ = run is not None and not run.state.is_over
            if run is not None and not open_ and self._is_known(said, run.state):
                return run.state
            if said.error:
                self._clear(said.error)
            words = self._next(said, begins, open_=open_)
            if words[0] == "replicate":
                self._scene.replicate_anew()
                words = ("failover", "--resume") if open_ else begins
            said = finish(self._scene.types(*words))
        raise Locked("no command ended it:\n" + "\n".join(map(shown, self.typed)))

    def _is_known(self, said: CommandEnded, state: RunState) -> bool:
        """Whether a run that is over is the answer to what was asked, or the question is still open."""
        return state in {RunState.DONE, RunState.ABORTED} and said.words[:1] == ["failover"]

    def _clear(self, error: dict[str, Any]) -> None:
        """What is refused again and again has a cause: it is repaired; a dead primary remains dead."""
        what = str(error["error"])
        self._refused[what] = self._refused.get(what, 0) + 1
        if self._refused[what] >= _PATIENCE:
            self._scene.heal(primary=False)
            if self._scene.pair.kind != "dead":  # no replicator begins without its source
                self._scene.replicate_anew()

    def _next(self, said: CommandEnded, begins: tuple[str, ...], *, open_: bool) -> tuple[str, ...]:
        offered = list(dict.fromkeys(self._offered(said, begins, open_=open_)))
        fresh = [words for words in offered if words not in self._tried]
        default = ("failover", "--resume") if open_ else begins
        words = self._chance.choice(fresh or offered or [default])
        self._tried.add(words)
        return words

    def _offered(
        self, said: CommandEnded, begins: tuple[str, ...], *, open_: bool
    ) -> Iterator[tuple[str, ...]]:
        for found in _COMMAND.findall(str(said.error.get("hint", ""))):
            if found == "without --planned":
                if not open_:
                    yield tuple(w for w in begins if w != "--planned")
                continue
            words = tuple(self._filled(found))
            if words[0].startswith("--"):
                words = ("failover", *words)
            flags = [w for w in words[1:] if w.startswith("--")]
            if words[0] == "failover" and not {"--resume", "--abort"} & set(flags):
                if "--planned" in flags and (open_ or "--planned" not in begins):
                    continue
                words = ("failover", "--resume", *words[1:]) if open_ else (*begins, *words[1:])
                words = tuple(dict.fromkeys(words))  # a hint may print the whole command
            if words[0] == "failover" and not open_ and {"--resume", "--abort"} & set(flags):
                continue
            if len(words) > 1:
                yield words

    @staticmethod
    def _filled(command: str) -> Iterator[str]:
        # The scene adds the file itself: on another machine it has another name.
        for word in shlex.split(re.sub(rf"{_CONFIG} ?", "", command.removeprefix("drkit "))):
            yield "the walk" if word == "REASON" else word
