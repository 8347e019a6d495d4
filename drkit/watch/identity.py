"""Identify an observer: the name under which it votes, and the run of its process."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
import os
import socket
import uuid

from drkit.config.tables.watch import WatchSettings
from drkit.detect.note_kinds import label
from drkit.errors import ConfigError
from drkit.flow_state.codec.fields import Malformed


def configured_name(name: str, names: Collection[str], setting: str, option: str) -> str:
    """The name, if the configuration lists it, or lists no names.

    :param setting: which lists the names
    :param option: the option that sets the name, for the error
    :raises ConfigError: others would not count it, or would drop every note with it
    """
    if names and name not in names:
        evidence = f"{setting} = {', '.join(sorted(names))}"
        raise ConfigError("name_not_listed", where=option, evidence=evidence, name=name, setting=setting)
    try:
        return label(name)
    except Malformed as error:
        raise ConfigError("name_unprintable", where=option, evidence=f"{name[:80]!r}: {error}") from None


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
