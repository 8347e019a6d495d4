"""What Spark does with drkit's jobs: how it reports a dead worker, what it writes, what it loads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
import os
from pathlib import Path
import signal
import stat
import subprocess
import sys
import threading

import pytest

from drkit.errors import Failed, NotAuthorized
from drkit.spark.jobs import SparkGone, SparkJobs
from drkit.spark.session import SharedSpark, spark_session
from tests.support.errors import made
from tests.support.flows.process import tree
from tests.support.spark.here import end_jvm
from tests.support.waiting import eventually

SECRET = "known-to-nobody-7f3a"
LARGE = 1 << 20
"""Characters of which Spark would put a task's code into a file."""
SESSION = """
import os, stat
from drkit.spark.jobs import SparkJobs
from drkit.spark.session import spark_session
from tests.spark.session.test_spark_session import listening
from tests.support.flows.process import tree
with spark_session("long", 1) as workshop:
    SparkJobs(workshop, "tests", "checkpoint_job_died", "a->b").run(["copied"], str)
    jvm = workshop.context._gateway.proc.pid
    folder = workshop.folder
    print(len(listening({os.getpid(), *tree(jvm)} - {jvm})), len([*folder.glob(".*.sock")]))
    print(oct(stat.S_IMODE(folder.stat().st_mode)), folder)
"""


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedSpark]:
    """Spark, started from a folder that contains modules of the same names."""
    folder, before = tmp_path_factory.mktemp("modules"), Path.cwd()
    for name in ("kafka", "secrets", "drkit"):
        (folder / f"{name}.py").write_text("raise SystemExit('not the one that was asked for')\n")
    end_jvm()  # it would be in the folder in which an earlier file started it
    os.chdir(folder)
    try:
        with spark_session("drkit tests", 2) as made:
            yield made
    finally:
        os.chdir(before)


@pytest.fixture
def jobs(workshop: SharedSpark) -> SparkJobs:
    return SparkJobs(workshop, "tests", "checkpoint_job_died", "a->b")


@pytest.mark.wide
def test_workers_import_nothing_from_the_folder_of_the_caller(jobs: SparkJobs):
    def where(name: str) -> str:
        return str(__import__(name).__file__)

    found = jobs.run(["kafka", "secrets", "drkit"], where)
    assert [Path(f).name for f in found] == ["__init__.py", "secrets.py", "__init__.py"]


@pytest.mark.wide
def test_a_look_at_the_tasks_names_few_of_many_jobs(jobs: SparkJobs, workshop: SharedSpark):
    for _ in range(150):
        jobs.run(["a"], str)
    assert jobs.tasks.ended == 1
    tracker = workshop.context.statusTracker()
    eventually(lambda: len(tracker.getJobIdsForGroup(jobs._group)) <= 100, what="earlier jobs dropped")


@pytest.mark.wide
def test_no_secret_of_a_task_is_written_to_disk_however_large_its_code_is(
    jobs: SparkJobs, workshop: SharedSpark
):
    topics = os.urandom(LARGE).hex()

    def task(text: str) -> str:
        return text if SECRET in topics else SECRET[:4]

    assert jobs.run(["lease"], task) == [SECRET[:4]]
    files = [f for f in workshop.folder.rglob("*") if f.is_file()]
    assert not [f for f in files if SECRET.encode() in f.read_bytes()]


@pytest.mark.wide
def test_no_port_leads_to_pythons_workers(jobs: SparkJobs, workshop: SharedSpark):
    """A connection to the port of Spark's daemon is a process more, also without the secret."""
    jobs.run(["lease"], str)
    gateway = workshop.context._gateway
    assert gateway is not None
    jvm = gateway.proc.pid
    ours = {os.getpid(), *tree(jvm)} - {jvm}
    assert len(ours) > 1, "Spark's daemon"
    assert not listening(ours)
    assert len([*workshop.folder.glob(".*.sock")]) == 2
    assert stat.S_IMODE(workshop.folder.stat().st_mode) == 0o700


def test_a_long_path_of_temporary_files_opens_no_port(tmp_path: Path):
    """A socket's path has at most 107 bytes: the session's folder is a short one, and as private."""
    long = tmp_path / ("t" * 90)
    long.mkdir()
    environment = {**os.environ, "TMPDIR": str(long)}
    done = subprocess.run(
        [sys.executable, "-c", SESSION],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    ports, sockets, mode, folder = done.stdout.split()
    assert (ports, sockets, mode) == ("0", "2", "0o700")
    assert not Path(folder).exists()


def listening(pids: Iterable[int]) -> set[str]:
    """The addresses on which some processes accept connections by TCP."""
    links = [link for pid in pids for link in Path(f"/proc/{pid}/fd").iterdir()]
    opened = {found[8:-1] for link in links if (found := target(link)).startswith("socket:[")}
    rows = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in Path("/proc/net", name).read_text().split("\n")[1:-1]
    ]
    return {row[1] for row in rows if row[3] == "0A" and row[9] in opened}


def target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""  # closed meanwhile


@pytest.mark.wide
def test_a_killed_worker_is_reported_as_killed(jobs: SparkJobs):
    def task(_: str) -> str:
        os.kill(os.getpid(), signal.SIGKILL)
        return ""

    with pytest.raises(Failed) as died:
        jobs.run(["lease"], task)
    assert died.value.evidence.startswith("SparkException: Python worker exited unexpectedly (crashed)")


@pytest.mark.wide
def test_a_missing_permission_of_a_task_is_reported(jobs: SparkJobs):
    def task(_: str) -> str:
        raise made(NotAuthorized, "no READ on t", where="t")

    with pytest.raises(NotAuthorized, match="no READ on t"):
        jobs.run(["lease"], task)


@pytest.mark.wide
def test_a_cut_task_counts_until_it_has_ended(jobs: SparkJobs, tmp_path: Path):
    """Spark reports a failed job while other tasks of it still run."""
    beats = tmp_path / "beats"

    def task(text: str) -> str:
        pause = threading.Event()
        if text == "fails":
            pause.wait(1.0)
            raise made(Failed, "boom")
        while True:
            with beats.open("a") as file:
                file.write(".")
            pause.wait(0.02)

    with pytest.raises(Failed):
        jobs.run(["fails", "goes on"], task)
    assert jobs.tasks.at_work
    eventually(lambda: not jobs.tasks.at_work, what="the end of the other task")
    then = beats.stat().st_size
    assert not threading.Event().wait(0.5)
    assert beats.stat().st_size == then


@pytest.mark.wide
def test_a_job_whose_spark_is_killed_says_so(workshop: SharedSpark, jobs: SparkJobs):
    """The last test of this Spark."""
    (jvm,) = [p for p in tree(os.getpid()) if b"org.apache.spark." in Path(f"/proc/{p}/cmdline").read_bytes()]

    def task(_: str) -> str:
        os.kill(jvm, signal.SIGKILL)
        signal.pause()
        return ""

    assert not workshop.has_ended
    with pytest.raises(SparkGone):
        jobs.run(["lease"], task)
    assert workshop.has_ended
