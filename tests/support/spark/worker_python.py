"""A Python as Spark's workers have it: with what drkit depends on, without drkit."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
import sys
import sysconfig

import pyspark

SPARK_HOME = Path(pyspark.__file__).parent
PYSPARK = tuple(str(f) for f in sorted((SPARK_HOME / "python" / "lib").glob("*.zip")))
"""What Spark puts on the path of a worker's Python."""
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
    left_out = ("drkit", "_drkit", "pyspark", "__editable__", *without)
    for entry in Path(sysconfig.get_path("platlib")).iterdir():
        if not entry.name.startswith(left_out) and entry.suffix != ".pth":
            (packages / entry.name).symlink_to(entry)
    text = _PLAIN if minor is None else _OTHER_VERSION
    command = folder / "python"
    command.write_text(text.format(base=_BASE, path=packages, minor=minor))
    command.chmod(0o755)
    return command
