"""Every mechanism, on both clients, from one set of Kafka properties, against real brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
import shutil
from typing import Any, NamedTuple, cast

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
import pytest

from drkit.cli import main as cli
from drkit.config import ClusterSettings
from drkit.errors import ClusterUnreachable, ConfigError, DrkitError, NotAuthenticated
from drkit.kafka.admin import Cluster
from drkit.kafka.clients import confluent_config
from drkit.kafka.raw import EventLoop, RawCluster
from drkit.kafka.requests import metadata
from drkit.kafka.security.keystores import read_store
from drkit.local.cluster import LocalCluster, start_together
from drkit.local.spec import ClusterSpec
from tests.support.kafka.token_server import TokenServer
from tests.support.waiting import eventually

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
Client = dict[str, str]


class Guarded(NamedTuple):
    sasl: LocalCluster
    mutual: LocalCluster
    tokens: TokenServer

    def client(self, mechanism: str, user: str = "drkit") -> Client:
        """Properties as a Java client would have them."""
        base = self.sasl.client_properties(user, mechanism)
        secret = base.pop("sasl.password")
        del base["sasl.username"]
        if mechanism == "OAUTHBEARER":
            options = f'clientId="{user}" clientSecret="{secret}"'
            module = "oauthbearer.OAuthBearerLoginModule"
            base["sasl.oauthbearer.token.endpoint.url"] = self.tokens.url
            base["sasl.login.callback.handler.class"] = "org.apache.kafka.OAuthBearerLoginCallbackHandler"
        else:
            options = f'username="{user}" password="{secret}"'
            module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        base["sasl.jaas.config"] = f"org.apache.kafka.common.security.{module} required {options};"
        return base


@pytest.fixture(scope="module")
def guarded() -> Iterator[Guarded]:
    with ExitStack() as stack:
        sasl = LocalCluster(ClusterSpec("mechanisms", sasl=True, tls=True, mechanisms=MECHANISMS))
        mutual = LocalCluster(ClusterSpec("mutual", tls=True, client_auth=True, authorizer=True))
        for each in (sasl, mutual):
            stack.callback(each.stop)
        start_together(sasl, mutual)
        tokens = stack.enter_context(TokenServer(dict(sasl.spec.users)))
        yield Guarded(sasl, mutual, tokens)


def ordinary(settings: ClusterSettings) -> str:
    """The cluster's id by confluent-kafka."""
    return Cluster.connect(settings, timeout_seconds=4).cluster_id


def raw(settings: ClusterSettings) -> str:
    """A topic's error by the raw plane, as proof that a request was answered."""
    loop = EventLoop()
    try:
        cluster = RawCluster(loop, settings, "test")

        async def ask() -> str:
            await cluster.connect(timeout_ms=600)
            return str((await metadata(cluster, ["there-is-no-such-topic"]))["there-is-no-such-topic"].error)

        found: str = loop.run(ask)
        cluster.close()
        return found
    finally:
        loop.close()


both = pytest.mark.parametrize("plane", [ordinary, raw])


def settings(cluster: LocalCluster, client: Client, role: str = "CLIENT") -> ClusterSettings:
    return ClusterSettings(alias="x", bootstrap_servers=cluster.bootstrap(role), client=client)


def refused(
    plane: Callable[[ClusterSettings], str], kind: type[DrkitError], where: ClusterSettings
) -> DrkitError:
    with pytest.raises(kind) as caught:
        plane(where)
    assert caught.value.hint
    for secret in ("wrong-secret", "drkit-password"):
        assert secret not in str(caught.value.as_dict())
    return caught.value


@pytest.mark.wide
@both
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_each_mechanism_connects(guarded: Guarded, plane, mechanism: str):
    """P25: every SASL mechanism, on both clients."""
    found = plane(settings(guarded.sasl, guarded.client(mechanism)))
    assert found == (guarded.sasl.cluster_id if plane is ordinary else "3")


@pytest.mark.wide
@both
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_secret_is_refused(guarded: Guarded, plane, mechanism: str):
    client = guarded.client(mechanism)
    client["sasl.jaas.config"] = client["sasl.jaas.config"].replace("drkit-password", "wrong-secret")
    error = refused(plane, NotAuthenticated, settings(guarded.sasl, client))
    assert error.code in {"credentials_refused", "no_token"}


