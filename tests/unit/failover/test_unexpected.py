"""A step that meets what it does not foresee leaves a run that is held, and that `--resume` ends."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

from drkit.errors import Failed
from drkit.failover.core.step import StepResult
from drkit.failover.loss.count import _count
from drkit.journal.lost import violations
from drkit.journal.machine import ORDER, StepName
from drkit.kafka.raw import EventLoop
from drkit.kafka.requests import TopicMetadata
from drkit.model import TopicPartition
from drkit.status.lag.source import UncopiedRange
from tests.support.errors import made
from tests.support.failover.paper import model
from tests.support.failover.paper.model import Play, Work

ERRORS = [KeyError("orders"), IndexError(3), ValueError("no"), struct.error("short"), OSError(28, "full")]


class Broken(Work):
    """Raises once, in `run` or in `prove`."""

    def __init__(self, name: StepName, error: Exception, where: str) -> None:
        super().__init__(name)
        self.error: Exception | None = error
        self.where = where

    def _raise(self, here: str) -> None:
        if here == self.where and self.error is not None:
            error, self.error = self.error, None
            raise error

    def run(self, context: Any) -> StepResult:
        self._raise("run")
        return super().run(context)

    def prove(self, context: Any) -> StepResult:
        found = super().prove(context)
        self._raise("prove")
        return found


@pytest.mark.parametrize("where", ["run", "prove"])
@pytest.mark.parametrize("error", ERRORS, ids=repr)
@pytest.mark.parametrize("step", [StepName.FENCE, StepName.DRAIN, StepName.TRANSLATE, StepName.VERIFY])
def test_an_error_of_any_kind_holds_the_run(
    step: StepName, error: Exception, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(model.STEPS, step, Broken(step, error, where))
    play = Play(1)
    play.journal.calm, play.journal.kill_at = True, None
    play.process(abort=False)
    assert play.run.state == "held"
    held = play.run.held
    assert held["step"] is step
    assert held["error"]["code"] == "step_unexpected"
    assert type(error).__name__ in held["error"]["evidence"]
    assert "/failover/" not in json.dumps(held["error"]).replace("failover/test_unexpected.py", "")
    assert "--resume" in held["error"]["hint"]
    play.process(abort=False)
    assert play.run.state == "done"
    assert not violations(play.run)
    assert set(play.run.results) == set(ORDER)


def test_a_partition_that_the_source_lost_is_not_counted() -> None:
    """It once ended the process with a KeyError."""
    loop = EventLoop()
    gap = UncopiedRange(TopicPartition("orders", 3), 5, 9)
    try:
        for topics in ({}, {"orders": TopicMetadata(3, None, {})}):  # type: ignore[arg-type]
            found = loop.run(_count, None, topics, gap, frozenset())
            assert (found.records, found.next_offset) == (0, 5), "from here on nothing was looked at"
    finally:
        loop.close()


def test_it_fails_with_exit_code_1() -> None:
    assert made(Failed, "x", where="y").exit_code == 1
