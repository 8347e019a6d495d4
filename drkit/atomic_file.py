"""Replace a file in one step: readers see the old content or the new one, also after a power cut."""

from __future__ import annotations

from contextlib import suppress
import os
from pathlib import Path
import stat
import tempfile


def replace_file(file: Path, content: bytes, *, new_mode: int | None = None) -> None:
    """Write the content of a file atomically and durably, with the owner and mode of the file before.

    :param new_mode: of a file that was not there before; None: only its owner may read it, always
    :raises OSError: the disk or its folder does not take it; the old file is as it was
    """
    # An unpredictable name, so that no link can wait under it.
    handle, fresh = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(handle, "wb") as out:
            _take_over(file, handle, new_mode)
            out.write(content)
            out.flush()
            os.fsync(handle)
        Path(fresh).replace(file)
    except BaseException:
        Path(fresh).unlink(missing_ok=True)
        raise
    sync_folder(file.parent)


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to disk. Raises OSError."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _take_over(file: Path, handle: int, new_mode: int | None) -> None:
    try:
        before = file.lstat()
    except FileNotFoundError:
        mode = new_mode
    else:
        mode = None if new_mode is None else stat.S_IMODE(before.st_mode)
        with suppress(PermissionError):  # only root may give files away
            os.fchown(handle, before.st_uid, before.st_gid)
    if mode is not None:
        os.fchmod(handle, mode)
