"""A Python as Spark's workers have it: with what the how-to page installs there, without drkit."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path
import shlex
import sys
import sysconfig

from packaging.requirements import Requirement
import pyspark

SPARK_HOME = Path(pyspark.__file__).parent
PYSPARK = tuple(str(f) for f in sorted((SPARK_HOME / "python" / "lib").glob("*.zip")))
"""What Spark puts on the path of a worker's Python."""
_PAGE = Path(__file__).parents[3] / "docs/how-to/spark-cluster.md"
_BASE = Path(sys.executable).resolve()
_PLAIN = """#!/bin/sh
export PYTHONPATH="$PYTHONPATH:{path}"
exec {base} -S "$@"
"""
_OTHER_VERSION = """#!{base} -S
import collections, runpy, sys
Version = collections.namedtuple("Version", "major minor micro releaselevel serial")
sys.executable, sys.version_info = __file__, Version(3, {minor}, 0, "final", 0)
sys.path += ["{path}"]
_, module, *arguments = sys.argv[1:]
sys.argv = [module, *arguments]
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""


def worker_python(folder: Path, *, without: Iterable[str] = (), minor: int | None = None) -> Path:
    """Write a command that starts one.

    :param without: modules that it does not have
    :param minor: says that it is Python 3 of this minor version
    """
    packages = folder / "packages"
    packages.mkdir(parents=True)
    for entry in installed(documented()):
        if not entry.startswith(tuple(without)):
            (packages / entry).symlink_to(Path(sysconfig.get_path("platlib"), entry))
    text = _PLAIN if minor is None else _OTHER_VERSION
    command = folder / "python"
    command.write_text(text.format(base=_BASE, path=packages, minor=minor))
    command.chmod(0o755)
    return command


def documented() -> set[str]:
    """Return the requirements that the how-to page installs for the workers."""
    command = _PAGE.read_text().split("drkit-python/bin/pip install")[1].split("```")[0]
    return set(shlex.split(command.replace("\\\n", "")))


def installed(requirements: Iterable[str]) -> set[str]:
    """Return the files and folders in site-packages that these requirements and their own bring."""
    names, entries = {Requirement(text).name for text in requirements}, set()
    todo = list(names)
    while todo:
        found = distribution(todo.pop())
        entries |= {file.parts[0] for file in found.files or () if file.parts[0] not in {"..", "__pycache__"}}
        needed = (Requirement(text) for text in found.requires or ())
        more = {each.name for each in needed if each.marker is None or each.marker.evaluate({"extra": ""})}
        todo += more - names
        names |= more
    return entries
