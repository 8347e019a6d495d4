from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator
import hashlib
import hmac
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.util import find_spec
import json
from pathlib import Path
import re
import ssl
import threading
from typing import Any, ClassVar

from confluent_kafka.admin import AdminClient
from kafka.net.sasl import SaslMechanismScram, get_sasl_mechanism
import pytest

from drkit.config import ClusterSettings
from drkit.errors import ConfigError, NotAuthenticated
from drkit.kafka.clients import confluent_config, raw_config
from drkit.kafka.reading.signed_log import log_producer
from drkit.kafka.security.oauth import ClientCredentials
from drkit.kafka.security.settings import OAuth, parse_jaas, read_security
from tests.support.errors import coded, sentence

SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="p;\\"=x";'


def cluster(**client: str) -> ClusterSettings:
    named = {key.replace("_", "."): value for key, value in client.items()}
    return ClusterSettings(alias="a", bootstrap_servers="h1:1,h2:2", client=named)


def test_plaintext():
    settings = cluster(client_id="me", request_timeout_ms="5000", send_buffer_bytes="33554432")
    confluent, raw = confluent_config(settings), raw_config(settings)
    assert confluent["bootstrap.servers"] == "h1:1,h2:2"
    assert confluent["security.protocol"] == raw["security_protocol"] == "PLAINTEXT"
    assert (confluent["client.id"], confluent["socket.timeout.ms"]) == ("me", "5000")
    assert raw["bootstrap_servers"] == ["h1:1", "h2:2"]
    assert raw["request_timeout_ms"] == 5000
    assert any(option[2] == 33554432 for option in raw["socket_options"])
    assert confluent["socket.send.buffer.bytes"] == "33554432"


@pytest.mark.parametrize(
    "client",
    [
        {"request.timeout.ms": "30000"},
        {"acks": "1"},
        {"message.timeout.ms": "1", "delivery.timeout.ms": "900000"},
        {"enable.idempotence": "false"},
        {"max.in.flight": "50", "max.in.flight.requests.per.connection": "50"},
        {"queuing.strategy": "lifo"},
        {"retries": "0", "message.send.max.retries": "0"},
    ],
)
def test_a_cluster_s_properties_do_not_forbid_transactions_of_drkit(client: dict[str, str]):
    settings = ClusterSettings(alias="a", bootstrap_servers="h:1", client=client)
    limits = dict.fromkeys(("transaction.timeout.ms", "message.timeout.ms"), 10_000)
    log_producer(settings, {"transactional.id": "x", **limits})  # librdkafka raises what it refuses


@pytest.mark.parametrize(
    "client",
    [
        {"sasl.username": "u", "sasl.password": 'p;"=x'},
        {"sasl.jaas.config": SCRAM},
        {"sasl.jaas.config": SCRAM.replace('"u"', "'u'")},
    ],
)
def test_scram_by_either_spelling(client: dict[str, str]):
    settings = ClusterSettings(
        alias="a",
        bootstrap_servers="h:1",
        client={"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512", **client},
    )
    confluent, raw = confluent_config(settings), raw_config(settings)
    assert (confluent["sasl.username"], confluent["sasl.password"]) == ("u", 'p;"=x')
    assert (raw["sasl_plain_username"], raw["sasl_plain_password"]) == ("u", 'p;"=x')
    assert raw["sasl_mechanism"] == confluent["sasl.mechanism"] == "SCRAM-SHA-512"
    assert "sasl.jaas.config" not in confluent
    AdminClient({**confluent, "log_level": 0})  # librdkafka knows every name


