"""A KRaft cluster of broker processes on this machine."""

from __future__ import annotations

from concurrent.futures import Future, wait
from functools import partial
from pathlib import Path
import shutil
import tempfile
import threading
import time
from typing import Self

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from drkit.errors import ConfigError, Failed
from drkit.local.broker import LocalBroker, PortTaken
from drkit.local.jars import Progress, default_cache
from drkit.local.link import Link
from drkit.local.node import PROPERTIES_FILE, Runtime, prepare_broker
from drkit.local.ports import PortReservation
from drkit.local.runtime import find_runtime
from drkit.local.security import Certificate, make_certificate, make_client_certificate
from drkit.local.spec import ADMIN, ClusterSpec, NodeAddresses, reserve_addresses
from drkit.local.storage import format_storage, random_kafka_uuid
from drkit.time_limit import begun

_START_SECONDS = 120.0
_ATTEMPTS = 3
_GIVE_UP_SECONDS = 20.0


class LocalCluster:
    """Start, stop, freeze and kill a cluster; a context manager.

    :param folder: where to keep everything; without one a temporary folder that :meth:`stop` removes

    Brokers end when this process ends, however that happens, unless :meth:`detach` was called.
    """

    def __init__(
        self,
        spec: ClusterSpec,
        *,
        folder: Path | None = None,
        cache: Path | None = None,
        progress: Progress = lambda _line: None,
    ) -> None:
        self.spec = spec
        self.cluster_id = random_kafka_uuid()
        self.brokers: list[LocalBroker] = []
        self._own_folder = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix=f"drkit-{spec.name}-"))
        self._cache = cache
        self._progress = progress
        self._ports = PortReservation()
        self._links: dict[str, Link] = {}
        self._nodes: list[NodeAddresses] = []
        self._certificate: Certificate | None = None
        self._java = Path("java")
        self._given_up = threading.Event()

    def start(self) -> Self:
        """Start all brokers at once; returns when every one of them answers and sees all others.

        :raises Failed: not ready in two minutes, or a broker ended; the error names the logs, which are kept
        :raises ConfigError: no usable Java
        """
        runtime = find_runtime(self._cache or default_cache(), self._progress)
        with_other_ports = Retrying(
            stop=stop_after_attempt(_ATTEMPTS), retry=retry_if_exception_type(PortTaken), reraise=True
        )
        try:
            with_other_ports(self._start_once, runtime)
        except BaseException:
            self.stop(keep_logs=True)
            raise
        return self

    def give_up(self) -> None:
        """End a start that runs in another thread: it fails within seconds and starts no more brokers."""
        self._given_up.set()
        self.kill()

    def _refuse_given_up(self) -> None:
        if self._given_up.is_set():
            raise Failed("start_given_up", where=f"cluster {self.spec.name}")

    def _start_once(self, runtime: Runtime) -> None:
        self._refuse_given_up()
        self.kill()
        for old in self.folder.glob("broker-*"):
            shutil.rmtree(old)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._reserve_addresses()
        self._java = runtime.java
        self._certificate = make_certificate(runtime.java, self.folder) if self.spec.tls else None
        java = runtime.command(self.spec)
        write = partial(prepare_broker, certificate=self._certificate)
        self.brokers = [
            write(self.spec, node, self._nodes, self.folder, java) for node in range(self.spec.brokers)
        ]
        format_storage(
            java,
            self.brokers[0].folder / PROPERTIES_FILE,
            self.cluster_id,
            [broker.folder / "data" for broker in self.brokers],
            self.spec.users if self.spec.sasl else {},
            self.spec.mechanisms,
        )
        for broker, node in zip(self.brokers, self._nodes, strict=True):
            self._refuse_given_up()
            self._ports.before_listen(node.listen.values())
            broker.start()
        self._refuse_given_up()
        self.wait_ready(_START_SECONDS)

    def _reserve_addresses(self) -> None:
        self._release_addresses()
        self._links = {role: Link(f"{self.spec.name}-{role}") for role in self.spec.linked}
        self._nodes = [
            reserve_addresses(self.spec, self._ports, self._links) for _ in range(self.spec.brokers)
        ]

    def _release_addresses(self) -> None:
        for link in self._links.values():
            link.close()
        self._ports.release()

    def wait_ready(self, timeout: float = _START_SECONDS) -> None:
        """Return when every broker answers and sees every other one unfenced.

        :raises Failed: not within ``timeout`` seconds
        """
        deadline = time.monotonic() + timeout
        everybody = frozenset(broker.node_id for broker in self.brokers)
        for broker in self.brokers:
            broker.wait_ready(everybody, deadline)

    def stop(self, *, keep_logs: bool = False) -> None:
        """End all brokers at once and remove the temporary folder."""
        self.kill()
        self._release_addresses()
        if self._own_folder and not keep_logs:
            shutil.rmtree(self.folder, ignore_errors=True)

    def kill(self) -> None:
        """SIGKILL every broker; their data stays for :meth:`restart`."""
        for broker in self.brokers:
            broker.kill()

    def freeze(self) -> None:
        """SIGSTOP every broker."""
        for broker in self.brokers:
            broker.freeze()

    def resume(self) -> None:
        """SIGCONT every broker."""
        for broker in self.brokers:
            broker.resume()

    def restart(self) -> None:
        """Start every broker that does not run, with its data; returns when all are ready."""
        for broker in self.brokers:
            if not broker.running:
                broker.start()
        self.wait_ready()

    def detach(self) -> None:
        """Keep the brokers running when this process ends."""
        for broker in self.brokers:
            broker.detach()

    def broker(self, node_id: int) -> LocalBroker:
        """The broker with this node id (0, 1, ...)."""
        return self.brokers[node_id]

    def link(self, role: str) -> Link:
        """The link in front of a role's listeners.

        :raises ConfigError: the role is not in ``ClusterSpec.linked``
        """
        if role not in self._links:
            raise ConfigError("no_link", where=f"cluster {self.spec.name}", evidence=role)
        return self._links[role]

    def bootstrap(self, role: str = "CLIENT") -> str:
        """``bootstrap.servers`` for clients of a role.

        :raises ConfigError: the cluster has no listener of that name
        """
        if role not in self.spec.listeners:
            listeners = ", ".join(self.spec.listeners)
            where = f"cluster {self.spec.name}"
            raise ConfigError("listener_unknown", where=where, evidence=role, listeners=listeners)
        return ",".join(f"{node.host}:{node.advertise[role]}" for node in self._nodes)

    def client_properties(self, user: str = ADMIN, mechanism: str = "SCRAM-SHA-512") -> dict[str, str]:
        """Kafka client properties (without ``bootstrap.servers``) for one of the cluster's users."""
        found: dict[str, str] = {}
        if self.spec.protocol != "PLAINTEXT":
            found["security.protocol"] = self.spec.protocol
        if self.spec.sasl:
            found |= {
                "sasl.mechanism": mechanism,
                "sasl.username": user,
                "sasl.password": self.spec.users[user],
            }
        if self._certificate:
            # Kafka's names (KIP-651); librdkafka calls the same file ssl.ca.location.
            found |= {
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self._certificate.authority),
            }
        if self.spec.client_auth:
            found |= self.certificate_properties(user)
        return found

    def certificate_properties(
        self, user: str, *, kind: str = "JKS", valid_days: tuple[int, int] = (-1, 30)
    ) -> dict[str, str]:
        """Client properties that name a key store with a certificate of ``user``, made on the first call.

        :param kind: of the store, JKS or PKCS12
        :param valid_days: first and last day of the certificate, counted from today
        :raises Failed: keytool refuses, or the cluster has no TLS
        """
        if self._certificate is None:
            raise Failed("no_certificates", where=f"cluster {self.spec.name}")
        made = make_client_certificate(self._java, self._certificate, user, kind, valid_days)
        return {
            "ssl.keystore.type": kind,
            "ssl.keystore.location": str(made),
            "ssl.keystore.password": self._certificate.password,
            "ssl.key.password": self._certificate.password,
        }

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def start_together(*clusters: LocalCluster) -> None:
    """Start clusters in parallel.

    When one fails, or this thread is interrupted, none of them runs afterwards and none starts any more.
    """
    started: list[Future[LocalCluster]] = []
    try:
        started.extend(begun(cluster.start) for cluster in clusters)
        for each in started:
            each.result()
    except BaseException:
        for cluster in clusters:
            cluster.give_up()
        wait(started, _GIVE_UP_SECONDS)  # starting brokers would write into folders that are removed next
        for cluster in clusters:
            cluster.stop(keep_logs=True)
        raise
