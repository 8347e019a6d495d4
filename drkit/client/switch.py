"""When clients switch to another cluster, and what a switch did."""

from __future__ import annotations

from collections.abc import Callable, Mapping
import logging
import os
from pathlib import Path
import threading
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer

from drkit.client.endpoint_file import read_text, stamp_of
from drkit.client.trust import connection, why_not
from drkit.clock import Seconds, monotonic
from drkit.endpoint import Endpoint, parse_endpoint
from drkit.errors import ConfigError

LOG: Final = logging.getLogger("drkit.client")
CHECK_SECONDS: Final = 0.1
"""Seconds between checks of the endpoint file, and the longest single wait in librdkafka."""
REST_SECONDS: Final = 3.0
"""Seconds; longer than one step of a file system's clock."""
RETRY_SECONDS: Final = 1.0
"""How often a file that cannot be followed is read again, or a client that cannot be made is tried."""
_SHOWN: Final = 500
"""Characters of a reason: a damaged file may hold long names."""
UNUSABLE: Final = (KafkaException, ValueError, TypeError)
"""What confluent-kafka raises for a configuration that it does not take."""
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
    """Number of a producer's records that the old cluster had not acknowledged and the new one gets."""
    uncertain: int = 0
    """How many of these were in flight: the old cluster may hold them too."""


OnSwitch = Callable[[Switch], object]


class EndpointWatch:
    """Follows the endpoint file, ten looks a second; it is read when its inode, times or size change.

    Clocks of file systems are coarse: a changed file is read at each check until it is unchanged for a while.

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
        self._lock = threading.Lock()
        self._next_look = 0.0
        self._complaint = ""
        self._stamp = stamp_of(self._path)
        self._rested_at, self._next_read = clock() + REST_SECONDS, 0.0
        self._ahead: Endpoint | None = None
        self._unusable: Endpoint | None = None
        self._usable_at = 0.0
        try:
            self.endpoint = self._read(None)
        except (OSError, ValueError) as error:
            raise ConfigError("no_endpoint", where=str(self._path), evidence=str(error)) from error

    def newer(self, *, at_once: bool = False) -> Endpoint | None:
        """The endpoint that replaces the current one, or None. Any thread may call this.

        :param at_once: check, however recent the last check is
        """
        now = self._clock()
        if now < self._next_look and not at_once:  # called for each record: without the lock
            return self._ahead
        with self._lock:
            self._next_look = now + CHECK_SECONDS
            self._look(now)
            return self._ahead

    def _look(self, now: float) -> None:
        stamp = stamp_of(self._path)
        if stamp != self._stamp:
            self._stamp, self._rested_at = stamp, now + REST_SECONDS
        elif now >= self._rested_at and (not self._complaint or now < self._next_read):
            return
        self._next_read = now + RETRY_SECONDS
        self._ahead = self._found_ahead(now)  # in one step: others read it without the lock

    def _found_ahead(self, now: float) -> Endpoint | None:
        try:
            found = self._read(self.endpoint)
        except (OSError, ValueError) as error:
            self._complain(str(error))
            return None
        again = found == self._unusable
        if again and now < self._usable_at:
            return None
        if found.term < self.endpoint.term:
            self._complain(f"its term {found.term} is older than {self.endpoint.term}")
            return None
        if not again:  # else no client can be made again, which is already logged
            self._complaint = ""
        return found if found != self.endpoint else None

    def _complain(self, reason: str) -> None:
        if reason != self._complaint:
            LOG.warning("%s is not followed, staying with %s: %s", self._path, self.endpoint.cluster, reason)
        self._complaint = reason

    def _read(self, before: Endpoint | None) -> Endpoint:
        """The endpoint in the file. Raises ValueError if it is not an endpoint, or sets what it may not."""
        found = parse_endpoint(read_text(self._path))
        if reason := why_not(found, {**self._given, **self._clusters.get(found.cluster, {})}, before):
            raise ValueError(reason[:_SHOWN])
        return found

    def followed(self, endpoint: Endpoint) -> None:
        """Note that the client is on this endpoint. Until then `newer` returns it again."""
        with self._lock:
            self.endpoint, self._ahead, self._stamp = endpoint, None, None
            self._complaint, self._unusable = "", None

    def cannot_follow(self, endpoint: Endpoint, error: Exception) -> None:
        """Note that no client can be made for this endpoint: retried in a second, or when it changes."""
        with self._lock:
            self._ahead, self._unusable = None, endpoint
            self._usable_at = self._clock() + RETRY_SECONDS
            self._complain(f"no client can be made for {endpoint.cluster}: {error}")


def configuration(
    given: Mapping[str, Any], clusters: Mapping[str, Mapping[str, Any]], endpoint: Endpoint
) -> dict[str, Any]:
    """The configuration of a client for one cluster; properties of the cluster win.

    :param clusters: alias → what holds there alone, such as credentials
    """
    own = {**given, **clusters.get(endpoint.cluster, {})}
    return {
        **_OWN,
        **connection(endpoint, own),
        **own,
        "bootstrap.servers": endpoint.bootstrap_servers,
    }


def end_producer(client: Producer, retire: Callable[[], None]) -> None:
    """Abort the open transaction and close the client; runs in the background.

    A client whose transaction cannot be aborted (its commit is in progress, another producer has fenced it,
    its cluster hangs) is only released: librdkafka ends it with its last reference. `close` would try the
    same abort again, wait for it forever, and warn the user's program that it failed.

    :param retire: waits for calls of other threads
    :raises KafkaException: the transaction could not be aborted
    """
    retire()
    try:
        client.abort_transaction(_ABORT_SECONDS)
    except KafkaException as error:
        if error.args[0].code() not in _NOTHING_OPEN:
            raise
    client.close()


def in_background(name: str, work: Callable[[], object]) -> None:
    """Do something that may hang for a minute, such as closing a client whose cluster hangs.

    The thread is a daemon: a program may end before it has.
    """

    def run() -> None:
        try:
            work()
        except (KafkaException, RuntimeError) as error:  # no caller waits for the result
            LOG.info("%s: %s", name, error)

    threading.Thread(target=run, name=name, daemon=True).start()