class ScramServer:
    """The broker's side of SCRAM-SHA-256 (RFC 5802), for the passwords of its users."""

    def __init__(self, users: dict[str, str], iterations: int = 4096) -> None:
        self._users, self._iterations = users, iterations

    def log_in(self, client: SaslMechanismScram, *, forged: bool = False) -> str:
        """Let a client log in; returns the name of the user.

        :raises ValueError: the client refuses the answers
        """
        bare = client.auth_bytes().decode().removeprefix("n,,")
        name, nonce = re.fullmatch("n=((?:[^=,]|=2C|=3D)+),r=([^,]+)", bare).groups()  # type: ignore[union-attr]
        name = name.replace("=2C", ",").replace("=3D", "=")
        first = f"r={nonce}s,s={b64encode(b'salt').decode()},i={self._iterations}"
        client.receive(first.encode())
        final, proof = client.auth_bytes().decode().split(",p=")
        salted = hashlib.pbkdf2_hmac("sha256", self._users[name].encode(), b"salt", self._iterations)
        told = f"{bare},{first},{final}".encode()
        client_key, server_key = (hmac.digest(salted, k, "sha256") for k in (b"Client Key", b"Server Key"))
        signature = hmac.digest(hashlib.sha256(client_key).digest(), told, "sha256")
        assert bytes(a ^ b for a, b in zip(client_key, signature, strict=True)) == b64decode(proof)
        verifier = hmac.digest(server_key, b"" if forged else told, "sha256")
        client.receive(b"v=" + b64encode(verifier))
        assert client.is_authenticated()
        return name


def scram(user: str) -> SaslMechanismScram:
    settings = cluster(
        security_protocol="SASL_SSL", sasl_mechanism="SCRAM-SHA-256", sasl_username=user, sasl_password="p=,"
    )
    return get_sasl_mechanism("SCRAM-SHA-256")(**raw_config(settings))


@pytest.mark.parametrize("user", ["u", "a,b=c", "=2C", "x,r=y", "ü"])
def test_any_user_logs_in_by_scram_and_knows_the_broker(user: str):
    assert ScramServer({user: "p=,"}).log_in(scram(user)) == user
    with pytest.raises(ValueError, match="wrong signature"):
        ScramServer({user: "p=,"}).log_in(scram(user), forged=True)


def test_plain_has_no_escapes():
    settings = cluster(
        security_protocol="SASL_SSL", sasl_mechanism="PLAIN", sasl_username="a,b=c", sasl_password="p"
    )
    assert raw_config(settings)["sasl_plain_username"] == "a,b=c"


def test_a_broker_chooses_how_slow_a_guess_at_the_password_is():
    """Without TLS, who poses as a broker can ask for one iteration (docs/explanation/threat-model.md)."""
    assert ScramServer({"u": "p=,"}, iterations=1).log_in(scram("u")) == "u"
    with pytest.raises(ValueError, match="too large"):
        ScramServer({"u": "p=,"}, iterations=1_000_001).log_in(scram("u"))


def test_secrets_stay_out_of_representations():
    settings = cluster(
        security_protocol="SASL_SSL", sasl_mechanism="PLAIN", sasl_username="u", sasl_password="top-secret"
    )
    assert "top-secret" not in repr(read_security(settings))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('Module required username="u"', "semicolon"),
        ('required username="u";', "begin"),
        ('Module required username="u" password;', "options"),
        ('Module required username="u;', "quotation"),
        ("", "semicolon"),
    ],
)
def test_jaas_that_cannot_be_read(text: str, why: str):
    with pytest.raises(ValueError, match=why):
        parse_jaas(text)


def test_jaas_for_kerberos():
    """P25: Kerberos settings reach both clients."""
    settings = cluster(
        security_protocol="SASL_PLAINTEXT",
        sasl_kerberos_service_name="broker",
        sasl_jaas_config='com.sun.Krb5LoginModule required useKeyTab=true keyTab="/k" principal="d@X";',
    )
    confluent = confluent_config(settings)
    assert confluent["sasl.mechanism"] == "GSSAPI"
    assert confluent["sasl.kerberos.keytab"] == "/k"
    assert confluent["sasl.kerberos.principal"] == "d@X"
    if find_spec("gssapi"):
        assert raw_config(settings)["sasl_kerberos_service_name"] == "broker"
    else:
        with pytest.raises(ConfigError) as caught:
            raw_config(settings)
        assert "gssapi>=1.8,<2" in caught.value.hint


