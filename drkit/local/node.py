"""From a specification to a broker that can be launched: its ports, its files and its command."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from drkit.local.broker import LocalBroker
from drkit.local.ports import HOST
from drkit.local.security import Certificate
from drkit.local.spec import INTERNAL, ClusterSpec, NodeAddresses, broker_properties, properties_text

# C1 only and the serial collector: half the start time of the defaults on two cores.
_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss512k", "-Djava.awt.headless=true")
# A broker stops by a signal and logs until the end, so Log4j must not stop before it.
_LOG4J = """\
<Configuration status="error" shutdownHook="disable">
  <Appenders>
    <File name="server" fileName="${sys:drkit.log}">
      <PatternLayout pattern="%d{ISO8601} %-5p %c{1.} [%t] %m%n"/>
    </File>
  </Appenders>
  <Loggers>
    <Root level="info"><AppenderRef ref="server"/></Root>
  </Loggers>
</Configuration>
"""
PROPERTIES_FILE = "server.properties"
_LOG4J_FILE = "log4j2.xml"


class Runtime(NamedTuple):
    """What runs a broker: a Java, Kafka's jars, and an archive of their loaded classes if there is one."""

    java: Path
    classpath: str
    archive: Path | None = None

    def command(self, spec: ClusterSpec) -> list[str]:
        """The JVM's command line up to the main class."""
        # "auto": an archive that does not fit this Java or these jars is ignored, not an error.
        shared = ["-Xshare:auto"]
        if self.archive:
            shared.append(f"-XX:SharedArchiveFile={self.archive}")
        return [str(self.java), *_JVM, f"-Xmx{spec.heap}", *shared, *spec.jvm, "-cp", self.classpath]


def broker_command(java: Sequence[str], home: Path) -> list[str]:
    """The command line of the broker whose files are in ``home``."""
    logs = [f"-Dlog4j2.configurationFile={home / _LOG4J_FILE}", f"-Ddrkit.log={home / 'server.log'}"]
    return [*java, *logs, "kafka.Kafka", str(home / PROPERTIES_FILE)]


def prepare_broker(
    spec: ClusterSpec,
    node_id: int,
    nodes: Sequence[NodeAddresses],
    folder: Path,
    java: Sequence[str],
    *,
    certificate: Certificate | None = None,
) -> LocalBroker:
    """Write the files of one node into ``folder``/broker-N; nothing runs or is formatted yet."""
    home = folder / f"broker-{node_id}"
    home.mkdir(parents=True)
    properties = broker_properties(spec, node_id, nodes, home / "data", certificate)
    (home / PROPERTIES_FILE).write_text(properties_text(properties))
    (home / _LOG4J_FILE).write_text(_LOG4J)
    listen = nodes[node_id].listen
    return LocalBroker(
        node_id,
        home,
        broker_command(java, home),
        (HOST, listen[INTERNAL]),
        others=[(HOST, listen[role]) for role in spec.listeners],
        plain=spec.protocol == "PLAINTEXT",
    )
