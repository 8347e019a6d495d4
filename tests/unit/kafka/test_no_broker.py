"""A broker that says of its cluster that none of its brokers takes part.

Real ones do so for a moment after they were frozen, or the only one is being stopped: too short to be met at
will, so that a small server says it here, with the two answers of Kafka's protocol that it needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from socketserver import StreamRequestHandler, ThreadingTCPServer
import struct
import threading

import pytest

from drkit.config import ClusterSettings
from drkit.errors import ClusterUnreachable
from drkit.kafka.admin import Cluster

_API_VERSIONS, _METADATA, _PRODUCE, _SASL_HANDSHAKE = 18, 3, 0, 17
_OFFERED = ((_PRODUCE, 3, 3), (_METADATA, 0, 2), (_API_VERSIONS, 0, 0))
_UNSUPPORTED_VERSION, _INVALID_TOPIC, _ILLEGAL_SASL_STATE = 35, 17, 34


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


class _Answers(StreamRequestHandler):
    server: Lonely

    def handle(self) -> None:
        while size := self.rfile.read(4):
            request = self.rfile.read(struct.unpack(">i", size)[0])
            key, version, correlation = struct.unpack_from(">hhi", request)
            (name,) = struct.unpack_from(">h", request, 8)
            body = self._answer(key, version, request[10 + name :])
            self.wfile.write(struct.pack(">ii", 4 + len(body), correlation) + body)

    def _answer(self, key: int, version: int, asked: bytes) -> bytes:
        if key == _SASL_HANDSHAKE:  # a client asks whether SASL is needed
            return struct.pack(">hi", _ILLEGAL_SASL_STATE, 0)
        return self._versions(version) if key == _API_VERSIONS else self.server.metadata(asked)

    def _versions(self, version: int) -> bytes:
        if version:
            return struct.pack(">hi", _UNSUPPORTED_VERSION, 0)
        return struct.pack(">hi", 0, len(_OFFERED)) + b"".join(struct.pack(">hhh", *o) for o in _OFFERED)


class Lonely(ThreadingTCPServer):
    """Takes part itself, but for some of its answers.

    :param without: from this answer on it takes no part, and up to that one
    """

    daemon_threads = True

    def __init__(self, without: tuple[float, float]) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.port = int(self.server_address[1])
        self.asked, self.without = 0, without

    def metadata(self, asked: bytes) -> bytes:
        """As of version 2, with at most the invalid topic name."""
        self.asked += 1
        there = not self.without[0] <= self.asked <= self.without[1]
        broker = struct.pack(">i", 7) + _text("127.0.0.1") + struct.pack(">ih", self.port, -1)
        topic = struct.pack(">h", _INVALID_TOPIC) + _text("drkit-?") + struct.pack(">bi", 0, 0)
        topics = max(0, int.from_bytes(asked[:4], "big", signed=True))
        return (
            struct.pack(">i", there) + broker * there
            + _text("some-cluster") + struct.pack(">i", 7 if there else -1)
            + struct.pack(">i", topics) + topic * topics
        )  # fmt: skip


@pytest.fixture
def lonely(request: pytest.FixtureRequest) -> Iterator[Lonely]:
    with Lonely(request.param) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server
        server.shutdown()


def connect(server: Lonely, seconds: float) -> Cluster:
    settings = ClusterSettings(alias="x", bootstrap_servers=f"127.0.0.1:{server.port}")
    return Cluster.connect(settings, timeout_seconds=seconds)


# With `describe_cluster` the second of these ends the process, as it did with real brokers.
@pytest.mark.parametrize("lonely", [(1, 3), (2, 4)], indirect=True)
def test_it_is_asked_until_one_takes_part(lonely: Lonely) -> None:
    cluster = connect(lonely, 20.0)
    assert lonely.asked > lonely.without[1]
    assert cluster.cluster_id == "some-cluster"
    assert cluster.brokers == [(7, "127.0.0.1", lonely.port)]


def _brokers_of_one_of_many(_: int) -> list[int]:
    with Lonely((2, 4)) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            return [broker.id for broker in connect(server, 60.0).brokers]
        finally:
            server.shutdown()


def test_a_client_that_hears_it_before_its_request_is_sent_does_not_wait() -> None:
    # The request and the client's own look race: with many clients the request loses often enough.
    with ThreadPoolExecutor(40) as pool:
        assert list(pool.map(_brokers_of_one_of_many, range(120))) == [[7]] * 120


@pytest.mark.parametrize("lonely", [(1, float("inf"))], indirect=True)
def test_where_none_ever_does_that_is_said(lonely: Lonely) -> None:
    with pytest.raises(ClusterUnreachable) as caught:
        connect(lonely, 3.0)
    assert lonely.asked > 2
    assert "none of its brokers takes part" in caught.value.evidence
