"""Builds adapters from the settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from drkit import observe
from drkit.config import RepointSettings
from drkit.endpoint import Endpoint
from drkit.errors import ConfigError
from drkit.repoint.command import Command
from drkit.repoint.configmap import ConfigMap, find_access
from drkit.repoint.contract import Adapter, RepointEffect, judge
from drkit.repoint.file import EndpointFile
from drkit.repoint.tell import Way
from drkit.repoint.webhook import Webhook


class Printed:
    """Prints what to change, once per term and process.

    :param say: takes one line
    """

    name = "print"

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._current: Endpoint | None = None

    def current(self) -> Endpoint | None:
        """Return the endpoint that this process has printed."""
        return self._current

    def tell(self, endpoint: Endpoint) -> RepointEffect:
        """Print a newer endpoint."""
        effect = judge(self._current, endpoint, self.name)
        if effect is RepointEffect.CHANGED:
            self._say(f"Send the clients to {endpoint.cluster} now (term {endpoint.term}):")
            self._say(f"  bootstrap.servers={endpoint.bootstrap_servers}")
            for name, value in endpoint.client.items():
                self._say(f"  {name}={value}")
            for name, there in endpoint.topics.items():
                self._say(f"  topic {name} is called {there} there")
            self._say("  close each client and create a new one; one that only reconnects may repeat records")
            self._current = endpoint
        return effect


Say = Callable[[str], None]


def _log(line: str) -> None:
    observe.event("repoint", say=line)


_KINDS: Final[dict[str, Callable[[RepointSettings, Say], Adapter]]] = {
    "file": lambda s, _: EndpointFile(Path(s.path or "")),
    "command": lambda s, _: Command(s.command or (), s.timeout_seconds),
    "webhook": lambda s, _: Webhook(
        s.url or "",
        secret=s.secret,
        headers=s.headers or {},
        ca_file=s.ca_file,
        timeout_seconds=s.timeout_seconds,
    ),
    "configmap": lambda s, _: ConfigMap(
        find_access(s.kubeconfig),
        s.name or "",
        namespace=s.namespace,
        key=s.key,
        timeout_seconds=s.timeout_seconds,
    ),
    "print": lambda _, say: Printed(say),
}


class Unusable:
    """Replaces an adapter that cannot be built, as without its kubeconfig, so that the others still work.

    Call `current` to find the error before a failover.
    """

    def __init__(self, name: str, error: ConfigError) -> None:
        self.name = name
        self._error = error

    def current(self) -> Endpoint | None:
        """Raise ConfigError."""
        raise self._error

    def tell(self, _endpoint: Endpoint) -> RepointEffect:
        """Raise ConfigError."""
        raise self._error


def adapters(
    settings: Iterable[RepointSettings],
    groups: Iterable[str] | None = None,
    topics: Iterable[str] = (),
    *,
    say: Say = _log,
) -> list[Way]:
    """An adapter for each way that clients of these groups and topics follow, in the order of the settings.

    :param groups: the moved groups, or None for all ways
    :param topics: the moved topics, by their names on the source
    :param say: takes the lines of the kind ``print``
    """
    moved, names = None if groups is None else tuple(groups), tuple(topics)
    return [
        Way(_made(one, say), one.retry_seconds, one.timeout_seconds)
        for one in settings
        if moved is None or one.tells(moved, names)
    ]


def name_of(settings: RepointSettings) -> str:
    """The name of an adapter in reports, by its settings."""
    return _made(settings, _log).name


def _made(settings: RepointSettings, say: Say) -> Adapter:
    try:
        return _KINDS[settings.kind](settings, say)
    except ConfigError as error:
        return Unusable(f"{settings.kind} {settings.name or ''}".rstrip(), error)
