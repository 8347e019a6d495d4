"""How jobs end that do not end well, with a Spark of the test's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
import threading
from typing import Any

from py4j.protocol import Py4JError, Py4JNetworkError
import pytest

from drkit.config import ClusterSettings, FlowSettings
from drkit.copy_task.core.assignment import PartitionAssignment, TaskAssignment
from drkit.errors import DrkitError, Failed, NotAuthorized
from drkit.replicate.epochs import EpochLoop, Epochs
from drkit.replicate.planner import PlacedPartition, Rates
from drkit.replicate.supervisor import is_transient, supervise
from drkit.spark.jobs import SparkGone, SparkJobs, cause_of
from drkit.spark.session import SharedSpark
from tests.support.errors import made
from tests.support.waiting import eventually

FLOW = FlowSettings(source="a", target="b")
CLUSTERS = (
    ClusterSettings(alias="a", bootstrap_servers="h:1"),
    ClusterSettings(alias="b", bootstrap_servers="h:2"),
)
FRAME = TaskAssignment("a->b", "run", 0, 0, 0, 7, 0, (7,), (), "map", "state", 5.0, 1.0, 1000, ())
PLACED = PlacedPartition(PartitionAssignment("t", "id", "t", "id", 0, 0), 0)
KILLED = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, \
most recent failure: Lost task 0.3 in stage 1.0 (TID 5) (localhost executor driver): \
org.apache.spark.SparkException: Python worker exited unexpectedly (crashed).
\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.readObject(PythonRunner.scala:1)
Caused by: java.io.EOFException
\tat java.base/java.io.DataInputStream.readInt(DataInputStream.java:386)
"""


class Spark:
    """Runs a job until it is cancelled, and can end."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error, self.jobs, self.ended = error, 0, False
        self._cancelled = threading.Event()
        self._jsc = self

    def setJobGroup(self, *_: object, **__: object) -> None: ...  # noqa: N802  Spark's name

    def parallelize(self, *_: object) -> Spark:
        return self

    def map(self, _: Callable[[str], str]) -> Spark:
        return self

    def collect(self) -> list[str]:
        self.jobs += 1
        if self.error is None:
            self._cancelled.wait(30)
        raise self.error or Py4JError("cancelled")

    def cancelJobGroup(self, _: str) -> None:  # noqa: N802  Spark's name
        if self.jobs:
            self._cancelled.set()

    def sc(self) -> Spark:
        return self

    def isStopped(self) -> bool:  # noqa: N802  Spark's name
        if self.ended:
            raise ConnectionRefusedError(111, "refused")
        return False


@pytest.fixture
def workshop(tmp_path: Path) -> SharedSpark:
    return SharedSpark(tmp_path)


def started(workshop: SharedSpark, error: Exception | None = None) -> Any:
    spark: Any = Spark(error)
    workshop.started(spark)
    return spark


def loop_of(workshop: SharedSpark, placed: tuple[PlacedPartition, ...]) -> tuple[Epochs, EpochLoop]:
    epochs = Epochs(FRAME, 1, Rates())
    epochs.update(placed)
    return epochs, EpochLoop(workshop, epochs, CLUSTERS, FLOW, lambda _: None)


def test_of_a_killed_worker_the_evidence_says_so():
    died = cause_of(Py4JError(KILLED), "copy_job_died", "a->b")
    assert died.evidence == "SparkException: Python worker exited unexpectedly (crashed)."


def test_a_permanent_error_of_a_task_stays_one():
    text = KILLED.replace("Caused by", "drkit.errors.NotAuthorized: no READ on t\n\nCaused by")
    died = cause_of(Py4JError(text), "copy_job_died", "a->b")
    assert (type(died), died.what) == (NotAuthorized, "no READ on t")


def test_what_a_task_caught_is_not_what_ended_it():
    text = KILLED.replace(
        "Caused by", "drkit.errors.Refused: not now\n\ndrkit.errors.Failed: no answer\nCaused by"
    )
    died = cause_of(Py4JError(text), "copy_job_died", "a->b")
    assert (type(died), died.evidence) == (Failed, "Failed: no answer")


def test_without_spark_a_flow_is_not_tried_again(workshop: SharedSpark):
    """The JVM ran out of memory, or was killed: no attempt of this process could ever copy anything."""
    attempts = []

    def attempt() -> None:
        attempts.append(1)
        assert len(attempts) < 3, "it is tried for ever"
        _, loop = loop_of(workshop, (PLACED,))
        loop.start()
        eventually(lambda: not loop.is_active, 10, "the end of the epochs")
        loop.end()
        raise loop.failure()

    spark = started(workshop, Py4JNetworkError("Answer from Java side is empty"))
    spark.ended = True
    with pytest.raises(SparkGone):
        supervise("a->b", attempt, threading.Event())


def test_the_end_of_spark_is_seen_where_there_is_nothing_to_copy(workshop: SharedSpark):
    spark = started(workshop)
    _, loop = loop_of(workshop, ())
    loop.start()
    assert loop.is_active
    spark.ended = True
    eventually(lambda: not loop.is_active, 10, "what the flow sees")
    assert not is_transient(loop.failure())
    loop.end()


def test_asked_to_stop_the_end_of_spark_is_no_failure():
    stop = threading.Event()

    def attempt() -> None:
        stop.set()
        raise made(SparkGone, "Spark has ended")

    supervise("a->b", attempt, stop)


def test_a_job_that_died_leaves_the_flow_to_be_tried_again(workshop: SharedSpark):
    started(workshop, Py4JError(KILLED))
    with pytest.raises(Failed) as died:
        SparkJobs(workshop, "jobs", "checkpoint_job_died", "a->b").run(["lease"], str)
    assert is_transient(died.value)
    assert died.value.code == "checkpoint_job_died"


def test_epochs_end_while_spark_starts(workshop: SharedSpark):
    """A flow holds its lease then and looks at its clusters; only the tasks wait."""
    epochs, loop = loop_of(workshop, (PLACED,))
    loop.start()
    assert not epochs.reframe(skip=(9,), bulk=()), "no task has begun"
    assert list(epochs.skips) == [9]
    assert not epochs.hold(), "there is no task to wait for"
    loop.end()
    assert not loop.is_active
    assert started(workshop).jobs == 0


def test_tasks_get_the_plan_as_it_is_when_spark_has_started(workshop: SharedSpark):
    epochs, loop = loop_of(workshop, (PLACED,))
    loop.start()
    epochs.reframe(skip=(9,), bulk=())
    spark = started(workshop)
    eventually(lambda: spark.jobs, 10, "the first epoch")
    assert epochs.reframe(skip=(9, 10), bulk=())
    assert list(epochs.skips) == [9]
    loop.end()
    assert not loop.is_active


def test_no_job_begins_once_they_are_cancelled(workshop: SharedSpark):
    spark = started(workshop)
    jobs = SparkJobs(workshop, "jobs", "checkpoint_job_died", "a->b")
    jobs.cancel(1)
    with pytest.raises(DrkitError):
        jobs.run(["lease"], str)
    assert not spark.jobs
