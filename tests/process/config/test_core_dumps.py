"""A process that crashes may leave its memory in a file, but not one that has read the control key."""

from __future__ import annotations

import os
from pathlib import Path
import resource
import subprocess
import sys

import pytest

from tests.support.config.safe_auto import CONFIG

KEY = "0123456789abcdef0123456789abcdef"
ABORTS = """
import os, resource, sys
# A small limit: the kernel writes a part and reports a dump, without a file of many megabytes.
resource.setrlimit(resource.RLIMIT_CORE, (1 << 16, resource.getrlimit(resource.RLIMIT_CORE)[1]))
from drkit.config import read
assert (read(sys.argv[1], {}).settings.control.keys is not None) == (sys.argv[2] == "key")
os.abort()
"""


def leaves_core_dump(folder: Path, *, key: bool) -> bool:
    """Return whether a process dumps core that has read a configuration, with a control key or without."""
    (folder / "control.key").write_text(KEY)
    (folder / "control.key").chmod(0o600)
    file = folder / "drkit.toml"
    plain = CONFIG.replace('"auto"', '"approve"')
    file.write_text(plain + ('[control]\nkey_file = "control.key"\n' if key else ""))
    words = [sys.executable, "-c", ABORTS, str(file), "key" if key else ""]
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    child = subprocess.Popen(words, cwd=folder, env=environ, stderr=subprocess.DEVNULL)
    _, status = os.waitpid(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == -6
    return os.WCOREDUMP(status)


@pytest.mark.skipif(
    resource.getrlimit(resource.RLIMIT_CORE)[1] == 0, reason="this system allows no core dumps"
)
def test_a_process_that_has_read_the_key_leaves_no_core_dump(tmp_path: Path):
    if not leaves_core_dump(tmp_path, key=False):
        pytest.skip("core dumps of this system go elsewhere")
    assert not leaves_core_dump(tmp_path, key=True)