@pytest.mark.parametrize(
    ("client", "what"),
    [
        ({"security_protocol": "TLS"}, "security.protocol"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "DIGEST-MD5"}, "sasl.mechanism"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}, "needs sasl.username"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}, "token.endpoint.url"),
        ({"security_protocol": "SASL_SSL", "sasl_jaas_config": "x"}, "sasl.jaas.config"),
        ({"security_protocol": "SSL", "ssl_truststore_location": "/a.jks"}, "Java truststore"),
        (
            {"security_protocol": "SSL", "ssl_keystore_location": "/a", "ssl_keystore_type": "PKCS12"},
            "Java keystore /a cannot be read: No such file",
        ),
        (
            {"request_timeout_ms": "soon"},
            sentence("client_property_not_a_number", key="request.timeout.ms", value="soon"),
        ),
        (
            {
                "security_protocol": "SSL",
                "ssl_truststore_location": "/nowhere.pem",
                "ssl_truststore_type": "PEM",
            },
            sentence("certificate_unusable"),
        ),
    ],
)
def test_what_cannot_be_is_refused(client: dict[str, str], what: str):
    with pytest.raises(ConfigError, match=what) as caught:
        raw_config(cluster(**client))
    assert caught.value.where == "clusters.a.client"


def test_tls_without_verification():
    settings = cluster(security_protocol="SSL", enable_ssl_certificate_verification="false")
    context = raw_config(settings)["ssl_context"]
    assert context.verify_mode == ssl.CERT_NONE
    assert confluent_config(settings)["enable.ssl.certificate.verification"] is False


def test_tls_without_host_names():
    settings = cluster(security_protocol="SSL", ssl_endpoint_identification_algorithm="")
    context = raw_config(settings)["ssl_context"]
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, False)
    assert confluent_config(settings)["ssl.endpoint.identification.algorithm"] == "none"


@pytest.mark.parametrize("said", ["true", "htps", "off"])
def test_a_misspelt_check_of_host_names_is_refused_and_never_switched_off(said: str):
    settings = cluster(security_protocol="SSL", ssl_endpoint_identification_algorithm=said)
    for config in (raw_config, confluent_config):
        with pytest.raises(ConfigError, match=r"ssl\.endpoint\.identification\.algorithm"):
            config(settings)


def test_java_only_properties_do_no_harm():
    confluent = confluent_config(
        cluster(ssl_protocol="TLSv1.3", key_deserializer="x", security_providers="y")
    )
    assert not {"ssl.protocol", "key.deserializer", "security.providers"} & set(confluent)


class _Endpoint(BaseHTTPRequestHandler):
    answer: ClassVar[tuple[int, Any]] = (200, {"access_token": "t", "expires_in": 100})
    asked: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.asked.append(f"{self.headers['Authorization']} {body}")
        self.send_response(self.answer[0])
        self.end_headers()
        self.wfile.write(json.dumps(self.answer[1]).encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def endpoint() -> Iterator[str]:
    _Endpoint.answer, _Endpoint.asked = (200, {"access_token": "t", "expires_in": 100}), []
    with HTTPServer(("127.0.0.1", 0), _Endpoint) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/token"
        server.shutdown()
        thread.join()


def test_a_token_is_used_while_it_is_fresh(endpoint: str):
    now = 0.0
    provider = ClientCredentials(OAuth(endpoint, "id", "secret", scope="kafka"), "a", clock=lambda: now)
    assert (provider.token(), provider.token()) == ("t", "t")
    assert _Endpoint.asked == ["Basic aWQ6c2VjcmV0 grant_type=client_credentials&scope=kafka"]
    now = 81.0
    provider.token()
    assert len(_Endpoint.asked) == 2


@pytest.mark.parametrize("answer", [(401, {}), (200, {"token": 1}), (200, [])])
def test_no_token(endpoint: str, answer: tuple[int, Any]):
    _Endpoint.answer = answer
    with pytest.raises(NotAuthenticated) as caught:
        ClientCredentials(OAuth(endpoint, "id", "top-secret"), "a").token()
    assert "top-secret" not in str(caught.value.as_dict())


def test_oauth_settings(endpoint: str):
    settings = cluster(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauthbearer_token_endpoint_url=endpoint,
        sasl_jaas_config='X required clientId="id" clientSecret="s" scope="sc";',
    )
    assert raw_config(settings)["sasl_oauth_token_provider"].token() == "t"
    confluent = confluent_config(settings)
    assert confluent["sasl.oauthbearer.method"] == "oidc"
    assert confluent["sasl.oauthbearer.client.id"] == "id"
    AdminClient({**confluent, "log_level": 0})


def test_a_token_endpoint_must_be_http(tmp_path: Path):
    with pytest.raises(ConfigError, check=coded("token_endpoint_malformed")):
        ClientCredentials(OAuth(f"file://{tmp_path}", "id", "s"), "a")
