"""Processes of this machine: which one holds something, and whether it is alive."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
import os
from pathlib import Path
import socket
from typing import Any, Final, NamedTuple

from drkit.flow_state.codec.fields import Malformed
from drkit.flow_state.records import Process

_PROC: Final = Path("/proc")
_ENDED: Final = frozenset({"Z", "X"})


class _Stat(NamedTuple):
    """What /proc/PID/stat says (proc(5))."""

    state: str
    session: int
    born: int


def this_process() -> Process:
    """This process as a holder, so that others on this machine can check whether it is alive."""
    pid = os.getpid()
    return Process(socket.gethostname(), pid, _pid_space(), _birth(pid))


def lives_here(holder: Process) -> bool | None:
    """Whether the holder is a living process of this machine; None: unknown."""
    if holder.host != socket.gethostname() or holder.space != _pid_space():
        return None
    born = _birth(holder.pid)
    if born is None and (not Path("/proc/self/stat").exists() or _is_hidden(holder.pid)):
        return None
    return born is not None and born == holder.born


def holder_of(raw: Mapping[str, Any]) -> Process:
    """The process in JSON data; one without a machine where it is malformed."""
    try:
        return Process.of(dict(raw))
    except Malformed:
        return Process("", 0, "", None)


def boot_id() -> str:
    """The id of this machine's boot: clocks that count from it can be compared. Empty: not known."""
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def in_session(session: int) -> bool:
    """Whether a process of this session is alive, as Spark's workers are for a moment after their driver."""
    for entry in os.scandir(_PROC) if _PROC.exists() else ():
        if entry.name.isdigit():
            stat = _stat(int(entry.name))
            if stat is not None and stat.session == session and stat.state not in _ENDED:
                return True
    return False


def _pid_space() -> str:
    """Boot and pid namespace, within which process ids are valid (containers have their own namespace)."""
    try:
        return f"{boot_id()}/{os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115  no path of a file
    except OSError:
        return ""


def _birth(pid: int) -> int | None:
    """When a process began, in clock ticks since boot; None when there is no such process, or no /proc."""
    stat = _stat(pid)
    return None if stat is None or stat.state in _ENDED else stat.born


def _is_hidden(pid: int) -> bool:
    """Whether there is a process that /proc hides, as with ``hidepid``: another user's."""
    if _stat(pid) is not None:
        return False
    with suppress(ProcessLookupError):
        try:
            os.kill(pid, 0)
        except PermissionError:
            return True
    return False


def _stat(pid: int) -> _Stat | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, *rest = text.rpartition(")")[2].split()
    return _Stat(state, int(rest[2]), int(rest[18]))
