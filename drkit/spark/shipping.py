"""Ships drkit's code to Spark's workers, and reports what a worker lacks."""

from __future__ import annotations

from collections.abc import Callable
import hashlib
from importlib.metadata import PackageNotFoundError, version
import json
from pathlib import Path
import re
from typing import Final
import zipfile

from pyspark import cloudpickle

import drkit
from drkit.errors import ConfigError
from drkit.spark import executor_check
from drkit.spark.executor_check import CheckedTask, Needs, WorkerUnfit

_DAY: Final = (1980, 1, 1, 0, 0, 0)
_CODE: Final = (".py", ".json", ".html")
_PACKAGES: Final = {
    "confluent_kafka": "confluent-kafka",
    "cramjam": "cramjam",
    "cronsim": "cronsim",
    "google_crc32c": "google-crc32c",
    "kafka": "kafka-python",
    "lz4": "lz4",
    "numpy": "numpy",
    "prometheus_client": "prometheus-client",
    "pyarrow": "pyarrow",
    "pydantic": "pydantic",
    "rich": "rich",
    "structlog": "structlog",
    "tenacity": "tenacity",
    "zstandard": "zstandard",
}
"""Module → distribution: what tasks import, on every worker."""
_ANY_VERSION: Final = frozenset({"numpy", "pyarrow", "rich", "structlog"})
SOME_WORKER: Final = "a Spark worker"
"""Name of the worker where an error of Spark does not name one."""
_DOCS: Final = "drkit explain spark-cluster"
_INSTALL: Final = (
    "install it on every worker for the Python that Spark runs there, or ship an archive with"
    " --conf spark.archives=drkit-python.tar.gz#python --conf spark.pyspark.python=python/bin/python,"
    f" see {_DOCS}"
)
_UNFIT: Final = re.compile(rf"^(?:[\w.]+\.)?{WorkerUnfit.__name__}: (\{{.*\}})$", re.MULTILINE)
_HOST: Final = re.compile(r"\(TID \d+\) \((\S+) executor (\S+?)\)")
_OTHER_PYTHON: Final = re.compile(
    r"PYTHON_VERSION_MISMATCH\].*?(\d+\.\d+) than that in driver: (\d+\.\d+)", re.DOTALL
)
_NO_PYTHON: Final = re.compile(r"Cannot run program \"([^\"]+)\"")
_NO_PYSPARK: Final = re.compile(r"No module named '?(pyspark|py4j)\b")

# Where it runs, there may be no drkit to import it from.
cloudpickle.register_pickle_by_value(executor_check)  # type: ignore[no-untyped-call]


def make_archive(folder: Path) -> Path:
    """Write drkit's code into one file of that folder; its name identifies the code."""
    root = Path(drkit.__file__).resolve().parent
    files = sorted(f for f in root.rglob("*") if f.suffix in _CODE and f.is_file())
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    path = folder / f"drkit-{drkit.__version__}-{digest.hexdigest()[:12]}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            inside = zipfile.ZipInfo(f"drkit/{file.relative_to(root).as_posix()}", _DAY)
            inside.compress_type, inside.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(inside, file.read_bytes())
    return path


def carrier(archive: Path) -> Callable[[Callable[[str], str]], Callable[[str], str]]:
    """Return a wrapper for tasks that checks the worker first, and runs the code of that archive."""
    packages = {module: (name, _version(name)) for module, name in _PACKAGES.items()}
    needs = Needs(archive.name, packages)
    return lambda task: CheckedTask(needs, cloudpickle.dumps(task))  # type: ignore[no-untyped-call]


def unfit_worker(text: str) -> ConfigError | None:
    """Return the error for an unfit worker from a job's error text, or None for any other error."""
    host = " executor ".join(_HOST.findall(text)[-1]) if _HOST.search(text) else SOME_WORKER
    if found := _UNFIT.findall(text):
        unfit = json.loads(found[-1])
        return ConfigError(unfit.pop("code"), where=unfit.pop("where"), hint=_INSTALL, **unfit)
    if found := _OTHER_PYTHON.findall(text):
        worker, driver = found[-1]
        hint = f"name a Python {driver} of the workers with --conf spark.pyspark.python=…, see {_DOCS}"
        evidence = f"Python {worker} there, {driver} here"
        return ConfigError("worker_other_python", where=host, evidence=evidence, hint=hint)
    if found := _NO_PYTHON.findall(text):
        hint = f"name the workers' Python with --conf spark.pyspark.python=…, see {_DOCS}"
        return ConfigError("worker_without_python", where=host, evidence=found[-1], hint=hint)
    if found := _NO_PYSPARK.findall(text):
        hint = f"set SPARK_HOME where the worker starts, or install pyspark there, see {_DOCS}"
        evidence = f"No module named {found[-1]}"
        return ConfigError("worker_without_pyspark", where=host, evidence=evidence, hint=hint)
    return None


def _version(name: str) -> str:
    """Return the installed version, or an empty text if any version suffices."""
    try:
        return "" if name in _ANY_VERSION else version(name)
    except PackageNotFoundError:
        return ""
