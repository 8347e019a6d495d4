"""A standalone cluster of Spark: a master, and workers in folders of their own that have no drkit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
import os
from pathlib import Path
import re
import secrets
import subprocess

from drkit.local.java import find_java
from drkit.spark.class_archive import archive_option
from drkit.spark.conf import given_conf
from drkit.spark.jvm import QUICK_JVM
from tests.support.flows.process import kill_all, tree
from tests.support.spark.class_archive import class_path
from tests.support.spark.worker_python import SPARK_HOME, worker_python
from tests.support.waiting import eventually

PYTHON = "drkit-python"
"""The command that starts a Python on each worker."""
WORKERS = 2
CORES = 2
_NONE: Mapping[str, Iterable[str]] = {}
_URL = re.compile(r"Starting Spark master at (spark://\S+)")
_SCALA = next((SPARK_HOME / "jars").glob("spark-core_*.jar")).name.split("_")[1].split("-")[0]
"""Which a worker must know to start executors; Spark's own scripts find it out."""
_REGISTERED = "Successfully registered with master"
_QUICK = ("-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


class SparkCluster:
    """A master and its workers; they and drkit share a secret.

    :param pythons: name of a command → modules that this Python does not have
    """

    def __init__(self, folder: Path, pythons: Mapping[str, Iterable[str]] = _NONE) -> None:
        self.folder = folder
        self._bin = folder / "bin"
        self._bin.mkdir(parents=True)
        for name, without in {PYTHON: (), **pythons}.items():
            made = worker_python(folder / "pythons" / name, without=without)
            (self._bin / name).symlink_to(made)
        (self._bin / "other-python").symlink_to(worker_python(folder / "pythons/other-python", minor=10))
        self.secret = secrets.token_hex(16)
        self.properties = folder / "spark.properties"
        self.properties.write_text(
            f"spark.authenticate true\nspark.network.crypto.enabled true\n"
            f"spark.authenticate.secret {self.secret}\n"
            f"spark.executor.extraJavaOptions {QUICK_JVM} {archive_option(find_java())}\n"
        )
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.url = ""
        try:
            self._start("master", "master.Master", "--host", "127.0.0.1", "--port", "0")
            self.url = eventually(lambda: self._said("master", _URL), what="Spark's master")
            for number in range(WORKERS):
                self.start_worker(number)
        except BaseException:
            self.stop()
            raise

    def start_worker(self, number: int) -> None:
        """Start a worker and wait until the master knows it."""
        name = f"worker-{number}"
        self._start(
            name, "worker.Worker", "--host", "127.0.0.1", "--cores", str(CORES), "--memory", "2g",
            "--work-dir", str(self.folder / name / "work"), self.url,
        )  # fmt: skip
        eventually(lambda: self._said(name, re.compile(f"({_REGISTERED})")), what=name)

    def conf(self, python: str = PYTHON) -> dict[str, str]:
        """Settings of Spark with which drkit runs here."""
        return given_conf([f"spark.pyspark.python={python}"], self.properties)

    def pythons(self, number: int) -> list[int]:
        """Python processes of a worker."""
        return [p for p in tree(self._processes[f"worker-{number}"].pid) if _is_python(p)]

    def kill_worker(self, number: int) -> None:
        """SIGKILL it with all of its executors, as a machine that loses its power."""
        process = self._processes[f"worker-{number}"]
        kill_all(tree(process.pid))
        process.wait()

    def log(self, name: str) -> str:
        """What the master or a worker has said since it was started last."""
        return (self.folder / name / "log").read_text(errors="replace")

    def stop(self) -> None:
        """SIGKILL all of it."""
        for process in self._processes.values():
            kill_all(tree(process.pid))
            process.wait()

    def _said(self, name: str, pattern: re.Pattern[str]) -> str:
        assert self._processes[name].poll() is None, self.log(name)[-3000:]
        found = pattern.search(self.log(name))
        return found[1] if found else ""

    def _start(self, name: str, java_class: str, *arguments: str) -> None:
        home = self.folder / name
        home.mkdir(exist_ok=True)
        own = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "SPARK", "PYSPARK"))}
        own |= {"SPARK_HOME": str(SPARK_HOME), "SPARK_SCALA_VERSION": _SCALA}
        own |= {"PATH": f"{self._bin}:{os.environ['PATH']}"}
        with (home / "log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                [find_java(), *class_path(), *_QUICK, f"org.apache.spark.deploy.{java_class}",
                 "--webui-port", "0", "--properties-file", str(self.properties), *arguments],
                stdout=log,
                stderr=log,
                cwd=home,
                env=own,
                start_new_session=True,
            )  # fmt: skip


def _is_python(pid: int) -> bool:
    with suppress(OSError):
        return b"worker_daemon" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False
