"""The control key, by which drkit's processes recognize each other's records."""

from __future__ import annotations

from pathlib import Path
import resource
import stat
from typing import Annotated, Any, Final, Self

from pydantic import PrivateAttr, model_validator
from pydantic_core import PydanticCustomError

from drkit.config.tables.fields import TO_DO, Listed, Strict
from drkit.control_key import ControlKey, ControlKeys, WeakKey
from drkit.next_command import typed
from drkit.topology import split_list

_MOST_BYTES: Final = 1 << 16
_FROM_ANOTHER: Final = "copy it from another host that runs drkit; for the first host"
_OPEN: Final = stat.S_IRWXO | stat.S_IWGRP
"""Permissions that make a key file unsafe: any for others, write for its group."""


class ControlSettings(Strict):
    """The control key: with it only records of drkit's own processes count in its topics."""

    key_file: str | None = None
    """A file with at least 32 random bytes, the same on every host that runs drkit, readable to its user
    alone (``drkit control create PATH``). Relative to this file. Absent: any writer to a ``drkit-`` topic can
    command both clusters."""
    previous_key_files: Annotated[tuple[str, ...], Listed] = ()
    """Keys whose records still count while the key changes; ``key_file`` alone signs."""
    _keys: ControlKeys | None = PrivateAttr(None)

    @model_validator(mode="after")
    def _read(self) -> Self:
        if self.key_file is None:
            if self.previous_key_files:
                what = "previous_key_files without key_file: nothing would be signed"
                raise PydanticCustomError("control_key", what, {TO_DO: "set key_file, or leave both out"})
            return self
        found = [read_key(Path(name)) for name in (self.key_file, *self.previous_key_files)]
        self._keys = ControlKeys(found[0], tuple(found[1:]))
        return self

    @property
    def keys(self) -> ControlKeys | None:
        """The keys in these files; None without a configured key."""
        return self._keys


def keys_beside(folder: Path, tables: dict[str, Any]) -> None:
    """Make paths of key files relative to the configuration file."""
    control = tables.get("control")
    if not isinstance(control, dict):
        return
    if isinstance(name := control.get("key_file"), str):
        control["key_file"] = str(folder / name)
    names = control.get("previous_key_files")
    if isinstance(names, str):
        names = split_list(names)
    if isinstance(names, (list, tuple)):
        control["previous_key_files"] = [str(folder / n) if isinstance(n, str) else n for n in names]


def read_key(path: Path) -> ControlKey:
    """The key in a file. Raises PydanticCustomError if it is not a key, or if others may read it."""
    try:
        with path.open("rb") as file:
            mode = path.stat().st_mode
            material = file.read(_MOST_BYTES)
    except FileNotFoundError as error:
        hint = f"{_FROM_ANOTHER}: {typed('drkit', 'control', 'create', str(path))}"
        raise _refused(path, f"cannot be read: {error.strerror}", hint) from error
    except OSError as error:
        hint = "let only the user of this process read it"
        raise _refused(path, f"cannot be read: {error.strerror}", hint) from error
    if mode & _OPEN:
        what = f"is open to other users (mode {stat.S_IMODE(mode):04o})"
        hint = f"{typed('chmod', '600', str(path))}; make a new key if another user may have read this one"
        raise _refused(path, what, hint)
    # A core dump would hold it, such as that of a client library that aborts.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    try:
        return ControlKey.of(material)
    except WeakKey as error:
        hint = (
            f"{_FROM_ANOTHER}: {typed('rm', str(path))} && {typed('drkit', 'control', 'create', str(path))}"
        )
        raise _refused(path, f"is too weak: {error}", hint) from error


def _refused(path: Path, what: str, hint: str) -> PydanticCustomError:
    return PydanticCustomError(
        "control_key", "the control key {path} {what}", {"path": str(path), "what": what, TO_DO: hint}
    )
