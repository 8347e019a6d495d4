"""Files that only their owner may read, and that are never reached through a link."""

from __future__ import annotations

import os
from pathlib import Path


def open_private(path: str | Path, flags: int) -> int:
    """A descriptor of a file; one that is created is for its owner alone. Also an opener for :func:`open`.

    :raises OSError: among others because the path is a symbolic link
    """
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)
