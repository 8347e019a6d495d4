"""MirrorMaker 2 in dedicated mode, of the brokers' Kafka release, tuned as its operators tune it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bench.peers.replicator import Command, Flow

MAIN_CLASS: Final = "org.apache.kafka.connect.mirror.MirrorMaker"

JVM: Final = (
    "-Xms256M",
    "-Xmx2G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
    "-Dlog4j2.level=WARN",
)
"""As in ``connect-mirror-maker.sh`` and ``kafka-run-class.sh``, minus JMX; little logging, in its favour."""

PROPERTIES: Final = """\
clusters = source, target
source.bootstrap.servers = {source}
target.bootstrap.servers = {target}
source->target.enabled = true
source->target.topics = {topic}
target->source.enabled = false
# without this MM2 also runs workers for the other direction, only to emit heartbeats
target->source.emit.heartbeats.enabled = false
replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy
tasks.max = 2
refresh.topics.interval.seconds = 10
# one broker per cluster
replication.factor = 1
offset-syncs.topic.replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset.storage.replication.factor = 1
config.storage.replication.factor = 1
status.storage.replication.factor = 1
# big fetches and polls instead of 1 MiB and 500 records
source->target.consumer.isolation.level = read_committed
source->target.consumer.max.poll.records = 5000
source->target.consumer.max.partition.fetch.bytes = 2097152
source->target.consumer.fetch.max.bytes = 52428800
source->target.consumer.receive.buffer.bytes = 1048576
# big batches that do not wait; the source's codec
source->target.producer.override.compression.type = {codec}
source->target.producer.override.batch.size = 524288
source->target.producer.override.linger.ms = 5
source->target.producer.override.buffer.memory = 134217728
source->target.producer.override.max.request.size = 2097152
source->target.producer.override.send.buffer.bytes = 1048576
"""


@dataclass(frozen=True, slots=True)
class MirrorMaker:
    """MM2 as one JVM on this machine."""

    java: str
    classpath: str
    name: str = "mm2"

    def prepare(self, flow: Flow) -> Command:
        """Write ``mm2.properties`` into the flow's folder."""
        path = flow.folder / "mm2.properties"
        path.write_text(_properties(flow))
        return Command([self.java, *JVM, "-cp", self.classpath, MAIN_CLASS, str(Path(path).resolve())])


def _properties(flow: Flow) -> str:
    return PROPERTIES.format(source=flow.source, target=flow.target, topic=flow.topic, codec=flow.codec)
