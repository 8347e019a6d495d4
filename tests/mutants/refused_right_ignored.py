"""A drkit that takes a refused right for success when it opens the standby."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from unittest.mock import patch

from drkit.errors import DrkitError
from drkit.exercise.checks import COMMANDS
from drkit.failover.core.step import StepResult
from drkit.failover.steps import opening
from drkit.failover.steps.opening import OpenStep
from drkit.kafka.topics import alter_topic_configs

BROKEN: Final = "OPEN takes refused settings and ACLs for done, and its proof, too"
SCENARIO: Final = "rights-taken"
CAUGHT_BY: Final = COMMANDS


def apply() -> None:
    """Break this process."""

    def alter_or_not(*args: Any) -> dict[str, DrkitError]:
        alter_topic_configs(*args)
        return {}

    patch.object(opening, "alter_topic_configs", alter_or_not).start()
    for owner, name, instead in (
        (OpenStep, "_grant", ""),
        (OpenStep, "_lift_guard", []),
        (opening, "_wait_until_heard", None),
        (OpenStep, "prove", StepResult()),
    ):
        patch.object(owner, name, _try(getattr(owner, name), instead)).start()


def _try(work: Callable[..., Any], instead: Any) -> Callable[..., Any]:
    def tried(*args: Any) -> Any:
        try:
            return work(*args)
        except DrkitError:
            return instead

    return tried
