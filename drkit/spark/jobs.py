"""Epochs, checkpoint rounds and comparisons as Spark jobs: one task for each text, one answer from each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
import re
import threading
from typing import Final, NamedTuple
import uuid

from drkit import errors
from drkit.checkpoints.round import checkpoint_task
from drkit.checkpoints.shard import Shard, ShardReport
from drkit.clock import monotonic
from drkit.config import ClusterSettings, FlowSettings
from drkit.errors import DrkitError, Failed
from drkit.spark.shipping import unfit_worker
from drkit.spark.workshop import BROKEN, SharedSpark

_PERMANENT: Final = ("ConfigError", "NotAuthorized", "NotAuthenticated", "Refused")
_ERROR: Final = re.compile(r"^([A-Za-z_][\w.]*\.)?([A-Z]\w+): (.+)$", re.MULTILINE)
"""Of Python; the last one is what the task ended with, those before it were caught."""
_OF_JAVA: Final = re.compile(r"^.*: (?:[a-z]\w*\.)+([A-Z]\w*): (.+)$", re.MULTILINE)
"""Spark's own text about a task or a job; for a killed worker there is no other."""
_EVIDENCE_LENGTH: Final = 500
_CANCEL_SECONDS: Final = 0.2


class SparkGone(Failed):
    """Spark has ended: only a new process of drkit starts another one."""


class TaskCount(NamedTuple):
    """Task counts of a job."""

    at_work: int
    ended: int
    failed: int
    """Attempts that failed; Spark starts their tasks again."""


NO_TASKS: Final = TaskCount(0, 0, 0)


class SparkJobs:
    """The jobs of one thread, one after another, which another thread can cancel.

    :param name: of the jobs, in Spark's own list
    :param died: the code of the error for a job that ends without an error of drkit's own
    :param where: whose jobs they are
    """

    def __init__(self, workshop: SharedSpark, name: str, died: str, where: str) -> None:
        self._workshop, self._name, self._died, self._where = workshop, name, died, where
        self._group = f"{name} {uuid.uuid4().hex[:8]}"
        self._cancelled, self._idle = threading.Event(), threading.Event()
        self._idle.set()

    def wait(self) -> bool:
        """Return whether Spark has started; waits for it until the jobs are cancelled."""
        return self._workshop.wait(self._cancelled) and not self._cancelled.is_set()

    def run(self, texts: Sequence[str], task: Callable[[str], str]) -> list[str]:
        """One Spark task for each text, side by side; what each returned, in the same order. Blocks.

        :param task: travels pickled, with all that it refers to; what it refers to may be secret, the texts
            may not: Spark can write these to disk
        :raises SparkGone: Spark has ended
        :raises DrkitError: a task has failed as often as Spark tries it, or the jobs were cancelled
        """
        self._idle.clear()
        try:
            if not self.wait():
                raise Failed("jobs_cancelled", where=self._where)
            context = self._workshop.context
            try:
                context.setJobGroup(self._group, self._name, interruptOnCancel=True)
                carried = self._workshop.carry(task)
                answers: list[str] = context.parallelize(texts, len(texts)).map(carried).collect()
            except BROKEN as error:
                if self._workshop.has_ended:
                    raise self.gone(error) from error
                raise cause_of(error, self._died, self._where) from error
            return answers
        finally:
            self._idle.set()

    def cancel(self, seconds: float) -> None:
        """End what runs here, begin nothing more, and wait for the end for at most `seconds`.

        Tried until then: a job that is about to begin is not there yet at the first attempt.
        """
        self._cancelled.set()
        deadline = monotonic() + seconds
        while not self._idle.is_set() and monotonic() < deadline:
            try:
                if self._workshop.has_started:
                    self._workshop.context.cancelJobGroup(self._group)
            except BROKEN:
                break  # Spark is gone, and its jobs with it
            self._idle.wait(_CANCEL_SECONDS)

    @property
    def tasks(self) -> TaskCount:
        """Of the last job, also when it has ended: Spark kills a cut task after two seconds."""
        try:
            tracker = self._workshop.context.statusTracker()
            last = tracker.getJobInfo(max(tracker.getJobIdsForGroup(self._group), default=-1))
            stages = [tracker.getStageInfo(stage) for stage in (last.stageIds if last is not None else ())]
            known = [stage for stage in stages if stage is not None]
            return TaskCount(
                sum(stage.numActiveTasks for stage in known),
                sum(stage.numCompletedTasks for stage in known),
                sum(stage.numFailedTasks for stage in known),
            )
        except BROKEN:
            return NO_TASKS  # Spark is gone, and its tasks with it

    def gone(self, error: BaseException | None = None) -> SparkGone:
        """The error for the end of Spark."""
        return spark_gone(self._where, error)


def session_of(workshop: SharedSpark) -> int | None:
    """The session of Spark's processes on this machine; None before Spark has started."""
    if not workshop.has_started:
        return None
    process = getattr(workshop.context._gateway, "proc", None)  # noqa: SLF001  the only way to its process
    return None if process is None else int(process.pid)


def spark_gone(where: str, error: BaseException | None = None) -> SparkGone:
    """The error for the end of Spark, with the error that showed it as evidence."""
    evidence = evidence_of(error) if error is not None else "its process is gone, or has stopped it"
    hint = "start drkit again: it continues where it ended"
    return SparkGone("spark_gone", where=where, evidence=evidence, hint=hint)


def cause_of(error: BaseException, code: str, where: str) -> DrkitError:
    """Return why a job failed, in one sentence instead of the stack traces of Python and Java.

    :param code: of the error, unless the job ended with a permanent error of drkit's own
    """
    if (unfit := unfit_worker(str(error))) is not None:
        return unfit
    if raised := _ERROR.findall(str(error)):
        module, name, said = raised[-1]
        if module == "drkit.errors." and name in _PERMANENT:
            kind: type[DrkitError] = getattr(errors, name)
            return kind("job_refused", where=where, reason=said.strip())
    return Failed(code, where=where, evidence=evidence_of(error))


def evidence_of(error: BaseException) -> str:
    """What an error of Spark's says at its end, without the stack traces of Python and Java."""
    text = str(error)
    if raised := [found[1:] for found in _ERROR.findall(text)] or _OF_JAVA.findall(text)[:1]:
        return ": ".join(raised[-1])[:_EVIDENCE_LENGTH]
    return (text.strip() or repr(error)).splitlines()[0][:_EVIDENCE_LENGTH]


def round_jobs(workshop: SharedSpark, flow: FlowSettings) -> SparkJobs:
    """The jobs of a flow's rounds."""
    return SparkJobs(workshop, f"drkit checkpoints {flow.name}", "checkpoint_job_died", flow.name)


def run_round(
    jobs: SparkJobs,
    shards: Sequence[Shard],
    clusters: tuple[ClusterSettings, ClusterSettings],
    flow: FlowSettings,
) -> list[ShardReport]:
    """Run one round, its shards side by side; blocking. Raises DrkitError as :meth:`SparkJobs.run`."""
    answers = jobs.run([shard.to_json() for shard in shards], _round_function(*clusters, flow))
    return [ShardReport.from_json(answer) for answer in answers]


def _round_function(
    source: ClusterSettings, target: ClusterSettings, flow: FlowSettings
) -> Callable[[str], str]:
    def look(shard: str) -> str:
        return checkpoint_task(source, target, flow).run(Shard.from_json(shard)).to_json()

    return look
