"""drkit's code on a worker that has none, without a Spark: what is sent, what is said where it cannot run."""

from __future__ import annotations

import os
from pathlib import Path
import subprocess

from py4j.protocol import Py4JError
from pyspark import cloudpickle
import pytest

import drkit
from drkit.checkpoints.round import checkpoint_task
from drkit.copy_task.copier import copy_task
from drkit.errors import ConfigError, DrkitError
from drkit.spark.jobs import cause_of
from drkit.spark.shipping import carrier, make_archive
from drkit.verify.task import compare_range
from tests.support.spark.worker_python import PYSPARK, worker_python

RUN = "import pickle, sys; print(pickle.load(sys.stdin.buffer)('lease'))"
LOST = "Lost task 0.3 in stage 1.0 (TID 7) (10.0.0.4 executor 2): org.apache.spark.SparkException: \n"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_archive(tmp_path_factory.mktemp("archive"))


def environment(*paths: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join((*PYSPARK, *map(str, paths))), "PYTHONSAFEPATH": "1"}


def run(python: Path, archive: Path, *paths: Path) -> str | DrkitError:
    """Run a task as Spark's worker would; its answer, or what drkit makes of its error."""
    needed = (copy_task, checkpoint_task, compare_range)
    task = carrier(archive)(lambda text: f"{text} {len(needed)}")
    done = subprocess.run(
        [python, "-c", RUN],
        input=cloudpickle.dumps(task),
        capture_output=True,
        check=False,
        cwd=python.parent,
        env=environment(*paths),
    )
    if done.returncode == 0:
        return str(done.stdout.decode()).strip()
    return cause_of(Py4JError(done.stderr.decode()), "copy_job_died", "a->b")


def permanent(error: str | DrkitError) -> ConfigError:
    assert isinstance(error, ConfigError), error
    assert "drkit explain spark-cluster" in error.hint
    return error


def test_the_archive_is_named_after_its_content(archive: Path, tmp_path: Path):
    assert make_archive(tmp_path).read_bytes() == archive.read_bytes()
    assert archive.name.startswith(f"drkit-{drkit.__version__}-")


def test_a_worker_without_drkit_runs_what_is_sent_to_it(archive: Path, tmp_path: Path):
    assert run(worker_python(tmp_path / "worker"), archive, archive) == "lease 3"


@pytest.mark.wide
def test_the_code_that_was_sent_wins_over_a_workers_own(archive: Path, tmp_path: Path):
    own = tmp_path / "own" / "drkit"
    own.mkdir(parents=True)
    (own / "__init__.py").write_text("__version__ = '0.0.1'")
    python = worker_python(tmp_path / "worker")
    assert run(python, archive, archive, own.parent) == "lease 3"
    error = permanent(run(python, archive, own.parent, archive))
    assert error.code == "worker_cannot_load_drkit"
    assert "No module named 'drkit.copy_task'" in error.evidence


@pytest.mark.wide
def test_another_drkit_that_could_run_is_refused_with_its_place(archive: Path, tmp_path: Path):
    (other := tmp_path / "drkit-0.0.1.zip").write_bytes(archive.read_bytes())
    error = permanent(run(worker_python(tmp_path / "worker"), archive, other, archive))
    assert error.code == "worker_other_drkit"
    assert str(other) in error.evidence


@pytest.mark.wide
def test_what_a_worker_lacks_is_named_at_once_with_the_worker(archive: Path, tmp_path: Path):
    python = worker_python(tmp_path / "worker", without=("pyarrow", "confluent_kafka"))
    error = permanent(run(python, archive, archive))
    assert error.code == "worker_lacks_packages"
    assert error.evidence.startswith("confluent-kafka, pyarrow; ")
    assert str(tmp_path / "worker") in error.where
    assert "spark.archives" in error.hint


@pytest.mark.wide
def test_another_major_version_of_a_library_is_named(archive: Path, tmp_path: Path):
    python = worker_python(tmp_path / "worker", without=("kafka_python-",))
    old = tmp_path / "worker/packages/kafka_python-2.0.2.dist-info"
    old.mkdir()
    (old / "METADATA").write_text("Metadata-Version: 2.1\nName: kafka-python\nVersion: 2.0.2\n")
    error = permanent(run(python, archive, archive))
    assert error.code == "worker_other_packages"
    assert error.evidence.startswith("kafka-python 2.0.2 instead of 3.")


@pytest.mark.parametrize(
    ("said", "code", "evidence"),
    [
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has version: 3.10 than that in driver: 3.11",
            "worker_other_python",
            "Python 3.10 there, 3.11 here",
        ),
        (
            'Caused by: java.io.IOException: Cannot run program "python3.11": error=2',
            "worker_without_python",
            "python3.11",
        ),
        ("/usr/bin/python3: No module named pyspark", "worker_without_pyspark", "No module named pyspark"),
        (
            "ModuleNotFoundError: No module named 'pyspark.daemon'",
            "worker_without_pyspark",
            "No module named pyspark",
        ),
    ],
)
def test_what_spark_says_of_a_worker_is_one_sentence(said: str, code: str, evidence: str):
    error = permanent(cause_of(Py4JError(LOST + said), "copy_job_died", "a->b"))
    assert error.code == code
    assert (error.where, error.evidence) == ("10.0.0.4 executor 2", evidence)


@pytest.mark.wide
def test_the_daemon_becomes_sparks_own_where_something_is_missing(archive: Path, tmp_path: Path):
    """It must start, or no task could say what is missing."""
    python = worker_python(tmp_path / "worker", without=("kafka",))
    code = "import drkit.spark.worker_daemon as d; print(len(d.LOADED))"
    done = subprocess.run(
        [python, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=environment(archive),
    )
    assert done.stdout.strip() == "0"
    assert "is not loaded before it is needed" in done.stderr
