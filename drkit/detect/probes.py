"""All addresses of a primary, and a prober for each.

Addresses come from the brokers' own answers, listener by listener, and are kept when a broker falls silent: a
cluster no longer lists a broker that died. Addresses in a note of the observers' topic come from its writer:
until a broker names them, too, they see no credentials unless TLS proves the name, their cluster id does not
count, and they name no other brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
import os
import threading
from typing import Any, Final, NamedTuple

from drkit import observe
from drkit.background import Background
from drkit.config import ClusterSettings
from drkit.config.tables.detection import DetectionSettings
from drkit.detect.awake import AwakeClock
from drkit.detect.canary import (
    TOPIC,
    CanaryTarget,
    ProbeResult,
    ensure_canary,
    is_forbidden,
    placed,
    probe_write,
)
from drkit.detect.note_kinds import MOST_ADDRESSES, KnownBrokers
from drkit.detect.seen import Address, Probe, ProbeOutcome, SightRules, SourceView, Track, see
from drkit.errors import ClusterUnreachable, DrkitError
from drkit.kafka.admin import Cluster
from drkit.kafka.probe import ProbeKind, probe
from drkit.kafka.raw import EventLoop, RawCluster, RawError, RequestTimeout
from drkit.kafka.requests import MetadataRequest, describe_registered
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
    """A broker's report about its cluster."""

    cluster_id: str
    brokers: tuple[tuple[int, str], ...]
    """Id and host:port, on the probed listener."""


def stranger(actual: str | None, expected: str) -> tuple[ProbeOutcome, str, None]:
    """Result of a probe that reached another cluster."""
    return ProbeOutcome.WRONG_CLUSTER, f"cluster id {actual}, expected {expected}", None


class _Answer(NamedTuple):
    met: Met
    place: CanaryTarget | None


