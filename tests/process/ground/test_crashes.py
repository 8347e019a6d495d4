"""A test process that crashes or hangs ends its test, not the run."""

from __future__ import annotations

from pathlib import Path
import subprocess
import sys

import pytest

ROOT = Path(__file__).parents[3]
FILES = {
    "conftest.py": "import tests.support.crashes\ntests.support.crashes.GRACE_SECONDS = 0.5\n",
    "test_crash.py": "import ctypes\ndef test_bad():\n    ctypes.string_at(0)\ndef test_good():\n    pass\n",
    "test_hold.py": "import ctypes\ndef test_bad():\n    ctypes.PyDLL(None).sleep(300)  # with the lock\n",
    "test_one.py": "def test_good():\n    pass\n",
    "test_two.py": "def test_good():\n    pass\n",
}


@pytest.mark.wide
def test_the_run_continues_and_names_the_tests(tmp_path: Path):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    plugins = ["-p", "tests.support.crashes", "-p", "no:cacheprovider"]
    options = [*plugins, "--rootdir", str(tmp_path), "--timeout", "1"]
    workers = ["-n", "1", "--dist", "loadfile", "--no-loadscope-reorder", "--timeout-method", "thread"]
    command = [sys.executable, "-m", "pytest", *options, *workers, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "Segmentation fault" in done.stderr
    assert "Timeout (" in done.stderr
    for file in ("test_crash.py", "test_hold.py"):
        assert f"crashed while running '{file}::test_bad'" in done.stdout
    assert "2 failed, 3 passed" in done.stdout
