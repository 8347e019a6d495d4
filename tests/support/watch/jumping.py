"""A process whose wall clock jumps: `python -m tests.support.watch.jumping FILE drkit watch --json ...`.

FILE holds by how many seconds the clock is wrong now; it may be written again at any time. Boot time and
monotonic time continue, as they do when a machine's clock is set.
"""

from __future__ import annotations

from pathlib import Path
import runpy
import sys
import time


def main() -> None:
    wrong, module = Path(sys.argv[1]), sys.argv[2]
    real = time.time_ns

    def jumped() -> int:
        return real() + int(float(wrong.read_text(encoding="ascii") or 0) * 1e9)

    time.time_ns = jumped
    sys.argv = sys.argv[2:]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
