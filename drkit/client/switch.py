"""From one cluster to the next: when to go, and what happened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
import logging
import os
from pathlib import Path
import threading
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer

from drkit.client.trust import why_not
from drkit.clock import Seconds, monotonic
from drkit.endpoint import Endpoint, parse_endpoint
from drkit.errors import ConfigError

LOG: Final = logging.getLogger("drkit.client")
CHECK_SECONDS: Final = 0.1
"""How often the endpoint file is looked at, and the longest single wait in librdkafka."""
_ABORT_SECONDS: Final = 30.0
_NOTHING_OPEN: Final = frozenset({KafkaError._STATE, KafkaError._NOT_CONFIGURED})  # noqa: SLF001  only names
_OWN: Final = {
    # A client that finds the other cluster by itself keeps its old position for a while and repeats records.
    "metadata.recovery.strategy": "none",
}


class Switch(NamedTuple):
    """A client went from one cluster to another."""

    old: Endpoint
    new: Endpoint
    resent: int = 0
    """Records of a producer that the old cluster had not acknowledged and that are sent to the new one."""
    uncertain: int = 0
    """Of these, those that were on their way: the old cluster may hold them too."""


OnSwitch = Callable[[Switch], object]


class EndpointWatch:
    """Follows the endpoint file by its inode and modification time: one `stat` per look, ten looks a second.

    :param given: the application's own properties
    :param clusters: alias → what holds there alone, such as credentials
    :raises ConfigError: there is no endpoint in the file at the start, or one that is not to be followed
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        given: Mapping[str, Any] | None = None,
        clusters: Mapping[str, Mapping[str, Any]] | None = None,
        clock: Seconds = monotonic,
    ) -> None:
        self._path, self._clock = Path(path), clock
        self._given, self._clusters = given or {}, clusters or {}
        self._next_look = 0.0
        self._complained = False
        self._seen = self._found = _stamp(self._path)
        try:
            self.endpoint = self._read(None)
        except (OSError, ValueError) as error:
            raise ConfigError(
                "the client does not know where to go",
                where=str(self._path),
                evidence=str(error),
                hint="write the endpoint file with: drkit repoint apply --to CLUSTER",
            ) from error

    def newer(self, *, at_once: bool = False) -> Endpoint | None:
        """An endpoint that counts instead of the present one, once it is there.

        :param at_once: look, however short ago the last look was
        """
        now = self._clock()
        if now < self._next_look and not at_once:
            return None
        self._next_look = now + CHECK_SECONDS
        stamp = _stamp(self._path)
        if stamp == self._seen:
            return None
        try:
            found = self._read(self.endpoint)
        except (OSError, ValueError) as error:
            if not self._complained:
                LOG.warning(
                    "%s is not followed, staying with %s: %s", self._path, self.endpoint.cluster, error
                )
            self._complained = True
            return None
        self._complained = False
        if found.term < self.endpoint.term:
            LOG.warning("%s leads to the older term %d: not followed", self._path, found.term)
        elif found != self.endpoint:
            self._found = stamp
            return found
        self._seen = stamp
        return None

    def _read(self, before: Endpoint | None) -> Endpoint:
        """What the file says. Raises ValueError when it is no endpoint, or says what it may not."""
        found = parse_endpoint(self._path.read_text(encoding="utf-8"))
        if reason := why_not(found, {**self._given, **self._clusters.get(found.cluster, {})}, before):
            raise ValueError(reason)
        return found

    def followed(self, endpoint: Endpoint) -> None:
        """The client is there now. Until this is said, `newer` says the same again."""
        self.endpoint, self._seen = endpoint, self._found


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def configuration(
    given: Mapping[str, Any], clusters: Mapping[str, Mapping[str, Any]], endpoint: Endpoint
) -> dict[str, Any]:
    """The configuration of a client for one cluster; what is special wins.

    :param clusters: alias → what holds there alone, such as credentials
    """
    return {
        **_OWN,
        **endpoint.client,
        **given,
        **clusters.get(endpoint.cluster, {}),
        "bootstrap.servers": endpoint.bootstrap_servers,
    }


def end_producer(client: Producer) -> None:
    """Abort what is open, and close the client. For the background.

    One whose transaction cannot be aborted (its commit is under way, another producer has fenced it, its
    cluster stands still) is only let go of: librdkafka ends it with its last reference. `close` would try
    the same abort again, wait for it without end, and warn the user's program that it failed.

    :raises KafkaException: why it could not be aborted
    """
    try:
        client.abort_transaction(_ABORT_SECONDS)
    except KafkaException as error:
        if error.args[0].code() not in _NOTHING_OPEN:
            raise
    client.close()


def in_background(name: str, work: Callable[[], object]) -> None:
    """Do something that may hang for a minute, such as closing a client whose cluster stands still.

    The thread is a daemon: a program may end before it has.
    """

    def run() -> None:
        try:
            work()
        except (KafkaException, RuntimeError) as error:  # nobody waits for it any more
            LOG.info("%s: %s", name, error)

    threading.Thread(target=run, name=name, daemon=True).start()
