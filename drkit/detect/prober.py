"""Periodic probes of one address of the primary: connection, protocol, identity, canary.

Each layer finds another fault: a killed broker refuses the connection, a frozen broker accepts it and is
silent, another cluster under the same name has another id, a broker with a broken disk refuses the canary.
"""

from __future__ import annotations

from collections.abc import Callable
import os
import threading
from typing import Any, Final, NamedTuple

from drkit.config import ClusterSettings
from drkit.config.tables.detection import DetectionSettings
from drkit.detect.awake import AwakeClock
from drkit.detect.canary import TOPIC, CanaryTarget, ProbeResult, is_forbidden, placed, probe_write
from drkit.detect.seen import Address, Probe, ProbeOutcome
from drkit.errors import ClusterUnreachable, DrkitError, error_text
from drkit.kafka.probe import ProbeKind, probe
from drkit.kafka.raw import EventLoop, KafkaTimeoutError, RawCluster, RawError
from drkit.kafka.requests import MetadataRequest
from drkit.kafka.security.settings import read_security

_RENEW_SECONDS: Final = 10.0
"""Interval at which the name is resolved and the identity is requested again: both may change."""
_OUTCOMES: Final = {
    ProbeKind.UNRESOLVED: ProbeOutcome.UNRESOLVED,
    ProbeKind.REFUSED: ProbeOutcome.REFUSED,
    ProbeKind.NO_ROUTE: ProbeOutcome.NO_ROUTE,
    ProbeKind.SILENT: ProbeOutcome.SILENT,
    ProbeKind.NOT_KAFKA: ProbeOutcome.HUNG_UP,
}


class Met(NamedTuple):
    """What a broker reported about its cluster."""

    cluster_id: str
    brokers: tuple[tuple[int, str], ...]
    """Id and host:port, on the probed listener."""


def stranger(found: str | None, wanted: str) -> tuple[ProbeOutcome, str, None]:
    """Result of a probe that reached another cluster."""
    return ProbeOutcome.WRONG_CLUSTER, f"cluster id {found}, expected {wanted}", None


class _Answer(NamedTuple):
    met: Met
    place: CanaryTarget | None


