"""Brokers of the tests, each alone in a JVM that may have run one before.

A JVM that has run a broker starts the next one with a tenth of the processor time, and serves its first
requests with a third of it: what Kafka needs is loaded and compiled. So a JVM whose broker a test has done
with takes the broker of another test. It is a process like any other: a test kills and freezes it, and then
it is no longer used.

The JVM is driven with Py4J, as Spark's is; what starts in it is what ``kafka.Kafka`` starts.
"""

from __future__ import annotations

import atexit
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
import os
from pathlib import Path
import signal
import subprocess
import tempfile
import threading
import time
from typing import Any, BinaryIO, Final, NamedTuple

from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JError
import pyspark

from drkit.local.launched import Launched

_CONNECTS_SECONDS: Final = 60.0
_SHUTDOWN_SECONDS: Final = 2.0
"""A broker that ends as asked takes a third of that; one without its controller would wait for minutes."""
_MOST_BROKERS: Final = 40
"""In one JVM, one after another: whatever each leaves in its heap of 256 MiB stays small."""
_MOST_IDLE: Final = 8


class _Command(NamedTuple):
    """The parts of a broker's command line."""

    jvm: tuple[str, ...]
    class_path: str
    properties: dict[str, str]
    server: Path

    @classmethod
    def parsed(cls, command: Sequence[str]) -> _Command:
        at = command.index("-cp")
        *more, main, server = command[at + 2 :]
        assert main == "kafka.Kafka"
        properties = dict(each.removeprefix("-D").split("=", 1) for each in more)
        return cls(tuple(command[:at]), command[at + 1], properties, Path(server))


class _Jvm:
    """A JVM that waits for what it is to do."""

    def __init__(self, command: _Command) -> None:
        self.kind = command.jvm
        self.brokers = 0
        self._gateway: JavaGateway | None = None
        self._console = tempfile.TemporaryFile()  # noqa: SIM115  as long as the JVM
        [jar] = Path(pyspark.__file__).parent.glob("jars/py4j-*.jar")
        class_path = f"{command.class_path}{os.pathsep}{jar}"
        server = ("-cp", class_path, "py4j.GatewayServer", "--enable-auth", "0")
        self.launched = Launched([*command.jvm, *server], self._console)
        self.launched.told_pid()

    @property
    def gateway(self) -> JavaGateway:
        """The way into it; waits until it is up. Raises TimeoutError."""
        if self._gateway is None:
            port, token = self._told()
            # Py4J's client would tell the JVM of each object that Python has no more: also a frozen one.
            settings = GatewayParameters(port=int(port), auth_token=token, enable_memory_management=False)
            self._gateway = JavaGateway(gateway_parameters=settings)
        return self._gateway

    def kill(self) -> None:
        self.launched.signal(signal.SIGKILL)

    def said(self) -> bytes:
        """What it has printed."""
        return os.pread(self._console.fileno(), 1 << 20, 0)

    def _told(self) -> list[str]:
        deadline = time.monotonic() + _CONNECTS_SECONDS
        while self.said().count(b"\n") < 2:  # its port and its token
            if not self.launched.running or time.monotonic() > deadline:
                raise TimeoutError(f"a JVM for brokers did not start: {self.said()!r}")
            time.sleep(0.01)
        return self.said().decode().splitlines()[:2]


