"""When clients switch to another cluster, and what a switch did."""

from __future__ import annotations

from collections.abc import Callable, Mapping
import logging
import os
from pathlib import Path
import re
import stat
import threading
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer

from drkit.clock import Seconds, monotonic
from drkit.endpoint import CONNECTION, LARGEST_TERM, Endpoint, parse_endpoint
from drkit.errors import ConfigError

MAX_BYTES: Final = 4 * 1024 * 1024
"""Room for twenty thousand renamed topics; a ConfigMap has a quarter of that room."""
_PART_BYTES: Final = 64 * 1024
Stamp = tuple[int, int, int, int, int]


def stamp_of(path: Path) -> Stamp | None:
    """A value that changes with the file; None if no file is visible."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size


def read_text(path: Path) -> str:
    """The content of a regular file. A pipe or a device is not waited for.

    :raises OSError: it cannot be read
    :raises ValueError: it is not a regular file, too large, or not UTF-8
    """
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise ValueError("it is not a regular file")
        parts, size = list[bytes](), 0
        while size <= MAX_BYTES and (part := os.read(file, _PART_BYTES)):
            parts.append(part)
            size += len(part)
    finally:
        os.close(file)
    if size > MAX_BYTES:
        raise ValueError(f"it is larger than {MAX_BYTES} bytes")
    return b"".join(parts).decode("utf-8")


_PROTOCOL: Final = "security.protocol"
_CIPHERS: Final = "ssl.cipher.suites"
_SIGNATURES: Final = "ssl.sigalgs.list"
_PEM: Final = "ssl.ca.pem"
_ONLY: Final = {
    "ssl.endpoint.identification.algorithm": "https",
    "enable.ssl.certificate.verification": "true",
}
"""What checks the broker may be switched on, not off."""
_CIPHERED: Final = frozenset({"SSL", "SASL_SSL"})
_MECHANISM: Final = frozenset({"sasl.mechanism", "sasl.mechanisms"})
_AUTHORITIES: Final = frozenset({"ssl.ca.location", _PEM, "ssl.ca.certificate.stores"})
_ONE_OF: Final = (_MECHANISM, _AUTHORITIES)
"""Names of one thing: librdkafka takes the last of two mechanisms, and trusts two authorities together."""
_TOPIC: Final = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")
_SERVERS: Final = re.compile(r"[\w.:\[\]%/, -]+", re.ASCII)
"""Host names and ports: librdkafka puts them into the command that renews a Kerberos ticket."""
_SERVICE: Final = re.compile(r"[\w.-]+", re.ASCII)


def why_not(endpoint: Endpoint, own: Mapping[str, object], before: Endpoint | None = None) -> str:
    """Return the reason why a client does not follow an endpoint, or "" if it does.

    :param own: the application's own properties for that cluster, which win over the file's
    :param before: the endpoint that it follows now
    """
    return (
        _malformed(endpoint)
        or _misnamed(endpoint)
        or _forbidden(endpoint)
        or _weaker(endpoint, own, before)
        or _readable_password(endpoint, own, before)
    )


def connection(endpoint: Endpoint, own: Mapping[str, object]) -> dict[str, str]:
    """The endpoint's properties without those that the application sets, also under another name."""
    names = {name for same in _ONE_OF if same & own.keys() for name in same} | own.keys()
    return {name: value for name, value in endpoint.client.items() if name not in names}


def _malformed(endpoint: Endpoint) -> str:
    """Return which value of the endpoint is invalid, or "" if all are valid."""
    if not endpoint.cluster_id:
        return "it names no cluster_id: a wrong cluster would not be noticed"
    if not endpoint.cluster:
        return "it names no cluster"
    if not 0 <= endpoint.term <= LARGEST_TERM:
        return "its term is no term: it is not between 0 and 2^53"
    if not _SERVERS.fullmatch(endpoint.bootstrap_servers):
        return f"its bootstrap_servers are no host names with ports: {endpoint.bootstrap_servers!r}"
    return ""


def _misnamed(endpoint: Endpoint) -> str:
    """Return which names are invalid, or "" if all are valid."""
    topics = endpoint.topics
    for name in (*topics, *topics.values()):
        if not _TOPIC.fullmatch(name):
            return f"it names the topic {name[:300]!r}, which no topic can be called"
    if len(set(topics.values())) < len(topics):
        return "it gives two topics the same name"
    texts = [endpoint.cluster, endpoint.cluster_id, *endpoint.client]
    texts += [value for name, value in endpoint.client.items() if name != _PEM]
    texts += endpoint.client.get(_PEM, "").splitlines()
    unprintable = next((text for text in texts if not text.isprintable()), None)
    return "" if unprintable is None else f"it holds a text that cannot be printed: {unprintable[:300]!r}"


def _forbidden(endpoint: Endpoint) -> str:
    """Return which property only an application may set, or "" if the endpoint sets no such property."""
    properties = endpoint.client
    foreign = sorted(properties.keys() - CONNECTION)
    if foreign:
        return f"an endpoint may not set {', '.join(foreign)}: an application sets it by itself"
    for name, allowed in _ONLY.items():
        if properties.get(name, allowed).lower() != allowed:
            return f"it sets {name} = {properties[name]}: an endpoint may not switch that check off"
    for name in (_CIPHERS, _SIGNATURES):
        if "SECLEVEL" in properties.get(name, "").upper():
            return f"it sets {name} = {properties[name]}: an endpoint may not lower the level of security"
    if len({properties[name] for name in _MECHANISM & properties.keys()}) > 1:
        return "it sets sasl.mechanism and sasl.mechanisms, which are one, to different values"
    service = properties.get("sasl.kerberos.service.name", "kafka")
    if not _SERVICE.fullmatch(service):
        return f"it sets sasl.kerberos.service.name = {service}, which no service is called"
    return ""


def _weaker(endpoint: Endpoint, own: Mapping[str, object], before: Endpoint | None) -> str:
    """Return what would give up TLS against the application's properties, or "" if nothing would."""
    was, now = _protocol(before), _protocol(endpoint)
    if _PROTOCOL in own or now in _CIPHERED:
        return ""
    if was in _CIPHERED:
        return f"it leads from {was} to {now}: records and passwords would travel in clear"
    if named := sorted(name for name in own if name.startswith("ssl.")):
        return (
            f"it leads to {now}, and the application sets {named[0]}: records and passwords would travel in"
            " clear; if that is meant, set security.protocol in the application"
        )
    return ""


def _readable_password(endpoint: Endpoint, own: Mapping[str, object], before: Endpoint | None) -> str:
    """Return what would send a password in clear that is only proven until now, or "" if nothing would."""
    was, now = (str(own.get(_PROTOCOL, _protocol(e))).upper() for e in (before, endpoint))
    if before is None or _MECHANISM & own.keys() or not was == now == "SASL_PLAINTEXT":
        return ""
    if _mechanism(before) != "PLAIN" == _mechanism(endpoint):
        return f"it leads from {_mechanism(before)} to PLAIN without TLS: the password would travel in clear"
    return ""


def _protocol(endpoint: Endpoint | None) -> str:
    return "PLAINTEXT" if endpoint is None else endpoint.client.get(_PROTOCOL, "PLAINTEXT").upper()


def _mechanism(endpoint: Endpoint) -> str:
    named = (endpoint.client[name] for name in sorted(_MECHANISM & endpoint.client.keys()))
    return next(named, "GSSAPI").upper()


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
        """The endpoint in the file. Raises ValueError if it is no endpoint, or sets what no endpoint may."""
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
    return {**connection(endpoint, own), **own, "bootstrap.servers": endpoint.bootstrap_servers}


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
