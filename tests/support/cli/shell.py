"""Words as bash makes them of a line."""

from __future__ import annotations

import subprocess


def shell(line: str) -> list[str]:
    """The words that bash makes of a line."""
    done = subprocess.run(
        ["/bin/bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, text=True, check=True, timeout=30
    )
    return done.stdout.split("\0")[:-1]
