"""What a fence agent keeps across restarts: that it is armed, or that it has fenced."""

from __future__ import annotations

from dataclasses import asdict, dataclass
import json
import os
from pathlib import Path
import stat
from typing import Final

from drkit.atomic_file import replace_file
from drkit.errors import Failed
from drkit.private_file import open_private

_LARGEST: Final = 1 << 20
"""Bytes: a larger file holds something else."""


@dataclass(frozen=True, slots=True)
class AgentState:
    """The content of the file."""

    armed: bool = False
    """The agent held a lease: observers rely on it."""
    fenced: bool = False
    """The site's command and the proof succeeded; stays set until a person lifts the fence."""
    at_ms: int = 0
    evidence: tuple[str, ...] = ()


def read_state(path: Path) -> AgentState:
    """The content of the file; a missing file is an agent that is not armed.

    :raises Failed: it cannot be read, or is damaged
    """
    return find_state(path) or AgentState()


def find_state(path: Path) -> AgentState | None:
    """The content of the file; None without a file. A symbolic link is not followed.

    :raises Failed: it cannot be read, or is damaged
    """
    try:
        raw = json.loads(_content(path))
        return AgentState(
            bool(raw["armed"]), bool(raw["fenced"]), int(raw["at_ms"]), tuple(map(str, raw["evidence"]))
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise Failed("agent_state_unreadable", where=str(path), evidence=str(error)) from error


def _content(path: Path) -> bytes:
    # Without O_NONBLOCK the open would wait for a pipe of that name.
    handle = open_private(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ValueError("a folder, pipe or device has its name")
        return file.read(_LARGEST)


def write_state(path: Path, state: AgentState) -> None:
    """Write the file atomically and durably. Its owner stays, also if an administrator lifts the fence.

    :raises Failed: the disk does not take it
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(path, json.dumps(asdict(state)).encode())
    except OSError as error:
        raise Failed("agent_state_unwritable", where=str(path), evidence=str(error)) from error
