"""Errors that no step makes: an unexpected one holds the run, which may be resumed or aborted."""

from __future__ import annotations

from contextlib import AbstractContextManager
import struct
from traceback import extract_tb
from typing import Final

from drkit.config import FlowSettings
from drkit.errors import Failed
from drkit.failover.core.context import Context
from drkit.failover.core.machine import FAILOVER, RunState, StepName, StepRow
from drkit.failover.journal.entries import RunLog
from drkit.kafka.clients import KafkaException
from drkit.kafka.raw import unanswered_as

UNEXPECTED: Final = (
    LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RuntimeError, OSError, struct.error,
    KafkaException,
)  # fmt: skip
"""Types of unexpected errors; drkit's own errors are not among them."""


def unexpected(error: BaseException, where: str, command: str = FAILOVER.command) -> Failed:
    """Return the error that holds the run.

    :param where: the step, and the flow
    :param command: the command that resumes or aborts the run
    """
    last = extract_tb(error.__traceback__)[-1:]
    at = "".join(f", in {frame.name} of {_module(frame.filename)}, line {frame.lineno}" for frame in last)
    return Failed(
        "step_unexpected", where=where, evidence=f"{type(error).__name__}: {error}{at}", command=command
    )


def interrupted(context: Context, run: RunLog, row: StepRow, *, changed: bool) -> Failed:
    """Return the error that holds a run which a person has stopped.

    :param row: the step before which, or in which, it stopped
    :param changed: whether the run has changed more than its journal
    """
    where, command = f"{row.step} of {context.flow.name}, run {run.run_id}", run.table.command
    if not changed:
        begin = f"begin it again: {command}"
        return Failed("run_interrupted", where=where, evidence="nothing was changed", hint=begin)
    fenced = StepName.FENCE in run.begun and StepName.FENCE not in run.undone
    evidence, undo = "the run is held", f"{command} --abort"
    if fenced and run.table is FAILOVER:
        evidence = f"{context.flow.source} refuses producers, and {context.flow.target} is not open"
    hint = undo if run.state is RunState.ABORTING else f"continue: {command} --resume; roll back: {undo}"
    return Failed("run_interrupted", where=where, evidence=evidence, hint=hint)


def _module(path: str) -> str:
    """Return the last two parts of a file's path, without the installation folder."""
    return "/".join(path.replace("\\", "/").split("/")[-2:])


def told(flow: FlowSettings) -> AbstractContextManager[None]:
    """With this, a request outside a run that a flow's target leaves unanswered is an error for a person.

    :raises ClusterUnreachable: there is one
    """
    return unanswered_as("target_unreachable_in_step", flow.target)
