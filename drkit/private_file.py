"""Files that only their owner may read or replace, and that are never reached through a link."""

from __future__ import annotations

import os
from pathlib import Path
import stat
from typing import Final

_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


def open_private(path: str | Path, flags: int) -> int:
    """A descriptor of a file; one that is created is for its owner alone. Also an opener for :func:`open`.

    :raises OSError: among others because the path is a symbolic link
    """
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def is_private(path: Path) -> bool:
    """Return whether a file or folder exists and no other user can write or replace it, except root.

    Every folder above it counts, too: who may write there can replace the file.
    """
    try:
        ends = (path.absolute(), path.resolve(strict=True))
        return all(_is_ours(each) for end in ends for each in (end, *end.parents))
    except OSError:
        return False


def _is_ours(path: Path) -> bool:
    status = path.lstat()
    if status.st_uid not in {0, os.geteuid()}:
        return False
    if stat.S_ISLNK(status.st_mode) or not status.st_mode & _OTHERS_WRITE:
        return True
    # In a folder such as /tmp others cannot replace what is ours.
    return stat.S_ISDIR(status.st_mode) and bool(status.st_mode & stat.S_ISVTX)
