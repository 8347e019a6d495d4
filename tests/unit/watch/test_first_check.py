"""The first check of a target waits for the first look at the flow."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

from drkit.detect.readiness import TargetFacts
from drkit.watch import senses
from tests.support.waiting import eventually


def test_a_look_that_ends_during_a_check_is_part_of_the_next_one() -> None:
    """The next check followed 15 s later, and until then a new watch reported a target that was not ready."""
    made: Any = object.__new__(senses.Senses)
    made.watch = SimpleNamespace(figures=None)
    made._introduced, made._ended, made.has_checked_target = True, threading.Event(), False
    checks = []

    def check(status: object) -> TargetFacts:
        checks.append((status, made.has_checked_target))
        made.watch.figures = SimpleNamespace(status="looked")
        return TargetFacts("", faults=None if status is None else {})

    made._ready = SimpleNamespace(look=check)
    thread = threading.Thread(target=made._look_at_target, daemon=True)
    thread.start()
    try:
        eventually(lambda: made.has_checked_target, 10, "a check with a look at the flow")
        assert checks == [(None, False), ("looked", False)]
        assert "not_looked" not in {f.code for f in made._findings}
    finally:
        made._ended.set()
        thread.join()