@pytest.mark.wide
def test_a_user_name_that_scram_escapes(guarded: Guarded):
    """Commas and equals signs separate the parts of SCRAM's messages; kafka-python sends them as they are."""
    user, mechanism = "a,b=c", "SCRAM-SHA-512"
    admin = AdminClient(confluent_config(settings(guarded.sasl, guarded.client(mechanism))))
    added = UserScramCredentialUpsertion(
        user, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), b"drkit-password"
    )
    admin.alter_user_scram_credentials([added])[user].result(30)
    described = cast("Callable[[], Future[Any]]", admin.describe_user_scram_credentials)
    eventually(lambda: user in described().result(30), what="the user")
    client = guarded.client(mechanism)
    client["sasl.jaas.config"] = client["sasl.jaas.config"].replace('username="drkit"', f'username="{user}"')
    assert user in client["sasl.jaas.config"]
    for plane in (ordinary, raw):
        assert plane(settings(guarded.sasl, client))


@pytest.mark.wide
def test_a_mechanism_that_is_not_enabled(cluster_factory):  # the other plane: test_connect.py
    only = cluster_factory("only-plain", sasl=True, mechanisms=("PLAIN",))
    client = only.client_properties("drkit", "SCRAM-SHA-512")
    error = refused(raw, NotAuthenticated, settings(only, client))
    assert "offered: PLAIN" in error.evidence


@pytest.mark.wide
@both
def test_a_token_endpoint_that_is_not_there(guarded: Guarded, plane):
    client = guarded.client("OAUTHBEARER") | {"sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/t"}
    error = refused(plane, NotAuthenticated, settings(guarded.sasl, client))
    assert error.code in {"no_token", "credentials_refused"}


@pytest.mark.wide
@both
@pytest.mark.parametrize("kind", ["JKS", "PKCS12", "PEM", "PEM text"])
def test_a_client_certificate(guarded: Guarded, plane, kind: str, tmp_path: Path):
    """P25: mutual TLS, on both clients."""
    if "PKCS12" in kind:
        pytest.importorskip("cryptography")
    store = "PKCS12" if kind == "PKCS12" else "JKS"
    client = guarded.mutual.client_properties("drkit") | guarded.mutual.certificate_properties(
        "drkit", kind=store
    )
    if "PEM" in kind:
        found = read_store(client["ssl.keystore.location"], client["ssl.keystore.password"])
        client = {k: v for k, v in client.items() if "keystore" not in k and k != "ssl.key.password"}
        client["ssl.keystore.type"] = "PEM"
        if kind == "PEM":
            (tmp_path / "client.pem").write_text(found.key + found.chain)
            client["ssl.keystore.location"] = str(tmp_path / "client.pem")
        else:
            client |= {"ssl.keystore.key": found.key, "ssl.keystore.certificate.chain": found.chain}
    assert plane(settings(guarded.mutual, client)) in {guarded.mutual.cluster_id, "29"}


@pytest.mark.wide
@both
def test_a_java_truststore(guarded: Guarded, plane):
    # The brokers' own store: one with a key in it names authorities all the same.
    pytest.importorskip("cryptography")
    client = guarded.client("PLAIN") | {
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": str(guarded.sasl.folder / "broker.p12"),
        "ssl.truststore.password": "local-cluster",
    }
    assert plane(settings(guarded.sasl, client))


@pytest.mark.wide
def test_only_the_first_certificate_of_a_key_is_trusted(guarded: Guarded):
    # As in Java: an issuer in a client's key store does not become an authority.
    client = guarded.mutual.client_properties("drkit")
    found = read_store(client["ssl.keystore.location"], client["ssl.keystore.password"])
    assert found.chain.count("BEGIN CERTIFICATE") == 2
    assert found.authorities.count("BEGIN CERTIFICATE") == 1
    authority = Path(client["ssl.truststore.location"]).read_text()
    assert "".join(authority.split("-----")[2].split()) not in "".join(found.authorities.split())


