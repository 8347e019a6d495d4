"""One cluster for administration: connect within seconds, or raise an error with the exact cause.

A thin class over confluent-kafka whose errors are drkit's. No group calls here: a client with an unanswered
group call aborts the process when a frozen broker revives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
import re
import threading
from typing import Any, Final, NamedTuple, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from drkit.clock import monotonic
from drkit.config import ClusterSettings
from drkit.config.tables.client_properties import nearest
from drkit.errors import (
    ClusterUnreachable,
    ConfigError,
    DrkitError,
    Failed,
    NotAuthenticated,
    NotAuthorized,
    Refused,
)
from drkit.kafka import codes
from drkit.kafka.clients import QUIET, confluent_config, refuse_unusable
from drkit.kafka.probe import ABSENT, HINTS, SETTLED, ProbeFinding, ProbeKind, probe_servers
from drkit.kafka.transport import may_send
from drkit.time_limit import begun

CONNECT_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 1.5
_LOOKS: Final = 3
_POLL_SECONDS: Final = 0.02
_AGAIN_SECONDS: Final = 0.5
_NO_TOPIC: Final = "drkit-?"
"""No topic can have this name, so asking for it creates none. It is one of those that drkit may see: an
authorizer has no denial to log."""
_NO_PROPERTY: Final = re.compile(r'No such configuration property: "([^"]+)"')
_NOT_AUTHENTICATED: Final = frozenset(
    {ProbeKind.UNTRUSTED, ProbeKind.REFUSED_TLS, ProbeKind.NEEDS_SASL, ProbeKind.OTHER_MECHANISM}
)

REACH_SECONDS: Final = 1.0
"""For each step: connecting, the first answer."""
_MOST: Final = 8
"""Maximum number of servers to probe; one that answers is enough."""
_REFUSES_US: Final = frozenset({
    ProbeKind.NEEDS_TLS, ProbeKind.NO_TLS, ProbeKind.UNTRUSTED, ProbeKind.REFUSED_TLS,
    ProbeKind.NEEDS_SASL, ProbeKind.NO_SASL, ProbeKind.OTHER_MECHANISM,
})  # fmt: skip
"""A server answers, but the configured settings do not fit it."""


class Broker(NamedTuple):
    """A broker as the cluster advertises it."""

    id: int
    host: str
    port: int


class ClusterDescription(NamedTuple):
    """The id and the brokers of a cluster, by its own answer."""

    cluster_id: str
    brokers: list[Broker]
    """The active ones, by id; with :func:`describe_registered` all."""


def identity(admin: AdminClient, timeout_seconds: float) -> ClusterDescription:
    """Ask a cluster for its id and brokers; blocks.

    Not by `describe_cluster`: librdkafka (2.16) aborts the process when the answer names no broker. A broker
    that was frozen answers so from its revival until the controller counts it in again.

    :raises KafkaException: no answer in time
    """
    metadata: Any = admin.list_topics(_NO_TOPIC, timeout=timeout_seconds)
    return ClusterDescription(
        metadata.cluster_id, sorted(Broker(b.id, b.host, b.port) for b in metadata.brokers.values())
    )


class _Attempt:
    """Ask until a client hears of brokers, the time is up, or more attempts are useless.

    A client that receives an empty list of brokers forgets those it knows. If that happens before drkit's
    request is sent, the request waits in the client until its timeout. So when a client is silent while a
    server answers as Kafka, another client asks beside it; the first to hear of brokers is used.
    """

    def __init__(self, settings: ClusterSettings, timeout_seconds: float) -> None:
        self.settings = settings
        self.deadline = monotonic() + timeout_seconds
        self.timeout_seconds = timeout_seconds
        self.asked: dict[AdminClient, Future[ClusterDescription]] = {}
        self.events: dict[str, str] = {}
        self.findings: list[ProbeFinding] = []
        self.absences = 0
        self.over = False
        """No client is asked any more: waiting longer would change nothing."""

    def run(self) -> tuple[AdminClient, ClusterDescription]:
        while True:
            self._ask()
            connected = self._heard_of_brokers()
            if connected is not None:
                return connected
            if self.over or monotonic() >= self.deadline:
                raise self._error()
            threading.Event().wait(_AGAIN_SECONDS)

    def _ask(self) -> None:
        admin = self._client()
        self.asked[admin] = begun(lambda: identity(admin, max(_POLL_SECONDS, self.deadline - monotonic())))

    def _heard_of_brokers(self) -> tuple[AdminClient, ClusterDescription] | None:
        """Return the first client that hears of brokers, or None to try another client or to give up."""
        look_at = monotonic() + _LOOK_SECONDS
        while monotonic() < self.deadline:
            for admin in list(self.asked):
                admin.poll(_POLL_SECONDS)
                if not self.asked[admin].done():
                    continue
                description = self._result(self.asked.pop(admin))
                if description is None:
                    self.over = self.over or not self.asked
                elif description.brokers:
                    return admin, description
                else:
                    self.events["no brokers"] = "it says that none of its brokers takes part"
                    return None
            if monotonic() > look_at:
                self.over = self.over or self._hopeless()
                look_at = monotonic() + _LOOK_SECONDS
                if any(f.kind is ProbeKind.KAFKA for f in self.findings):
                    return None
            if self.over or "_AUTHENTICATION" in self.events:
                self.over = True
                return None
        return None

    def _hopeless(self) -> bool:
        self.findings = probe_servers(self.settings)
        self.absences += all(f.kind in ABSENT for f in self.findings)
        return all(f.kind in SETTLED for f in self.findings) or self.absences == _LOOKS

    def _client(self) -> AdminClient:
        # Reports the first failure instead of retrying in silence for a minute.
        conf = {**confluent_config(self.settings), "error_cb": self._heard, "log_level": 0}
        try:
            return AdminClient(conf, logger=QUIET)
        except KafkaException as error:
            refuse_unusable(self.settings)
            raise _unusable(self.settings.alias, error.args[0]) from error

    def _heard(self, error: KafkaError) -> None:
        self.events[error.name()] = error.str()

    def _result(self, answer: Future[ClusterDescription]) -> ClusterDescription | None:
        try:
            return answer.result()
        except KafkaException as error:
            self._heard(error.args[0])
            return None

    def _error(self) -> DrkitError:
        findings = self.findings or probe_servers(self.settings)
        event = self.events.get("_AUTHENTICATION")
        if event is None or all(f.kind in SETTLED for f in findings):
            return _explained(self.settings, findings, self.events.values(), self.timeout_seconds)
        return refused_credentials(self.settings, event)


def why_not(settings: ClusterSettings, timeout_seconds: float) -> DrkitError:
    """Probe every server of a cluster that could not be reached; return the error with the cause.

    :param timeout_seconds: duration of the attempts, for the message
    :raises ConfigError: the configured certificate files do not load
    """
    return _explained(settings, probe_servers(settings), [], timeout_seconds)


def refused_credentials(settings: ClusterSettings, said: str) -> NotAuthenticated:
    """Return the error for a user, password or token that a broker rejected."""
    where = _address(said) or settings.bootstrap_servers
    return NotAuthenticated("credentials_refused", where=where, evidence=_plain(said), alias=settings.alias)


def _explained(
    settings: ClusterSettings, findings: list[ProbeFinding], heard: Iterable[str], timeout_seconds: float
) -> DrkitError:
    # A server that answers as Kafka, but gave no brokers, explains the least.
    worst = next((f for f in findings if f.kind is not ProbeKind.KAFKA), findings[0])
    lines = [f"{f.server}: {_seen(f, worst.kind)}" for f in findings]
    if worst.kind is ProbeKind.KAFKA:
        lines += [_plain(text) for text in heard]
    refused = worst.kind in _NOT_AUTHENTICATED
    kind: type[DrkitError] = NotAuthenticated if refused else ClusterUnreachable
    return kind(
        "cluster_silent" if worst.kind is ProbeKind.KAFKA else "cluster_unusable",
        where=worst.server,
        evidence="\n".join(lines),
        hint=HINTS.get(worst.kind, "check that advertised.listeners can be reached from here"),
        alias=settings.alias,
        reason=worst.kind.value,
        seconds=timeout_seconds,
    )


def _seen(finding: ProbeFinding, known: ProbeKind | None = None) -> str:
    if finding.kind is known and finding.evidence:
        return finding.evidence
    return finding.kind.value + (f" ({finding.evidence})" if finding.evidence else "")


def _unusable(alias: str, error: KafkaError) -> ConfigError:
    text = error.str()
    unknown = _NO_PROPERTY.search(text)
    near = nearest(unknown[1]) if unknown else ""
    hint = near or "client takes Kafka's property names, as in client.properties"
    if "GSSAPI" in text:
        hint = "confluent-kafka's wheel has no Kerberos: install librdkafka and build it with --no-binary"
    return ConfigError("client_properties_refused", where=f"clusters.{alias}.client", hint=hint, text=text)


def _address(event: str) -> str:
    match = re.match(r"(?:\w+://)?([^/\s]+:\d+)", event)
    return match[1] if match else ""


def _plain(event: str) -> str:
    return re.sub(r"\s*\(after \d+ms in state \w+.*\)$", "", event)


class Reached(NamedTuple):
    """The servers through which a cluster can be reached now."""

    settings: ClusterSettings
    """The settings with only the servers that answer, so that no client waits for another one."""
    silence: str
    """Reasons why no server answers, or empty if one does."""
    blind: bool = False
    """No server was seen to be gone: something refuses the connection, or no name resolves."""


def reach(settings: ClusterSettings, seconds: float = REACH_SECONDS) -> Reached:
    """Probe every server once and at the same time, as a client would wait for a frozen broker.

    :raises ConfigError: a certificate file does not load
    """
    findings = probe_servers(settings, seconds, _MOST)
    if answering := [f.server for f in findings if f.kind is ProbeKind.KAFKA]:
        return Reached(settings.model_copy(update={"bootstrap_servers": ",".join(answering)}), "")
    reasons = (f"{f.server}: {_seen(f)}" for f in findings)
    kinds = {f.kind for f in findings}
    return Reached(
        settings, "; ".join(reasons), blind=bool(kinds & _REFUSES_US) or kinds == {ProbeKind.UNRESOLVED}
    )


T = TypeVar("T")
CALL_SECONDS: Final = 30.0

_KINDS: Final[Mapping[int, type[DrkitError]]] = {
    **dict.fromkeys(codes.NOT_AUTHORIZED | {codes.GROUP_AUTHORIZATION_FAILED}, NotAuthorized),
    **dict.fromkeys((KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED), NotAuthenticated),  # noqa: SLF001  the constant's only name
    **dict.fromkeys(
        (
            KafkaError._TRANSPORT,  # noqa: SLF001  likewise
            KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001  likewise
            KafkaError._TIMED_OUT,  # noqa: SLF001  likewise
            KafkaError.REQUEST_TIMED_OUT,
            KafkaError.NOT_CONTROLLER,
        ),
        ClusterUnreachable,
    ),
}
_REACH: Final = "see whether its brokers run and answer from here: drkit config check --connect"
_HINTS: Final[Mapping[int, str]] = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "grant drkit's principal the operation on this topic (ACL)",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "grant drkit's principal the operation on the cluster (ACL)",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "grant drkit's principal the operation on this group (ACL)",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "grant drkit's principal WRITE on the transactional ids"
    " that begin with drkit. (ACL)",
    **dict.fromkeys((KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT), _REACH),  # noqa: SLF001  the constants' only names
    KafkaError.INVALID_REPLICATION_FACTOR: "set replication_factor of the flow to what the target can hold",
    KafkaError.POLICY_VIOLATION: "the cluster's create or alter policy forbids this: ask its operators",
}


class Cluster:
    """A connected cluster. Made by :meth:`connect`; needs no closing."""

    def __init__(
        self, settings: ClusterSettings, admin: AdminClient, cluster_id: str, brokers: list[Broker]
    ) -> None:
        self.settings = settings
        self.alias = settings.alias
        self.admin = admin
        self.cluster_id = cluster_id
        self.brokers = brokers

    @classmethod
    def connect(cls, settings: ClusterSettings, timeout_seconds: float = CONNECT_SECONDS) -> Cluster:
        """Connect and ask for the cluster's id and brokers.

        :raises ConfigError: invalid client properties
        :raises NotAuthenticated: wrong credentials, or TLS that does not fit
        :raises ClusterUnreachable: no broker answered in time
        """
        admin, answer = _Attempt(settings, timeout_seconds).run()
        return cls(settings, admin, answer.cluster_id, answer.brokers)

    def wait(self, future: Future[T], what: str, where: str = "") -> T:
        """Return the result of an admin call, or raise its error as one of drkit's.

        :param what: the call in words, for the error
        :param where: topic or broker concerned
        """
        try:
            return future.result(CALL_SECONDS)
        except KafkaException as error:
            raise self.error(error.args[0], what, where) from error
        except TimeoutError as error:
            raise self._silent(what, where) from error

    def refused_with(self, code: int, future: Future[Any], what: str, where: str = "") -> bool:
        """Return whether an admin call ended with this error of Kafka's.

        :raises ClusterUnreachable: it has not ended in time
        """
        try:
            error = future.exception(CALL_SECONDS)
        except TimeoutError as late:
            raise self._silent(what, where) from late
        return isinstance(error, KafkaException) and error.args[0].code() == code

    def _silent(self, what: str, where: str) -> ClusterUnreachable:
        evidence = f"no answer in {CALL_SECONDS:.0f} s"
        return ClusterUnreachable(
            "cluster_request_failed", where=self._at(where), evidence=evidence, hint=_REACH, what=what
        )

    def call(self, what: str, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """A blocking or future-making call whose own KafkaException is translated too."""
        may_send()
        try:
            return function(*args, **kwargs)
        except KafkaException as error:
            raise self.error(error.args[0], what) from error

    def error(self, error: KafkaError, what: str, where: str = "") -> DrkitError:
        """A Kafka error as one of drkit's."""
        return _KINDS.get(error.code(), Failed)(
            "cluster_request_failed",
            where=self._at(where),
            evidence=f"{error.name()} ({error.code()}): {error.str()}",
            hint=_HINTS.get(error.code(), ""),
            what=what,
        )

    def _at(self, where: str) -> str:
        return f"{self.alias}: {where}" if where else self.alias


def refuse_same_cluster(source: Cluster, target: Cluster) -> None:
    """Check that the clusters differ: copying one onto itself never ends. Raises Refused if they do not."""
    if source.cluster_id == target.cluster_id:
        raise Refused(
            "clusters_identical",
            where=f"{source.settings.bootstrap_servers} and {target.settings.bootstrap_servers}",
            evidence=f"both have the cluster id {source.cluster_id}",
            source=source.alias,
            target=target.alias,
        )
