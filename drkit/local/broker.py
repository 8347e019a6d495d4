"""One broker as a process that can be killed, frozen and brought back with the same id, ports and data."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
import re
import signal
import socket
import struct
import subprocess
import time
from typing import NamedTuple

from drkit.errors import Failed
from drkit.local.process import Launched, wait_stopped

_METADATA = 3
_VERSION = 1  # the first one that names the controller; the newest without tagged fields is not needed here
_HEADER = struct.Struct(">hhih")
_INT = struct.Struct(">i")


class ClusterView(NamedTuple):
    """The cluster as one broker sees it: unfenced brokers only."""

    node_ids: frozenset[int]
    controller_id: int


def ask(host: str, port: int, timeout: float = 1.0) -> ClusterView | None:
    """The broker's view, or None when it does not answer within ``timeout`` seconds."""
    request = _HEADER.pack(_METADATA, _VERSION, 1, -1) + _INT.pack(0)
    try:
        with socket.create_connection((host, port), timeout=timeout) as connection:
            connection.settimeout(timeout)
            connection.sendall(_INT.pack(len(request)) + request)
            with connection.makefile("rb") as answers:
                (size,) = _INT.unpack(answers.read(_INT.size))
                return _parse(answers.read(size))
    except (OSError, struct.error):
        return None  # not listening yet, or it closed half way through an answer


def listens(host: str, port: int, timeout: float = 1.0) -> bool:
    """Return whether the port accepts connections; a listener with SASL or TLS shows no more than that."""
    try:
        socket.create_connection((host, port), timeout=timeout).close()
    except OSError:
        return False
    return True


def _parse(answer: bytes) -> ClusterView:
    _correlation, count = struct.unpack_from(">ii", answer)
    position = 8
    nodes = set()
    for _ in range(count):
        (node,) = _INT.unpack_from(answer, position)
        nodes.add(node)
        position = _skip_string(answer, position + 4) + 4
        position = _skip_string(answer, position)
    (controller,) = _INT.unpack_from(answer, position)
    return ClusterView(frozenset(nodes), controller)


def _skip_string(data: bytes, position: int) -> int:
    length: int
    (length,) = struct.unpack_from(">h", data, position)
    return position + 2 + max(length, 0)


_EVIDENCE_CHARS = 1500
_LAUNCH_SECONDS = 30.0
_POLL_SECONDS = 0.05


class PortTaken(Failed):
    """Another process listens on a port reserved for a broker."""


