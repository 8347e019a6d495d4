"""What the help of a command loads: options and words, and nothing of what the command does."""

from __future__ import annotations

from pathlib import Path
import subprocess
import sys

import pytest

ROOT = Path(__file__).parents[3]
HEAVY = {
    "pyspark", "pyarrow", "numpy", "pandas", "confluent_kafka", "kafka", "pydantic", "rich", "structlog",
    "urllib3", "asyncio",
}  # fmt: skip
SLOW = {"pathlib", "unicodedata", "drkit.catalogue"}
"""They cost a fifth of the 0.1 s of processor time that ``drkit --help`` may take."""
HELP = (
    ("--help", "  failover "),
    ("failover --help", "--accept-data-loss"),
    ("reprotect --help", "--clients-cut"),
    ("fence lift --help", "--accept-divergence"),
    ("status --help", "--all-groups"),
    ("watch acknowledge --help", "--flow"),
    ("replicate --help", "--takeover-from-mm2"),
    ("translate spark-checkpoint --help", "--keep-source"),
    ("demo --help", "--keep"),
)


@pytest.mark.parametrize(("words", "said"), HELP, ids=[words for words, _ in HELP])
def test_help_loads_what_a_command_takes_and_not_what_it_does(words: str, said: str):
    """An operator who asks at night how to type a failover gets the answer at once."""
    heavy = HEAVY | SLOW if words == "--help" else HEAVY
    program = (
        "import sys\n"
        "from drkit.cli.main import run\n"
        f"code = run({words.split()})\n"
        f"heavy = {heavy} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert said in done.stdout


@pytest.mark.parametrize("module", ["drkit.cli.actions.failover", "drkit.replicate.solo"])
def test_what_needs_neither_spark_nor_arrays_loads_none(module: str):
    program = f"import sys, {module}; print(*{{'pyspark', 'py4j', 'pyarrow', 'numpy'}} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, timeout=60, check=True
    )
    assert not done.stdout.strip()