class Prober:
    """Probes one address from its own thread until :meth:`stop`.

    :param cluster: how its listener is reached; only this address of it is used
    :param expected: the id that the cluster must have; None while unknown
    :param logs_in: whether this address may see credentials; False: only ApiVersions is requested
    :param heard: called with every probe, and with what the broker reported about its cluster
    """

    def __init__(
        self,
        address: Address,
        cluster: ClusterSettings,
        settings: DetectionSettings,
        clock: AwakeClock,
        expected: Callable[[], str | None],
        heard: Callable[[Address, Probe, Met | None], None],
        logs_in: Callable[[], bool] = lambda: True,
    ) -> None:
        self.address = address
        self._cluster = cluster.model_copy(update={"bootstrap_servers": address.server})
        self._settings = settings
        self._clock = clock
        self._expected = expected
        self._heard = heard
        self._logs_in = logs_in
        self._ended = threading.Event()
        self._raw: RawCluster | None = None
        self._renewed = float("-inf")
        self._sang = False
        self._number = 0
        self._thread = threading.Thread(target=self._run, name=f"probe {address.server}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop; the result of a probe in progress is dropped."""
        self._ended.set()

    def _run(self) -> None:
        loop = EventLoop()
        try:
            while not self._ended.is_set():
                began = self._clock.now()
                outcome, evidence, met = self._look(loop, began)
                ended = self._clock.now()
                # A probe across a stall of this process says nothing: nothing was received meanwhile.
                if not self._clock.stalled_since(began) and not self._ended.is_set():
                    self._heard(self.address, Probe(outcome, began, ended, evidence), met)
                self._ended.wait(max(0.05, began + self._settings.probe_interval_seconds - ended))
        finally:
            self._drop()
            loop.close()

    def _look(self, loop: EventLoop, began: float) -> tuple[ProbeOutcome, str, Met | None]:
        where, logs_in = f"clusters.{self._cluster.alias}.client", self._logs_in()
        seconds = self._settings.probe_timeout_seconds
        try:
            security = read_security(self._cluster)
            found = probe(self.address.server, security, where, seconds, handshake=logs_in)
        except DrkitError as error:
            return ProbeOutcome.SHUT_OUT, error.what, None
        if found.kind is not ProbeKind.KAFKA:
            self._drop()
            if found.kind in _OUTCOMES:
                return _OUTCOMES[found.kind], found.evidence, None
            return ProbeOutcome.SHUT_OUT, "; ".join(filter(None, (found.kind.value, found.evidence))), None
        if not logs_in:
            return ProbeOutcome.UNCONFIRMED, "", None
        if self.address.broker < 0 or began - self._renewed > _RENEW_SECONDS:
            self._drop()
            self._renewed = began
        return self._deeper(loop)

    def _deeper(self, loop: EventLoop) -> tuple[ProbeOutcome, str, Met | None]:
        """Probe beyond ApiVersions: the cluster's identity, and whether the broker accepts a record."""
        try:
            outcome, evidence, met = loop.run(self._ask, loop)
        except ClusterUnreachable as error:
            outcome, evidence, met = ProbeOutcome.SILENT, f"ApiVersions is answered, then: {error.what}", None
        except DrkitError as error:
            outcome, evidence, met = ProbeOutcome.SHUT_OUT, error.what, None
        except RawError as error:
            outcome, evidence, met = (
                ProbeOutcome.SILENT,
                f"ApiVersions is answered, then: {_said(error)}",
                None,
            )
        if met is None:
            self._drop()
        return outcome, evidence, met

    async def _ask(self, loop: EventLoop) -> tuple[ProbeOutcome, str, Met | None]:
        timeout_ms = int(self._settings.probe_timeout_seconds * 1000)
        if self._raw is None:
            self._raw = RawCluster(loop, self._cluster, "probe")
            await self._raw.connect(timeout_ms)
        wanted, first = self._expected(), self._raw.cluster_id
        if wanted is not None and first not in {None, wanted}:
            return stranger(first, wanted)
        answer = await self._identity(self._raw, timeout_ms)
        met = answer.met
        if wanted is not None and met.cluster_id != wanted:
            return stranger(met.cluster_id, wanted)
        if self.address.broker < 0 or not self._settings.canary:
            return ProbeOutcome.ANSWERS, "", met
        if answer.place is None:
            return ProbeOutcome.ANSWERS, "it leads no partition of the canary", met
        sung = await self._canary(self._raw, answer.place, timeout_ms)
        return sung.outcome, sung.evidence, met

    async def _identity(self, raw: RawCluster, timeout_ms: int) -> _Answer:
        topic = MetadataRequest.MetadataRequestTopic(name=TOPIC)
        request = MetadataRequest(topics=[topic], allow_auto_topic_creation=False)
        node = self.address.broker if self.address.broker >= 0 else None
        answer = await raw.send(request, node, timeout_ms=timeout_ms)
        brokers = tuple(sorted((b.node_id, f"{b.host}:{b.port}") for b in answer.brokers))
        return _Answer(Met(answer.cluster_id, brokers), self._place(answer.topics))

    def _place(self, topics: Any) -> CanaryTarget | None:
        for t in topics:
            if t.name == TOPIC and not t.error_code:
                leaders = {p.partition_index: p.leader_id for p in t.partitions}
                return placed(t.topic_id, leaders, self.address.broker)
        return None

    async def _canary(self, raw: RawCluster, place: CanaryTarget, timeout_ms: int) -> ProbeResult:
        self._number += 1
        token = f"{os.getpid()}/{id(self)}/{self._number}".encode()
        try:
            sung = await probe_write(raw, self.address.broker, place, token, timeout_ms)
        except KafkaTimeoutError as error:
            return ProbeResult(ProbeOutcome.WRITE_SILENT, _said(error))
        self._sang = self._sang or sung.outcome is ProbeOutcome.WORKS
        if is_forbidden(sung) and not self._sang:
            return ProbeResult(ProbeOutcome.ANSWERS, "drkit may not write its canary")
        return sung

    def _drop(self) -> None:
        raw, self._raw = self._raw, None
        if raw is not None:
            raw.close()


def _said(error: BaseException) -> str:
    name, text = type(error).__name__, error_text(error)
    return name if text == name else f"{name}: {text}"
