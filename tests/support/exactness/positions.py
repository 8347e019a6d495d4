"""How the tests ask drkit for positions: only this module knows the commands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
import json
from pathlib import Path
import subprocess
import sys
from typing import Any

from drkit.offsets import Unavailable
from drkit.offsets.translation import Exact, PartitionPosition, Translation
from tests.support.flows.exactness import places
from tests.support.flows.flow import Flow
from tests.support.spark.here import drkit_here

_ROOT = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class Partition:
    """What `drkit translate` answers about one partition, for many offsets at one moment."""

    place: PartitionPosition | Unavailable

    def forward(self, upstream: int) -> int | str:
        return self._said(self.place if isinstance(self.place, Unavailable) else self.place.forward(upstream))

    def backward(self, downstream: int) -> int | str:
        return self._said(
            self.place if isinstance(self.place, Unavailable) else self.place.backward(downstream)
        )

    @staticmethod
    def _said(answer: Translation) -> int | str:
        return answer.offset if isinstance(answer, Exact) else answer.reason


def ask(flow: Flow, topic: str) -> dict[int, Partition]:
    """What the translation says of all partitions of a topic, by the code of `drkit translate`."""
    return {p: Partition(place) for p, place in places(flow, topic).items()}


class Command:
    """drkit's commands as a user runs them, with one configuration file."""

    def __init__(self, config: Path) -> None:
        self._config = config

    def run(self, *arguments: str, seconds: float = 150.0) -> tuple[int, str]:
        """The exit code and what it said."""
        done = subprocess.run(
            [sys.executable, "-m", "drkit", *arguments, "--config", str(self._config)],
            cwd=_ROOT, capture_output=True, text=True, timeout=seconds, check=False,
        )  # fmt: skip
        return self._answer(done)

    @staticmethod
    def _answer(done: subprocess.CompletedProcess[str]) -> tuple[int, str]:
        assert done.returncode in {0, 3}, f"drkit {done.args}: {done.returncode}\n{done.stderr[-3000:]}"
        return done.returncode, done.stdout

    def translate(self, topic: str, offsets: Iterable[int]) -> dict[int, int | str]:
        """`drkit translate --json` for offsets of partition 0: the target's offset, or the reason."""
        out: dict[int, int | str] = {}
        for offset in offsets:
            one = ("--topic", topic, "--partition", "0", "--offset", str(offset))
            line: dict[str, Any] = json.loads(self.run("translate", "--json", *one)[1])[0]
            out[offset] = line["to_offset"] if line["answer"] == "exact" else str(line["note"])
        return out


class CommandHere(Command):
    """The same, in the process of the tests."""

    def run(self, *arguments: str, seconds: float = 150.0) -> tuple[int, str]:  # noqa: ARG002  it ends by itself
        """The exit code and what it said."""
        return self._answer(drkit_here(*arguments, "--config", str(self._config)))