@pytest.mark.wide
def test_mirror_maker_2s_documented_properties_work_unchanged(
    guarded: Guarded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    # Kafka's documentation, "Geo-replication": key stores without a type, passwords, and SASL by JAAS.
    pytest.importorskip("cryptography")
    shutil.copy(guarded.mutual.folder / "broker.p12", tmp_path / "truststore.jks")
    own = guarded.mutual.client_properties()
    sasl = guarded.client("PLAIN")
    west = {
        "bootstrap.servers": guarded.mutual.bootstrap(),
        "security.protocol": "SSL",
        "ssl.truststore.location": str(tmp_path / "truststore.jks"),
        "ssl.truststore.password": "local-cluster",
        "ssl.keystore.location": own["ssl.keystore.location"],
        "ssl.keystore.password": own["ssl.keystore.password"],
        "ssl.key.password": own["ssl.key.password"],
    }
    east = {"bootstrap.servers": guarded.sasl.bootstrap(), **sasl}
    file = tmp_path / "mm2.properties"
    lines = [f"{a}.{k} = {v}" for a, c in (("us-west", west), ("us-east", east)) for k, v in c.items()]
    head = "clusters = us-west, us-east\nus-west->us-east.enabled = true\nus-east->us-west.enabled = false\n"
    file.write_text(head + "\n".join(lines) + "\n")
    assert cli.run(["config", "check", "--connect", "--config", str(file)]) == 0, capsys.readouterr().err
    assert guarded.mutual.cluster_id in capsys.readouterr().out
    assert cli.run(["config", "show", "--config", str(file)]) == 0
    shown = capsys.readouterr().out
    assert "drkit-password" not in shown
    assert "local-cluster" not in shown


@pytest.mark.wide
def test_kerberos_without_its_libraries_is_said():
    """P25: Kerberos names the library that it lacks."""
    client = {"security.protocol": "SASL_PLAINTEXT", "sasl.kerberos.service.name": "kafka"}
    for plane in (ordinary, raw):
        if plane is raw and find_spec("gssapi"):
            continue
        with pytest.raises(ConfigError) as caught:
            plane(ClusterSettings(alias="x", bootstrap_servers="127.0.0.1:1", client=client))
        assert "erberos" in f"{caught.value}: {caught.value.hint}"


@pytest.mark.wide
@both
@pytest.mark.parametrize("days", [None, (-10, -5)], ids=["missing", "expired"])
def test_a_certificate_the_brokers_do_not_take(guarded: Guarded, plane, days: tuple[int, int] | None):
    client = guarded.mutual.client_properties("drkit")
    client = {k: v for k, v in client.items() if "keystore" not in k and k != "ssl.key.password"}
    if days:
        client |= guarded.mutual.certificate_properties("drkit", valid_days=days)
    error = refused(plane, NotAuthenticated, settings(guarded.mutual, client))
    assert "refused the TLS connection" in error.what
    assert "certificate" in error.evidence.lower()
    assert "ssl.keystore.location" in error.hint


@pytest.mark.wide
@both
def test_a_certificate_of_another_authority(guarded: Guarded, plane):
    client = guarded.mutual.client_properties("drkit")
    client |= guarded.sasl.certificate_properties("drkit")
    refused(plane, NotAuthenticated, settings(guarded.mutual, client))


@pytest.mark.wide
@both
def test_an_authority_that_did_not_sign_the_brokers(guarded: Guarded, plane):
    client = guarded.client("PLAIN") | {
        "ssl.truststore.location": guarded.mutual.client_properties()["ssl.truststore.location"]
    }
    assert "not trusted" in refused(plane, NotAuthenticated, settings(guarded.sasl, client)).what


@pytest.mark.wide
@both
def test_plain_text_to_tls_and_back(guarded: Guarded, plane, source: LocalCluster):
    client = guarded.client("PLAIN")
    plain = client | {"security.protocol": "SASL_PLAINTEXT"}
    assert "speaks TLS" in refused(plane, ClusterUnreachable, settings(guarded.sasl, plain)).what
    tls = client | {"security.protocol": "SSL"}
    assert "speaks plain text" in refused(plane, ClusterUnreachable, settings(source, tls)).what


@pytest.mark.wide
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ssl.keystore.password": "wrong-secret"}, "password is wrong"),
        ({"ssl.key.password": "wrong-secret"}, "key's password is wrong"),
        ({"ssl.keystore.location": "/nowhere.jks"}, "No such file"),
        ({"ssl.keystore.location": __file__}, "neither JKS, PKCS #12 nor PEM"),
        ({"ssl.keystore.type": "BKS"}, "not one of JKS, PKCS12, PEM"),
    ],
)
def test_a_store_that_cannot_be_read(guarded: Guarded, change: Client, words: str):
    client = guarded.mutual.client_properties("drkit") | change
    with pytest.raises(ConfigError, match=words) as caught:
        ordinary(settings(guarded.mutual, client))
    assert "wrong-secret" not in str(caught.value.as_dict())


@pytest.mark.wide
def test_a_damaged_store(guarded: Guarded, tmp_path: Path):
    client = guarded.mutual.client_properties("drkit")
    damaged = tmp_path / "damaged.jks"
    shutil.copy(client["ssl.keystore.location"], damaged)
    damaged.write_bytes(damaged.read_bytes()[:-40])
    client |= {"ssl.keystore.location": str(damaged)}
    with pytest.raises(ConfigError, match="cannot be read"):
        ordinary(settings(guarded.mutual, client))