class WarmBroker:
    """A broker, with what :class:`drkit.local.launched.Launched` says of one.

    :param give_back: gets a JVM that can run another broker
    """

    def __init__(
        self, jvm: _Jvm, command: _Command, console: Path, give_back: Callable[[_Jvm], None]
    ) -> None:
        self._jvm, self._command, self._console = jvm, command, console
        self._give_back = give_back
        self._server: Any = None
        self._ended = threading.Event()
        self._starts = self._begun(self._start)
        self._ends: threading.Thread | None = None

    @property
    def pid(self) -> int:
        return self._jvm.launched.pid

    @property
    def running(self) -> bool:
        return not self._ended.is_set() and self._jvm.launched.running

    def told_pid(self) -> int:
        return self.pid

    def detach(self) -> None:
        self._jvm.launched.detach()

    def signal(self, number: signal.Signals) -> None:
        """SIGTERM is a controlled shutdown, as in the JVM of ``kafka.Kafka``; every other is the kernel's."""
        if not self.running:
            return
        if number == signal.SIGTERM:
            self._ends = self._ends or self._begun(self._shut_down)
        else:
            self._jvm.launched.signal(number)

    def discard(self) -> None:
        """End the broker, and keep its JVM if it ends in time."""
        self.signal(signal.SIGTERM)
        late = threading.Timer(_SHUTDOWN_SECONDS, lambda: None if self._ended.is_set() else self._jvm.kill())
        late.daemon = True
        late.start()

    def wait(self, seconds: float) -> None:
        """Wait for the end.

        :raises subprocess.TimeoutExpired: it still runs
        """
        deadline = time.monotonic() + seconds
        while self.running:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("a broker", seconds)
            self._ended.wait(0.02)

    def _start(self) -> None:
        try:
            java = self._jvm.gateway.jvm
            for name, value in self._command.properties.items():
                java.java.lang.System.setProperty(name, value)
            if self._jvm.brokers:
                file = java.java.io.File(self._command.properties["log4j2.configurationFile"])
                java.org.apache.logging.log4j.LogManager.getContext(False).setConfigLocation(  # noqa: FBT003  Java has no keywords
                    file.toURI()
                )
            self._jvm.brokers += 1
            properties = java.org.apache.kafka.common.utils.Utils.loadProps(str(self._command.server))
            config = java.kafka.server.KafkaConfig.fromProps(properties)
            server = java.kafka.server.KafkaRaftServer(config, java.org.apache.kafka.common.utils.Time.SYSTEM)
            server.startup()
            for each in (properties, config):
                self._jvm.gateway.detach(each)
            self._server = server
        except (Py4JError, OSError, TimeoutError) as error:
            with suppress(FileNotFoundError), self._console.open("ab") as console:
                console.write(f"{error}\n".encode())
            self._jvm.kill()

    def _shut_down(self) -> None:
        self._starts.join(_SHUTDOWN_SECONDS)
        if self._server is None:
            self._jvm.kill()
            return
        with suppress(Py4JError, OSError):  # killed meanwhile
            self._server.shutdown()
            self._jvm.gateway.detach(self._server)
            self._ended.set()
            self._give_back(self._jvm)

    @staticmethod
    def _begun(work: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        return thread


class WarmBrokers:
    """The JVMs of one test process."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._idle: defaultdict[tuple[str, ...], list[_Jvm]] = defaultdict(list)
        atexit.register(self.close)

    def launch(self, command: Sequence[str], console: BinaryIO) -> Launched | WarmBroker:
        """Start a broker; in a process that was forked from this one as the product does."""
        if os.getpid() != self._owner:
            return Launched(command, console)
        parsed = _Command.parsed(command)
        return WarmBroker(self._taken(parsed), parsed, Path(console.name), self._take_back)

    def close(self) -> None:
        """End those that wait; the others end with this process."""
        if os.getpid() == self._owner:
            for idle in self._idle.values():
                while idle:
                    idle.pop().kill()

    def _taken(self, command: _Command) -> _Jvm:
        with self._lock:
            idle = self._idle[command.jvm]
            while idle:
                if (found := idle.pop()).launched.running:
                    return found
        return _Jvm(command)

    def _take_back(self, jvm: _Jvm) -> None:
        with self._lock:
            if jvm.brokers < _MOST_BROKERS and sum(map(len, self._idle.values())) < _MOST_IDLE:
                self._idle[jvm.kind].append(jvm)
                return
        jvm.kill()
