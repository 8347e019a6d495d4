"""What a fence agent must not forget when its process ends: that it promised to fence, or that it has."""

from __future__ import annotations

from dataclasses import asdict, dataclass
import json
import os
from pathlib import Path

from drkit.errors import Failed


@dataclass(frozen=True, slots=True)
class AgentState:
    """The content of the file."""

    armed: bool = False
    """It held a lease: observers rely on it."""
    fenced: bool = False
    """The site's command ended well, and the proof; until a person lifts it."""
    at_ms: int = 0
    evidence: tuple[str, ...] = ()


def read_state(path: Path) -> AgentState:
    """What stands in the file; nothing was promised where there is none.

    :raises Failed: it cannot be read, or is damaged
    """
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        return AgentState(
            bool(raw["armed"]), bool(raw["fenced"]), int(raw["at_ms"]), tuple(map(str, raw["evidence"]))
        )
    except FileNotFoundError:
        return AgentState()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Failed(
            "the state of the fence agent cannot be read",
            where=str(path),
            evidence=str(error),
            hint="find out whether the primary is fenced, then remove the file",
        ) from error


def write_state(path: Path, state: AgentState) -> None:
    """Write the file so that it is whole and stays, whatever happens next.

    :raises Failed: the disk does not take it
    """
    fresh = path.with_name(path.name + ".new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with fresh.open("w", encoding="utf-8") as file:
            json.dump(asdict(state), file)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise Failed(
            "the state of the fence agent cannot be written",
            where=str(path),
            evidence=str(error),
            hint="set fence_agent.state_file to a place where this user may write",
        ) from error
