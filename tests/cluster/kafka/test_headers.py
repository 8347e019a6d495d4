"""Names of headers are arbitrary bytes: they end no reader of drkit's topics."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
import socket
import struct

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition
import pytest

from drkit.config import ClusterSettings
from drkit.control_key import HEADER, ControlKey, ControlKeys, LogPlace
from drkit.kafka.admin import Cluster
from drkit.kafka.reading.range_reader import NOT_TEXT, all_headers
from drkit.kafka.topics import TopicPlan, create_topics, delete_topics, topic_names
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition as At
from drkit.takeover.mm2_takeover import content
from drkit.wire import Record, encode
from tests.support.flow_state.keys import signatures
from tests.support.waiting import eventually

TOPIC = "drkit-watch.headers-a.headers-b.internal"
DRKIT = Path(__file__).parents[3] / "drkit"
PRODUCE, VERSION = 0, 7


@pytest.fixture
def broker(target: LocalCluster) -> tuple[str, int]:
    """The leader of the topic, which is new."""
    cluster = Cluster.connect(ClusterSettings(alias="b", bootstrap_servers=target.bootstrap()))
    if TOPIC in topic_names(cluster):
        delete_topics(cluster, [TOPIC])
        eventually(lambda: TOPIC not in topic_names(cluster), what="the end of an earlier topic")
    assert not create_topics(cluster, [TopicPlan(TOPIC, 1, 1, {"retention.ms": "-1"})])
    eventually(lambda: TOPIC in topic_names(cluster), what=TOPIC)
    host, _, port = target.bootstrap().split(",")[0].rpartition(":")
    return host, int(port)


def text(value: bytes) -> bytes:
    return struct.pack(">h", len(value)) + value


def produce(at: tuple[str, int], record: Record) -> None:
    """As a client that checks nothing."""
    batch = bytes(encode([record], 0))
    body = struct.pack(">hhii", -1, 1, 5000, 1) + text(TOPIC.encode()) + struct.pack(">ii", 1, 0)
    request = struct.pack(">hhi", PRODUCE, VERSION, 1) + text(b"x") + body
    request += struct.pack(">i", len(batch)) + batch

    def error() -> int:
        with closing(socket.create_connection(at)) as link:
            link.sendall(struct.pack(">i", len(request)) + request)
            answer = link.recv(1000)
        return int(struct.unpack_from(">h", answer, 4 + 4 + 4 + 2 + len(TOPIC) + 4 + 4)[0])

    eventually(lambda: error() == 0, what="the leader of a new topic")


def read(at: tuple[str, int], offset: int = OFFSET_BEGINNING) -> Message:
    with closing(
        Consumer({"bootstrap.servers": f"{at[0]}:{at[1]}", "group.id": "drkit-reader", "log_level": 0})
    ) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, offset)])

        def record() -> Message | None:
            found = consumer.poll(1)
            return found if found is not None and found.error() is None else None

        return eventually(record, what="the record")


def test_a_name_that_is_no_text_ends_no_reader(broker: tuple[str, int]):
    keys = ControlKeys(ControlKey.of(b"0123456789abcdef0123456789abcdef"))
    ((_, mac),) = signatures(keys, LogPlace(At(TOPIC, 0), "b")).headers(b"pause", b"v")
    produce(broker, Record(0, 1, b"pause", b"v", ((b"\xff\xfe", b"x"), (HEADER.encode(), mac))))
    message = read(broker)
    with pytest.raises(SystemError):
        message.headers()  # when this fails, the client library has learned it: nothing needs to be caught
    for asked_before in (message, read(broker)):
        assert all_headers(asked_before) == [(NOT_TEXT, b"x"), (HEADER, mac)]


def test_so_it_is_where_the_interpreter_has_specialized_the_call(broker: tuple[str, int]):
    produce(broker, Record(0, 1, b"k", b"v", ((b"a", b"1"),)))
    produce(broker, Record(0, 1, b"k", b"v", ((b"a", b"1"), (b"\xff", b"2"), (b"\xff", None), (b"", b""))))
    good, bad = read(broker), read(broker, 1)
    for _ in range(1000):
        assert all_headers(good) == [("a", b"1")]
    for _ in range(2):
        assert all_headers(bad) == [("a", b"1"), (NOT_TEXT, b"2"), (NOT_TEXT, None), ("", b"")]


def test_what_verification_and_takeover_compare(broker: tuple[str, int]):
    for value in (b"1", b"1", b"2", b""):
        produce(broker, Record(0, 1, b"k", b"v", ((b"\xff", value),)))
    records = [read(broker, offset) for offset in range(4)]
    for _ in range(2):
        first, equal, *others = [content(record, times=False) for record in records]
        assert first == equal
        assert len({first, *others}) == 3


def test_only_one_module_asks_the_client_library():
    asking = [file.name for file in DRKIT.rglob("*.py") if "message.headers" in file.read_text()]
    assert asking == []


def test_other_headers_are_read(broker: tuple[str, int]):
    produce(broker, Record(0, 1, b"k", b"v", ((b"a", b"1"), (b"b", None))))
    assert all_headers(read(broker)) == [("a", b"1"), ("b", None)]
    produce(broker, Record(0, 1, b"k", b"v", ()))
    assert not all_headers(read(broker, 1))
