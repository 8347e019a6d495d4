"""Addresses that only a note names: a server there learns no more than that it is asked."""

from __future__ import annotations

from collections.abc import Iterator
import socket
import struct
import threading

import pytest

from drkit.config import ClusterSettings
from drkit.config.tables.detection import DetectionSettings
from drkit.detect.awake import AwakeClock
from drkit.detect.note_kinds import KnownBrokers
from drkit.detect.probes import OWN, Met, Probes
from drkit.detect.seen import Address, Probe, ProbeOutcome
from drkit.local.ports import PortReservation
from tests.support.waiting import eventually

API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE = 18, 17, 36
SECRET = b"SOURCE-ADMIN-PW"


class Listener:
    """Speaks enough of Kafka's protocol to be given a password, and keeps all that it receives."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self.asked: list[int] = []
        self.received = b""
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, client.makefile("rb") as stream:
            while len(head := stream.read(4)) == 4:
                message = stream.read(struct.unpack(">i", head)[0])
                self.received += message
                key, version, correlation = struct.unpack_from(">hhi", message)
                self.asked.append(key)
                answer = struct.pack(">i", correlation) + self._answer(key, version)
                client.sendall(struct.pack(">i", len(answer)) + answer)

    def _answer(self, key: int, version: int) -> bytes:
        if key == API_VERSIONS:
            keys = ((18, 0, 0), (17, 1, 1), (36, 0, 1), (3, 1, 8))
            code = 0 if version == 0 else 35
            return struct.pack(">hi", code, len(keys)) + b"".join(struct.pack(">hhh", *k) for k in keys)
        if key == SASL_HANDSHAKE:
            return struct.pack(">hi", 0, 1) + struct.pack(">h", 5) + b"PLAIN"
        return struct.pack(">hhi", 58, -1, 0)

    def close(self) -> None:
        self._server.close()


@pytest.fixture
def listener() -> Iterator[Listener]:
    found = Listener()
    yield found
    found.close()


def probes_of(bootstrap: str, seconds: float = 0.05, **client: str) -> Probes:
    properties = {
        "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "drkit",
        "sasl.password": SECRET.decode(), **client,
    }  # fmt: skip
    cluster = ClusterSettings(alias="primary", bootstrap_servers=bootstrap, client=properties)
    quick = DetectionSettings(probe_interval_seconds=seconds, probe_timeout_seconds=1.0)
    return Probes({OWN: cluster}, quick, AwakeClock())


def test_an_address_of_a_note_gets_no_credentials_until_a_broker_names_it(listener: Listener):
    with PortReservation() as ports:
        ours = Address(OWN, f"127.0.0.1:{ports.reserve()}")
        forged = Address(OWN, listener.address, 77)
        probes = probes_of(ours.server)
        probes.start()
        try:
            probes.remember([KnownBrokers("abc", (forged,))])
            eventually(lambda: listener.asked.count(API_VERSIONS) >= 3, what="probes of the address")
            assert set(listener.asked) == {API_VERSIONS}
            assert SECRET not in listener.received
            told = probes.newest()[forged]
            assert told is not None
            assert told.outcome is ProbeOutcome.UNCONFIRMED
            assert probes.cluster_id is None, "the id in a note does not count"
            assert probes.known().brokers == (forged,), "for an observer that starts later"

            # What is in no note any more is forgotten; what a broker names is an address like any other.
            probes.remember([KnownBrokers("abc", ())])
            assert forged not in probes.newest()
            probes._heard(ours, Probe(ProbeOutcome.ANSWERS, 1.0, 1.1), Met("abc", ((77, listener.address),)))
            eventually(lambda: SECRET in listener.received, what="the credentials")
            assert {SASL_HANDSHAKE, SASL_AUTHENTICATE} <= set(listener.asked)
        finally:
            probes.stop()


def test_a_broker_that_a_note_places_at_a_bootstrap_server_is_as_that_server_is():
    """Each server is shown once, and the wrong id in a note does not keep the server from being asked."""
    with PortReservation() as ports:
        ours = Address(OWN, f"127.0.0.1:{ports.reserve()}")
        probes = probes_of(ours.server, seconds=60.0)
        probes.start()
        try:
            eventually(lambda: probes.newest()[ours], what="a probe")
            noted = ours._replace(broker=98)
            probes.remember([KnownBrokers("abc", (noted, ours._replace(broker=99)))])
            assert set(probes.newest()) == {noted}
            probes._heard(ours, Probe(ProbeOutcome.ANSWERS, 1.0, 1.1), None)
            assert probes.newest()[noted] == Probe(ProbeOutcome.ANSWERS, 1.0, 1.1)
            probes._heard(ours, Probe(ProbeOutcome.ANSWERS, 1.0, 1.2), Met("abc", ((7, ours.server),)))
            assert set(probes.newest()) == {ours._replace(broker=7)}
        finally:
            probes.stop()


def test_notes_of_another_cluster_and_of_brokers_that_never_were_count_for_nothing():
    with PortReservation() as ports:
        servers = [f"127.0.0.1:{ports.reserve()}" for _ in range(3)]
        probes = probes_of(servers[0])
        probes.expect("abc")
        probes._brokers_listed = frozenset({1})
        try:
            mine, gone = Address(OWN, servers[1], 1), Address(OWN, servers[2], 2)
            probes.remember([KnownBrokers("another", (mine,))])
            assert not probes.newest()
            probes.remember([KnownBrokers("abc", (mine, gone, Address("unknown", servers[2], 1)))])
            assert set(probes.newest()) == {mine}
        finally:
            probes.stop()


@pytest.mark.parametrize(
    ("client", "logs_in"),
    [
        ({"security.protocol": "SASL_SSL", "ssl.truststore.certificates": "PEM"}, True),
        ({"security.protocol": "SSL", "ssl.truststore.certificates": "PEM"}, True),
        ({"security.protocol": "SASL_SSL"}, False),
        (
            {
                "security.protocol": "SASL_SSL",
                "ssl.truststore.certificates": "PEM",
                "ssl.endpoint.identification.algorithm": "none",
            },
            False,
        ),
        (
            {
                "security.protocol": "SASL_SSL",
                "ssl.truststore.certificates": "PEM",
                "enable.ssl.certificate.verification": "false",
            },
            False,
        ),
        ({"security.protocol": "PLAINTEXT"}, False),
        ({"security.protocol": "SASL_SSL", "ssl.truststore.location": "no-such-file.jks"}, False),
    ],
)
def test_only_an_authority_of_our_own_proves_a_name(client: dict[str, str], *, logs_in: bool):
    probes = probes_of("h:1", 60.0, **client)
    address = Address(OWN, "broker:1", 1)
    assert probes._logs_in(address), "named by no note"
    probes._from_notes.add(address)
    assert probes._logs_in(address) == logs_in
