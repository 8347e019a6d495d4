"""Epochs, checkpoint rounds and comparisons as Spark jobs: one task for each text, one answer from each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
import re
import threading
from typing import Final
import uuid

from py4j.protocol import Py4JError
from pyspark import SparkContext

from drkit import errors
from drkit.clock import monotonic
from drkit.errors import DrkitError, Failed

_PERMANENT: Final = re.compile(r"drkit\.errors\.(ConfigError|NotAuthorized|NotAuthenticated|Refused): (.+)")
_ERROR: Final = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?([A-Z]\w+): (.+)$", re.MULTILINE)
_EVIDENCE_LENGTH: Final = 500
_CANCEL_SECONDS: Final = 0.2


class SparkJobs:
    """The jobs of one thread, one after another, which another thread can cancel.

    :param name: of the jobs, in Spark's own list
    """

    def __init__(self, context: SparkContext, name: str) -> None:
        self._context, self._name = context, name
        self._group = f"{name} {uuid.uuid4().hex[:8]}"

    def run(self, texts: Sequence[str], task: Callable[[str], str]) -> list[str]:
        """One Spark task for each text, side by side; what each returned, in the same order. Blocks.

        :param task: travels pickled, with all that it refers to; what it refers to may be secret, the texts
            may not: Spark can write these to disk
        :raises Py4JError: a task has failed as often as Spark tries it, the jobs were cancelled, or Spark is
            gone; see :func:`cause_of`
        """
        self._context.setJobGroup(self._group, self._name, interruptOnCancel=True)
        answers: list[str] = self._context.parallelize(texts, len(texts)).map(task).collect()
        return answers

    def cancel(self, thread: threading.Thread, seconds: float) -> None:
        """End what `thread` runs here, and wait for its end for at most `seconds`.

        Tried until then: a job that the thread was about to begin is not there yet at the first attempt.
        """
        deadline = monotonic() + seconds
        while thread.is_alive() and monotonic() < deadline:
            try:
                self._context.cancelJobGroup(self._group)
            except (Py4JError, OSError, AttributeError, AssertionError):
                break  # Spark is gone, and its jobs with it
            thread.join(_CANCEL_SECONDS)


def cause_of(error: BaseException, what: str, where: str) -> DrkitError:
    """Why a job died, in one sentence instead of the stack traces of Python and Java.

    :param what: the sentence where the job does not end with an error of drkit's own that is permanent
    """
    text = str(error)
    if found := _PERMANENT.search(text):
        kind: type[DrkitError] = getattr(errors, found[1])
        return kind(found[2].strip(), where=where)
    raised = _ERROR.findall(text)
    evidence = ": ".join(raised[-1]) if raised else (text.strip() or repr(error)).splitlines()[0]
    return Failed(what, where=where, evidence=evidence[:_EVIDENCE_LENGTH])
