"""Kafka's own Java classes of MirrorMaker 2, called from Python: neither a compiler nor Spark is needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from py4j.java_gateway import GatewayClient, GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import get_return_value, is_error
import pyspark

from drkit.config import ClusterSettings, FlowSettings
from drkit.local import jars
from drkit.local.java import find_java

_MIRROR = "org.apache.kafka.connect.mirror"
_POLICIES = {"identity": "IdentityReplicationPolicy", "prefix": "DefaultReplicationPolicy"}
_FLAGS = ["-Xmx160m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=OFF"]


class _OwnErrors(GatewayClient):  # type: ignore[misc]  # py4j has no types
    """Raises the errors of its own JVM.

    PySpark translates the errors of every gateway of the process, and asks Spark's JVM what they are: the end
    of an iterator in this JVM was taken for a query's failure in that one: both objects had the same number.
    """

    def send_command(self, *arguments: Any, **options: Any) -> Any:
        answer = super().send_command(*arguments, **options)
        if isinstance(answer, str) and is_error(answer)[0]:
            get_return_value(answer, self)
        return answer


class KafkaJava:
    """A JVM with the classes of the same Kafka release as the brokers."""

    def __init__(self) -> None:
        (bridge,) = Path(pyspark.__file__).parent.glob("jars/py4j-*.jar")
        port, token = launch_gateway(
            jarpath=str(bridge),
            classpath=jars.classpath(modules=jars.MIRROR_MAKER),
            javaopts=_FLAGS,
            java_path=str(find_java()),
            die_on_exit=True,
            enable_auth=True,
        )
        parameters = GatewayParameters(port=port, auto_convert=True, auth_token=token)
        self._gateway = JavaGateway(_OwnErrors(gateway_parameters=parameters), gateway_parameters=parameters)
        self.jvm: Any = self._gateway.jvm

    def mirror(self, name: str) -> Any:
        """A public class of MirrorMaker 2."""
        return getattr(self.jvm.org.apache.kafka.connect.mirror, name)

    def hidden(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """A new object of a class whose constructor is not public; arguments by their Java types."""
        made = self._class(f"{_MIRROR}.{name}").getDeclaredConstructor(self._classes(arguments))
        made.setAccessible(True)
        return made.newInstance(self._array("Object", arguments.values()))

    def call(self, on: Any, method: str, arguments: Mapping[str, Any]) -> Any:
        """Call a method that is not public; arguments by their Java types."""
        found = on.getClass().getDeclaredMethod(method, self._classes(arguments))
        found.setAccessible(True)
        return found.invoke(on, self._array("Object", arguments.values()))

    def partition(self, topic: str, number: int) -> Any:
        return self.jvm.org.apache.kafka.common.TopicPartition(topic, number)

    def seconds(self, count: int) -> Any:
        return self.jvm.java.time.Duration.ofSeconds(count)

    def _class(self, name: str) -> Any:
        return self.jvm.java.lang.Class.forName(name)

    def _classes(self, arguments: Mapping[str, Any]) -> Any:
        primitive = {
            "long": self.jvm.java.lang.Long.TYPE,
            "boolean": self.jvm.java.lang.Boolean.TYPE,
            "short": self.jvm.java.lang.Short.TYPE,
        }
        return self._array("Class", [primitive.get(n) or self._class(n) for n in arguments])

    def _array(self, kind: str, items: Any) -> Any:
        items = list(items)
        made = self._gateway.new_array(getattr(self.jvm.java.lang, kind), len(items))
        for number, item in enumerate(items):
            made[number] = item
        return made

    def close(self) -> None:
        self._gateway.shutdown()


@contextmanager
def kafka_java() -> Iterator[KafkaJava]:
    made = KafkaJava()
    try:
        yield made
    finally:
        made.close()


def client_properties(target: ClusterSettings, flow: FlowSettings) -> dict[str, str]:
    """What an application on the target gives to ``RemoteClusterUtils``."""
    policy = f"{_MIRROR}.{_POLICIES[flow.naming]}"
    return {
        "bootstrap.servers": target.bootstrap_servers,
        "replication.policy.class": policy,
        # With identity only this tells from where a topic came.
        "source.cluster.alias": flow.source,
    }


def task_properties(
    source: ClusterSettings, target: ClusterSettings, flow: FlowSettings, *groups: str
) -> dict[str, str]:
    """The settings with which a Connect worker starts MirrorMaker 2's checkpoint task."""
    return {
        "name": "checkpoints",
        "connector.class": f"{_MIRROR}.MirrorCheckpointConnector",
        "source.cluster.alias": flow.source,
        "target.cluster.alias": flow.target,
        "source.cluster.bootstrap.servers": source.bootstrap_servers,
        "target.cluster.bootstrap.servers": target.bootstrap_servers,
        "replication.policy.class": f"{_MIRROR}.{_POLICIES[flow.naming]}",
        "offset-syncs.topic.location": flow.offset_syncs_topic_location,
        "emit.checkpoints.interval.seconds": "1",
        "consumer.poll.timeout.ms": "100",
        "topics": ".*",
        "task.assigned.groups": ",".join(groups),
    }


class OffsetSyncStore:
    """MirrorMaker 2's own reader of offset syncs, as its checkpoint task has it.

    :param history: False: only the last sync of a partition counts, as after a start without checkpoints
    """

    def __init__(self, java: KafkaJava, properties: dict[str, str], *, history: bool = True) -> None:
        self._java = java
        config = java.mirror("MirrorCheckpointConfig")(properties)
        self._store = java.hidden("OffsetSyncStore", {f"{_MIRROR}.MirrorCheckpointConfig": config})
        self._store.start(not history)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._store.close()

    def translate(self, topic: str, partition: int, upstream: int) -> int | None:
        """The target offset; None when the store has no answer, −1 when it is too far in the past."""
        found = self._store.translateDownstream("group", self._java.partition(topic, partition), upstream)
        return int(found.getAsLong()) if found.isPresent() else None
