#!/bin/sh
# Formats the storage of one KRaft node, once, and becomes kafka.Kafka. It listens at
#   9092   CLIENT, for the network of the containers, as BROKER_HOST:9092
#   19092  HOST, for everybody outside, as HOST_ADDRESS
# Environment:
#   BROKER_HOST        the name that other containers use (default: this container's host name)
#   HOST_ADDRESS       host:port under which 19092 is reached from outside (default: localhost:19092)
#   HOST_ADDRESS_FILE  instead: a file that will hold it; the broker waits for it. For ports that the engine
#                      chooses, because they are known only when the container runs
#   CLUSTER_ID         a Kafka UUID (default: a random one); counts only while the storage is empty
#   KAFKA_HEAP_OPTS    flags for the JVM (default: -Xms256m -Xmx512m)
#   KAFKA_A_B__C       the broker setting a.b_c: one underscore is a dot, two are an underscore, three a dash,
#                      as in Kafka's own image; these win over what is below
set -eu

jars=/opt/kafka/libs
data=/var/lib/kafka/data
properties=/var/lib/kafka/server.properties

# kafka FLAGS CLASS ARGUMENT...: this process becomes the JVM.
kafka() {
  flags=$1
  shift
  # shellcheck disable=SC2086  flags are a list
  exec java $flags -XX:+ExitOnOutOfMemoryError -Djava.awt.headless=true \
    -Dlog4j2.configurationFile=/opt/kafka/log4j2.xml -cp "$jars/*" "$@"
}

if [ -n "${HOST_ADDRESS_FILE:-}" ]; then
  until [ -s "$HOST_ADDRESS_FILE" ]; do sleep 0.1; done
  HOST_ADDRESS=$(cat "$HOST_ADDRESS_FILE")
fi

cat > "$properties" <<PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@localhost:9093
controller.listener.names=CONTROLLER
inter.broker.listener.name=CLIENT
listeners=CLIENT://:9092,HOST://:19092,CONTROLLER://localhost:9093
advertised.listeners=CLIENT://${BROKER_HOST:-$(hostname)}:9092,HOST://${HOST_ADDRESS:-localhost:19092}
listener.security.protocol.map=CLIENT:PLAINTEXT,HOST:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$data
auto.create.topics.enable=false
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
PROPERTIES
# The last of two lines with one name is the one that counts.
env | sed -n 's/^KAFKA_\([A-Z0-9_]*\)=\(.*\)/\1 \2/p' | while read -r name value; do
  case $name in HEAP_OPTS) continue ;; esac
  setting=$(printf %s "$name" | sed 's/___/-/g; s/__/\n/g; s/_/./g; s/\n/_/g' | tr '[:upper:]' '[:lower:]')
  printf '%s=%s\n' "$setting" "$value" >> "$properties"
done

if [ ! -f "$data/meta.properties" ]; then
  id=${CLUSTER_ID:-$(kafka -Xmx128m kafka.tools.StorageTool random-uuid)}
  (kafka -Xmx128m kafka.tools.StorageTool format --cluster-id "$id" --config "$properties") >&2
fi
kafka "${KAFKA_HEAP_OPTS:--Xms256m -Xmx512m}" kafka.Kafka "$properties"