class Prober(Background):
    """Probes one address from its own thread until :meth:`stop`: connection, protocol, identity, canary.

    Each layer finds another fault: a killed broker refuses the connection, a frozen one accepts it and is
    silent, a wrong cluster has another id, a broken disk refuses the canary.

    :param cluster: how its listener is reached; only this address of it is used
    :param expected: the id that the cluster must have; None while unknown
    :param logs_in: whether this address may see credentials; False: only ApiVersions is requested
    :param heard: called with every probe, and with what the broker reported about its cluster; not with one
        that was in progress when it was stopped
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
        super().__init__(f"probe {address.server}")
        self.address = address
        self._cluster = cluster.model_copy(update={"bootstrap_servers": address.server})
        self._settings = settings
        self._clock = clock
        self._expected = expected
        self._heard = heard
        self._logs_in = logs_in
        self._raw: RawCluster | None = None
        self._renewed = float("-inf")
        self._sang = False
        self._number = 0

    def _run(self) -> None:
        loop = EventLoop()
        try:
            while not self._ended.is_set():
                began = self._clock.now()
                outcome, evidence, met = self._look(loop, began)
                ended = self._clock.now()
                # A probe across a stall of this process does not count: nothing was received meanwhile.
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
            outcome, evidence, met = ProbeOutcome.SILENT, f"ApiVersions is answered, then: {error}", None
        except DrkitError as error:
            outcome, evidence, met = ProbeOutcome.SHUT_OUT, error.what, None
        if met is None:
            self._drop()
        return outcome, evidence, met

    async def _ask(self, loop: EventLoop) -> tuple[ProbeOutcome, str, Met | None]:
        timeout_ms = int(self._settings.probe_timeout_seconds * 1000)
        if self._raw is None:
            self._raw = RawCluster(loop, self._cluster, "probe")
            await self._raw.connect(timeout_ms)
        expected, first = self._expected(), self._raw.cluster_id
        if expected is not None and first not in {None, expected}:
            return stranger(first, expected)
        answer = await self._identity(self._raw, timeout_ms)
        met = answer.met
        if expected is not None and met.cluster_id != expected:
            return stranger(met.cluster_id, expected)
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
        except RequestTimeout as error:
            return ProbeResult(ProbeOutcome.WRITE_SILENT, str(error))
        self._sang = self._sang or sung.outcome is ProbeOutcome.WORKS
        if is_forbidden(sung) and not self._sang:
            return ProbeResult(ProbeOutcome.ANSWERS, "drkit may not write its canary")
        return sung

    def _drop(self) -> None:
        raw, self._raw = self._raw, None
        if raw is not None:
            raw.close()


OWN: Final = "own"
"""The listener that the flow itself uses."""
_CARE_SECONDS: Final = 30.0
_STALE_INTERVALS: Final = 4
_STEPS: Final = 4
"""A probe may take this many timeouts: connection, protocol, identity, canary."""


class Probes:
    """Probes every broker of a cluster on every listener.

    :param listeners: name → how it is reached; :data:`OWN` is the cluster's own way
    :param cluster_id: the id that the cluster must have; None: that of the first answer
    """

    def __init__(
        self,
        listeners: Mapping[str, ClusterSettings],
        settings: DetectionSettings,
        clock: AwakeClock,
        cluster_id: str | None = None,
    ) -> None:
        self._listeners = dict(listeners)
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._tracks: dict[Address, Track] = {}
        self._probers: dict[Address, Prober] = {}
        self._from_notes: set[Address] = set()
        """Addresses that only a note names."""
        self._brokers_listed: frozenset[int] | None = None
        """Ids of all brokers, as the cluster listed them last; None: it never did."""
        self._ended = threading.Event()
        self.cluster_id = cluster_id
        self._care = threading.Thread(target=self._take_care, name="canary", daemon=True)
        wait = settings.probe_interval_seconds * _STALE_INTERVALS
        self._rules = SightRules(settings.confirm_seconds, wait + 2 * _STEPS * settings.probe_timeout_seconds)

    def start(self) -> None:
        """Start with the bootstrap servers and the remembered brokers."""
        with self._lock:
            for name, cluster in self._listeners.items():
                for server in cluster.servers:
                    self._add(Address(name, server))
        self._care.start()

    def stop(self) -> None:
        """Stop all threads."""
        self._ended.set()
        with self._lock:
            for prober in self._probers.values():
                prober.stop()

    def seen(self) -> SourceView:
        """The view from the newest probes of all addresses."""
        return see(self._view(), self._clock.now(), self._rules)

    def newest(self) -> dict[Address, Probe | None]:
        """The newest probe of each address."""
        return {a: t.last for a, t in sorted(self._view().items())}

    def _view(self) -> dict[Address, Track]:
        """All addresses, each server once. Of a bootstrap server a note may know the broker's id."""
        with self._lock:
            names = {(a.listener, a.server): t for a, t in self._tracks.items() if a.broker < 0}
            doubled = {(a.listener, a.server) for a in self._from_notes} & set(names)
            view = {}
            for address, track in self._tracks.items():
                by_note, at = address in self._from_notes, (address.listener, address.server)
                if at in doubled and not by_note:
                    continue
                shown = names[at] if at in doubled else track
                view[address] = Track(
                    shown.last, shown.failing_since,
                    of_note=by_note and at not in doubled, answered=track.answered or shown.answered,
                )  # fmt: skip
            return view

    def known(self) -> KnownBrokers:
        """The cluster's id and brokers, for other observers and for this one after a restart."""
        with self._lock:
            brokers = sorted(a for a in self._tracks if a.broker >= 0)
        return KnownBrokers(self.cluster_id, tuple(brokers[:MOST_ADDRESSES]))

    def remember(self, notes: Iterable[KnownBrokers]) -> None:
        """Take the addresses in the newest notes of all topics; what a broker says itself wins."""
        with self._lock:
            of_cluster = [n for n in notes if self.cluster_id in {None, n.cluster_id}]
            wanted = {a for n in of_cluster for a in n.brokers if self._may_exist(a)}
            for gone in self._from_notes - wanted:
                self._remove(gone)
            own = {(a.listener, a.broker) for a in self._tracks if a not in self._from_notes}
            servers = {(a.listener, a.server) for a in self._tracks if a.broker >= 0}
            for address in sorted(wanted - set(self._tracks)):
                listener, server, broker = address
                taken = (listener, broker) in own or (listener, server) in servers
                if not taken and len(self._from_notes) < MOST_ADDRESSES:
                    servers.add((listener, server))
                    self._from_notes.add(address)
                    self._add(address)

    def _may_exist(self, address: Address) -> bool:
        registered = self._brokers_listed is None or address.broker in self._brokers_listed
        return registered and address.listener in self._listeners

    def _logs_in(self, address: Address) -> bool:
        """Whether an address may see credentials: the settings, a broker or our authority name it."""
        with self._lock:
            if address not in self._from_notes:
                return True
        try:
            tls = read_security(self._listeners[address.listener]).tls
        except DrkitError:
            return False
        # The authorities of the system vouch for every name there is, also for one that an intruder owns.
        ours = tls is not None and bool(tls.ca_file or tls.ca_pem)
        return ours and tls is not None and tls.verify and tls.check_hostname

    def expect(self, cluster_id: str) -> None:
        """Set the id that the cluster must have, from a trusted source."""
        with self._lock:
            self.cluster_id = cluster_id

    def _heard(self, address: Address, probe: Probe, met: Met | None) -> None:
        with self._lock:
            if address not in self._tracks:
                return
            if met is not None and address not in self._from_notes:
                # The first contact has nothing to compare with: the cluster that answers is expected later.
                self.cluster_id = self.cluster_id or met.cluster_id
                if met.cluster_id == self.cluster_id:
                    self._meet(address.listener, met)
                else:  # asked before another server's answer said who the cluster is
                    outcome, evidence, _ = stranger(met.cluster_id, self.cluster_id)
                    probe = probe._replace(outcome=outcome, evidence=evidence)
            if address in self._tracks:
                self._tracks[address].take(probe)

    def _meet(self, listener: str, met: Met) -> None:
        for broker, server in met.brokers:
            address = Address(listener, server, broker)
            for old in [a for a in self._tracks if a.listener == listener and a != address]:
                noted = old in self._from_notes and old.server == server
                if old.broker == broker or noted:  # it moved, or a note had another id for it
                    self._remove(old)
            self._from_notes.discard(address)
            self._add(address)
        self._forget_doubles()

    def _forget_doubles(self) -> None:
        """Forget a bootstrap server that is also a broker's own address."""
        named = (a for a in self._tracks if a.broker >= 0 and a not in self._from_notes)
        brokers = {(a.listener, a.server) for a in named}
        for double in [a for a in self._tracks if a.broker < 0 and (a.listener, a.server) in brokers]:
            self._remove(double)

    def _add(self, address: Address) -> None:
        if address in self._tracks:
            return
        self._tracks[address] = Track()
        prober = Prober(
            address, self._listeners[address.listener], self._settings, self._clock,
            expected=lambda: self.cluster_id, heard=self._heard, logs_in=lambda: self._logs_in(address),
        )  # fmt: skip
        self._probers[address] = prober
        prober.start()

    def _remove(self, address: Address) -> None:
        self._tracks.pop(address)
        self._from_notes.discard(address)
        self._probers.pop(address).stop()

    def _take_care(self) -> None:
        """Give every broker its canary, and forget brokers that were removed from the cluster."""
        reported = ""
        with closing(EventLoop()) as loop:
            while not self._ended.is_set():
                why = self._care_once(loop) if self.cluster_id is not None else ""
                if why and why != reported:
                    hint = "brokers are asked who they are, not whether they take records"
                    observe.event("canary_missing", level="warning", reason=why, hint=hint)
                reported = why
                self._ended.wait(_CARE_SECONDS if self.cluster_id is not None else 0.2)

    def _care_once(self, loop: EventLoop) -> str:
        """Returns why there is no canary; empty: there is, or nothing can be done about it now."""
        doubts = self._forget_removed(loop)
        if doubts or not self._settings.canary:
            return ""  # an admin client must not wait for a broker that hangs
        try:
            ensure_canary(Cluster.connect(self._listeners[OWN]))
        except DrkitError as error:
            return error.in_short
        return ""

    def _forget_removed(self, loop: EventLoop) -> bool:
        """Forget brokers that were removed from the cluster; returns whether anything fails."""
        with self._lock:
            failing = {a for a, t in self._tracks.items() if t.failing_since is not None}
            if len(failing) == len(self._tracks):
                return True
        try:
            registered = loop.run(self._registered, loop)
        except DrkitError:
            return bool(failing)
        with self._lock:
            self._brokers_listed = frozenset(registered)
            for gone in [a for a in self._tracks if a.broker >= 0 and a.broker not in registered]:
                self._remove(gone)
                failing.discard(gone)
        return bool(failing)

    async def _registered(self, loop: EventLoop) -> set[int]:
        """Return ids of all brokers of the cluster, also of those that are down (KIP-1073, Kafka 4.0).

        :raises RawError: no answer, older brokers, or another cluster
        """
        with closing(RawCluster(loop, self._listeners[OWN], "probe")) as raw:
            await raw.connect(int(self._settings.probe_timeout_seconds * 1000))
            found = await describe_registered(raw, timeout_ms=5000)
        if found.cluster_id != self.cluster_id:
            raise RawError(f"DescribeCluster: cluster id {found.cluster_id}")
        return {b.id for b in found.brokers}