@dataclass
class LocalBroker:
    """A broker process; :meth:`start` only launches it, the cluster waits until it is ready.

    :param folder: its data, its properties and its logs
    :param ask_at: host and port of its INTERNAL listener
    :param others: host and port of its other listeners
    :param plain: whether the others speak plain Kafka, without SASL and TLS
    """

    node_id: int
    folder: Path
    command: Sequence[str]
    ask_at: tuple[str, int]
    _: KW_ONLY
    others: Sequence[tuple[str, int]] = ()
    plain: bool = True

    def __post_init__(self) -> None:
        self.log = self.folder / "server.log"
        self.console = self.folder / "console.log"
        self._answers = ask if self.plain else listens
        self._process: Launched | None = None
        self._log_starts: dict[Path, int] = {}
        self._frozen = False

    @property
    def pid(self) -> int:
        """The process id of the JVM; 0 before it is known."""
        return self._process.pid if self._process is not None else 0

    @property
    def running(self) -> bool:
        """Whether the process exists (a frozen one does)."""
        return self._process is not None and self._process.running

    def start(self) -> None:
        """Launch the process, without waiting until it is ready."""
        if self.running:
            raise Failed("broker_running", where=self.name)
        self._log_starts = {file: file.stat().st_size for file in (self.console, self.log) if file.exists()}
        with self.console.open("ab") as console:
            self._process = Launched(self.command, console)
        self._frozen = False
        if not self._process.told_pid():
            raise Failed("broker_not_launched", where=str(self.console), evidence=self.evidence())

    def detach(self) -> None:
        """Keep the broker running when this process ends; otherwise it ends with this process in any case."""
        if self._process is not None:
            self._process.detach()

    @property
    def name(self) -> str:
        """Its folder's name and node id, for messages."""
        return f"{self.folder.parent.name} broker {self.node_id}"

    def view(self) -> ClusterView | None:
        """The cluster as this broker sees it; None when it does not answer."""
        return ask(*self.ask_at)

    def check_alive(self) -> None:
        """Raise if the process has ended by itself.

        :raises PortTaken: it could not listen on one of its ports
        :raises Failed: anything else; the logs are named
        """
        if self.running:
            return
        said = self._said()
        kind = PortTaken if "BindException" in said or "Address already in use" in said else Failed
        evidence = self.evidence()
        raise kind("broker_ended", where=self.name, evidence=evidence, folder=self.folder)

    def _said(self) -> str:
        parts = []
        for file in (self.console, self.log):
            with suppress(FileNotFoundError), file.open(errors="replace") as stream:
                stream.seek(self._log_starts.get(file, 0))
                parts.append(stream.read())
        return "\n".join(parts)

    def evidence(self) -> str:
        """Its output since its last start: from its first error on, else the end."""
        said = self._said()
        first_error = re.search(r"^.* (ERROR|FATAL) ", said, re.MULTILINE)
        return said[first_error.start() :][:_EVIDENCE_CHARS] if first_error else said[-_EVIDENCE_CHARS:]

    def kill(self) -> None:
        """SIGKILL: gone at once, without a flush or a controlled shutdown."""
        self._signal(signal.SIGKILL)
        self._wait_ended(_LAUNCH_SECONDS)

    def terminate(self, timeout: float = 30.0) -> None:
        """SIGTERM: a controlled shutdown; SIGKILL after ``timeout`` seconds."""
        self.resume()
        self._signal(signal.SIGTERM)
        try:
            self._wait_ended(timeout)
        except subprocess.TimeoutExpired:
            self.kill()

    def freeze(self) -> None:
        """SIGSTOP: connections stay up, nothing answers once this returns."""
        self._signal(signal.SIGSTOP)
        wait_stopped(self.pid, time.monotonic() + _LAUNCH_SECONDS)
        self._frozen = True

    def resume(self) -> None:
        """SIGCONT: continue after :meth:`freeze`, with everything that queued up meanwhile."""
        if self._frozen:
            self._signal(signal.SIGCONT)
            self._frozen = False

    def restart(self, timeout: float = 90.0) -> None:
        """Stop it as :meth:`terminate` if it runs, start it again, return when it is part of the cluster.

        :raises Failed: not ready within ``timeout`` seconds
        """
        if self.running:
            self.terminate()
        self.start()
        self.wait_ready(frozenset({self.node_id}), time.monotonic() + timeout)

    def wait_ready(self, expected: frozenset[int], deadline: float) -> None:
        """Return when this broker answers and sees all ``expected`` brokers unfenced.

        :param deadline: as of :func:`time.monotonic`
        """
        while not self._is_ready(expected):
            self.check_alive()
            if time.monotonic() > deadline:
                evidence = f"it sees {self.view()}; {self.evidence()}"
                raise Failed("broker_not_ready", where=self.name, evidence=evidence, folder=self.folder)
            time.sleep(_POLL_SECONDS)

    def _is_ready(self, expected: frozenset[int]) -> bool:
        view = self.view()
        # A broker opens its listeners one after the other: it is ready when all are open.
        return (
            view is not None
            and expected <= view.node_ids
            and all(self._answers(*address) for address in self.others)
        )

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.signal(number)

    def _wait_ended(self, timeout: float) -> None:
        if self._process is None:
            return
        self._process.wait(timeout)
        self._frozen = False
