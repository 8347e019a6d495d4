"""An observer's identity: the name under which it votes, and the run of its process."""

from __future__ import annotations

from dataclasses import dataclass
import os
import socket
import uuid

from drkit.config.tables.watch import WatchSettings
from drkit.watch.names import configured_name


@dataclass(frozen=True, slots=True)
class ObserverIdentity:
    """Name and run of an observer."""

    name: str
    """Stable, and different for each observer."""
    run: str
    """Identifies this process."""
    votes: bool = True
    """Whether it publishes its view. An observer without a vote must not change the others' decision."""


def this_process(
    name: str | None = None, *, votes: bool = True, watch: WatchSettings | None = None
) -> ObserverIdentity:
    """An identity, by default called as the settings say, else after the machine.

    :raises ConfigError: others would not take notes under this name
    """
    watch = watch or WatchSettings()
    option = "--observer" if name or not watch.name else "watch.name"
    called = name or (watch.name or socket.gethostname()) + ("" if votes else ", not voting")
    names = watch.observer_names if votes else ()
    usable = configured_name(called, names, "watch.observers", option)
    return ObserverIdentity(usable, f"{uuid.uuid4().hex[:12]}/{os.getpid()}", votes)
