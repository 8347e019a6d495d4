"""A KRaft cluster of broker processes on this machine."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import shutil
import tempfile
import time
from types import TracebackType
from typing import Self

from drkit.errors import ConfigError, Failed
from drkit.local.broker import LocalBroker, PortTaken
from drkit.local.jars import Progress, default_cache
from drkit.local.node import PROPERTIES_FILE, prepare_broker
from drkit.local.ports import PortReservation
from drkit.local.runtime import find_runtime
from drkit.local.spec import ADMIN, ClusterSpec, NodeAddresses, reserve_addresses
from drkit.local.storage import format_storage, random_kafka_uuid

_START_SECONDS = 120.0
_ATTEMPTS = 3


class LocalCluster:
    """Start, stop and hurt a cluster; a context manager.

    :param folder: where to keep everything; without one a temporary folder that :meth:`stop` removes
    :param attached: brokers end when this process ends, however that happens
    """

    def __init__(
        self,
        spec: ClusterSpec,
        *,
        folder: Path | None = None,
        cache: Path | None = None,
        progress: Progress = lambda _line: None,
        attached: bool = True,
    ) -> None:
        self.spec = spec
        self.cluster_id = random_kafka_uuid()
        self.brokers: list[LocalBroker] = []
        self._own_folder = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix=f"drkit-{spec.name}-"))
        self._cache = cache
        self._progress = progress
        self._attached = attached
        self._ports = PortReservation()
        self._nodes: list[NodeAddresses] = []

    def start(self) -> Self:
        """Start all brokers at once; returns when every one of them answers and sees all others.

        :raises Failed: not ready in two minutes, or a broker ended; the error names the logs, which are kept
        :raises ConfigError: no usable Java
        """
        java = find_runtime(self._cache or default_cache(), self._progress).command(self.spec)
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._start_once(java)
            except PortTaken:
                self._kill_all()
                if attempt == _ATTEMPTS:
                    raise
                self._progress("a port was taken by somebody else: again with other ports")
            except BaseException:
                self._kill_all()
                raise
            else:
                return self
        raise AssertionError("unreachable")

    def _start_once(self, java: list[str]) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self._reserve_ports()
        self.brokers = [
            prepare_broker(self.spec, node, self._nodes, self.folder, java, attached=self._attached)
            for node in range(self.spec.brokers)
        ]
        format_storage(
            java,
            self.brokers[0].folder / PROPERTIES_FILE,
            self.cluster_id,
            [broker.folder / "data" for broker in self.brokers],
            self.spec.users if self.spec.sasl else {},
        )
        for broker, node in zip(self.brokers, self._nodes, strict=True):
            self._ports.before_listen(node.listen.values())
            broker.start()
        self.wait_ready(_START_SECONDS)

    def _reserve_ports(self) -> None:
        self._ports.release()
        self._nodes = [reserve_addresses(self.spec, self._ports) for _ in range(self.spec.brokers)]

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
        self._kill_all()
        self._ports.release()
        if self._own_folder and not keep_logs:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _kill_all(self) -> None:
        for broker in self.brokers:
            broker.kill()

    def broker(self, node_id: int) -> LocalBroker:
        """The broker with this node id (0, 1, ...)."""
        return self.brokers[node_id]

    def bootstrap(self, role: str = "CLIENT") -> str:
        """``bootstrap.servers`` for clients of a role.

        :raises ConfigError: the cluster has no listener of that name
        """
        if role not in self.spec.listeners:
            raise ConfigError(
                "no such listener", where=f"cluster {self.spec.name}", evidence=role, hint=", ".join(self.spec.listeners)
            )
        return ",".join(f"{node.host}:{node.advertise[role]}" for node in self._nodes)

    def client_properties(self, user: str = ADMIN, mechanism: str = "SCRAM-SHA-512") -> dict[str, str]:
        """Kafka client properties (without ``bootstrap.servers``) for one of the cluster's users."""
        found: dict[str, str] = {}
        if self.spec.protocol != "PLAINTEXT":
            found["security.protocol"] = self.spec.protocol
        if self.spec.sasl:
            found |= {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": self.spec.users[user]}
        return found

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def start_together(*clusters: LocalCluster) -> None:
    """Start clusters in parallel; when one fails, all are stopped and its error is raised."""
    with ThreadPoolExecutor(len(clusters)) as pool:
        started = [pool.submit(cluster.start) for cluster in clusters]
    errors = [error for each in started if (error := each.exception())]
    if errors:
        for cluster in clusters:
            cluster.stop(keep_logs=True)
        raise errors[0]


