"""What a task checks in a Spark worker before it runs: whether drkit can work there.

This module travels with every task, by value: on a worker nothing of drkit may be there yet. It imports
Python's standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
import json
import os
import pickle
import platform
import sys
from typing import Final, NamedTuple

_CHECKED: Final = "DRKIT_CHECKED"
"""In this process's environment: the code of drkit that was found to work here."""


class WorkerUnfit(Exception):
    """A worker on which drkit cannot run; its text is JSON, in one line."""


class Needs(NamedTuple):
    """Requirements for a worker."""

    shipped: str
    """Name of the file with drkit's code."""
    packages: Mapping[str, tuple[str, str]]
    """Module → its distribution, and its version at the driver, or "" for any."""


class CheckedTask:
    """A task that runs only on a worker that can run drkit.

    :param code: the pickled task; it refers to drkit, which may be missing where it is unpickled
    """

    def __init__(self, needs: Needs, code: bytes) -> None:
        self._needs, self._code = needs, code

    def __call__(self, text: str) -> str:
        """Check once in a process, then run the task. Raises WorkerUnfit with what this worker lacks."""
        if os.environ.get(_CHECKED) == self._needs.shipped:
            task: Callable[[str], str] = pickle.loads(self._code)  # noqa: S301  Spark's own way
            return task(text)
        if lacking := missing(self._needs.packages):
            raise unfit("worker_lacks_packages", ", ".join(lacking))
        if other := other_versions(self._needs.packages):
            raise unfit("worker_other_packages", ", ".join(other))
        try:
            task = pickle.loads(self._code)  # noqa: S301  Spark's own way
        except (ImportError, AttributeError, SyntaxError) as error:
            raise unfit("worker_cannot_load_drkit", f"{type(error).__name__}: {error}") from error
        file = str(getattr(sys.modules.get("drkit"), "__file__", ""))
        if self._needs.shipped not in file:
            raise unfit("worker_other_drkit", f"it loads {file}")
        os.environ[_CHECKED] = self._needs.shipped
        return task(text)


def missing(packages: Mapping[str, tuple[str, str]]) -> list[str]:
    """Distributions whose module is not here."""
    return [name for module, (name, _) in packages.items() if find_spec(module) is None]


def other_versions(packages: Mapping[str, tuple[str, str]]) -> list[str]:
    """Distributions that are here in another major version."""
    found = []
    for name, wanted in packages.values():
        if not wanted:
            continue  # any will do
        try:
            installed = version(name)
        except PackageNotFoundError:
            continue  # a module without metadata, as Debian's: it is there
        if installed.partition(".")[0] != wanted.partition(".")[0]:
            found.append(f"{name} {installed} instead of {wanted}")
    return found


def unfit(code: str, evidence: str) -> WorkerUnfit:
    """Return the error, with where it was met."""
    where = f"{platform.node()}, {os.getcwd()}"  # noqa: PTH109  pathlib would be one more import
    python = f"{sys.executable} ({platform.python_version()})"
    return WorkerUnfit(json.dumps({"code": code, "where": where, "evidence": f"{evidence}; {python}"}))
