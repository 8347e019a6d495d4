from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import replace
import json
from pathlib import Path
import re

import pytest
import yaml

from drkit.config import RepointSettings
from drkit.endpoint import Endpoint, parse_endpoint
from drkit.errors import ConfigError, DrkitError, Failed, NotAuthenticated, NotAuthorized
from drkit.kafka.security.settings import Tls
from drkit.repoint import Result, TryAgain, Way, adapters, tell_all
from drkit.repoint.configmap import ConfigMap, KubeAccess, find_access
from tests.support.errors import coded, sentence
from tests.support.repoint.api_server import ApiServer

STANDBY = Endpoint(5, "standby", "id-2", "s1:9092")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ApiServer]:
    made = ApiServer(tmp_path)
    yield made
    made.close()


def kube(server: ApiServer, who: str = "good", namespace: str = "shop", **more: str) -> ConfigMap:
    access = KubeAccess(server.url, namespace, Tls(ca_file=str(server.authority)), who)
    return ConfigMap(access, "kafka", namespace=None, key=more.get("key"), timeout_seconds=5.0)


def test_what_others_keep_in_it_stays(server: ApiServer):
    server.put("kafka", {"app.conf": "x=1"})
    server.maps["kafka"]["metadata"]["labels"] = {"app": "shop"}
    kube(server).tell(STANDBY)
    found = server.maps["kafka"]
    assert found["data"]["app.conf"] == "x=1"
    assert found["metadata"]["labels"] == {"app": "shop"}
    assert found["metadata"]["annotations"] == {"drkit/term": "5"}
    assert parse_endpoint(found["data"]["endpoint.json"]) == STANDBY


def test_a_change_between_reading_and_writing_is_seen(server: ApiServer):
    """The API server refuses with 409; in the second comparison the other's newer term wins."""
    kube(server).tell(replace(STANDBY, term=4))
    newer = replace(STANDBY, term=6, cluster="third")

    def meanwhile() -> None:
        server.before_write = lambda: None
        server.put("kafka", {"endpoint.json": newer.to_json()})

    server.before_write = meanwhile
    [outcome] = tell_all([Way(kube(server), 20.0)], STANDBY)
    assert outcome.result is Result.REFUSED
    assert parse_endpoint(server.maps["kafka"]["data"]["endpoint.json"]) == newer
    assert [r.split()[0] for r in server.requests] == ["GET", "POST", "GET", "PATCH", "GET"]


def test_two_who_create_it_at_once(server: ApiServer):
    def meanwhile() -> None:
        server.before_write = lambda: None
        server.put("kafka", {"other": "y"})

    server.before_write = meanwhile
    with pytest.raises(TryAgain, check=coded("configmap_conflict")):
        kube(server).tell(STANDBY)
    kube(server).tell(STANDBY)
    assert server.maps["kafka"]["data"].keys() == {"other", "endpoint.json"}


@pytest.mark.parametrize(
    ("token", "rights", "namespace", "kind", "evidence", "hint"),
    [
        ("none", set[str](), "shop", NotAuthenticated, "HTTP 401", "renew"),
        (
            "weak",
            {"patch"},
            "shop",
            NotAuthorized,
            'cannot get resource "configmaps"',
            "verb get on configmaps",
        ),
        ("weak", {"get"}, "shop", NotAuthorized, 'cannot create resource "configmaps"', "verb create"),
        ("good", {"get", "create"}, "nowhere", Failed, 'namespaces "nowhere" not found', "namespace nowhere"),
    ],
)
def test_refusals(
    server: ApiServer,
    token: str,
    rights: set[str],
    namespace: str,
    kind: type[DrkitError],
    evidence: str,
    hint: str,
):
    if rights:
        server.rights[token] = rights
    with pytest.raises(kind) as failed:
        kube(server, token, namespace).tell(STANDBY)
    assert evidence in failed.value.evidence
    assert hint in failed.value.hint
    assert not isinstance(failed.value, TryAgain)


def test_an_immutable_one_is_said(server: ApiServer):
    server.put("kafka", {"x": "y"}, immutable=True)
    with pytest.raises(Failed, match=sentence("configmap_refused", done="written")) as failed:
        kube(server).tell(STANDBY)
    assert "immutable" in failed.value.evidence


def test_another_content_under_the_key_is_left_alone(server: ApiServer):
    server.put("kafka", {"endpoint.json": "hello"})
    with pytest.raises(Failed, check=coded("configmap_foreign")) as failed:
        kube(server).tell(STANDBY)
    assert "another key" in failed.value.hint
    kube(server, key="drkit.json").tell(STANDBY)
    assert server.maps["kafka"]["data"]["endpoint.json"] == "hello"


def test_an_unknown_authority_is_not_trusted(server: ApiServer):
    access = KubeAccess(server.url, "shop", Tls(), "good")
    adapter = ConfigMap(access, "kafka", namespace=None, key=None, timeout_seconds=5.0)
    with pytest.raises(Failed, check=coded("certificate_untrusted")):
        adapter.tell(STANDBY)
    assert not server.requests


def kubeconfig(server: ApiServer, user: dict[str, object]) -> dict[str, object]:
    authority = base64.b64encode(server.authority.read_bytes()).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "us",
        "contexts": [
            {"name": "them", "context": {"cluster": "x", "user": "x"}},
            {"name": "us", "context": {"cluster": "c", "user": "drkit", "namespace": "shop"}},
        ],
        "clusters": [
            {"name": "c", "cluster": {"server": server.url, "certificate-authority-data": authority}}
        ],
        "users": [{"name": "drkit", "user": user}],
    }


@pytest.mark.parametrize("as_yaml", [True, False])
def test_by_a_kubeconfig(server: ApiServer, tmp_path: Path, *, as_yaml: bool):
    file = tmp_path / "config"
    (tmp_path / "token").write_text("good\n")
    content = kubeconfig(server, {"tokenFile": "token"})
    file.write_text(yaml.safe_dump(content) if as_yaml else json.dumps(content))
    settings = RepointSettings(kind="configmap", name="kafka", kubeconfig=str(file))
    [way] = adapters([settings])
    [outcome] = tell_all([way], STANDBY)
    assert (outcome.result, outcome.name) == (Result.CHANGED, "configmap shop/kafka")
    (tmp_path / "token").write_text("expired\n")
    [outcome] = tell_all([way], replace(STANDBY, term=6))
    assert isinstance(outcome.error, NotAuthenticated)


def test_by_the_service_account_of_a_pod(server: ApiServer, tmp_path: Path):
    account = tmp_path / "account"
    account.mkdir()
    for name, text in {"token": "good", "namespace": "shop", "ca.crt": server.authority.read_text()}.items():
        (account / name).write_text(text)
    port = server.url.rpartition(":")[2]
    env = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": port, "HOME": str(tmp_path)}
    access = find_access(None, env, account)
    ConfigMap(access, "kafka", namespace=None, key=None, timeout_seconds=5.0).tell(STANDBY)
    assert "kafka" in server.maps


@pytest.mark.parametrize(
    ("user", "evidence"),
    [
        ({"exec": {"command": "aws"}}, r"plugin \(exec\)"),
        ({"auth-provider": {"name": "gcp"}}, r"plugin \(auth-provider\)"),
        ({"client-certificate-data": "%"}, "not base64"),
        ({"client-certificate": "no.pem"}, "No such file"),
    ],
)
def test_kubeconfigs_that_cannot_be_used(
    server: ApiServer, tmp_path: Path, user: dict[str, object], evidence: str
):
    file = tmp_path / "config"
    file.write_text(json.dumps(kubeconfig(server, user)))
    settings = RepointSettings(kind="configmap", name="kafka", kubeconfig=str(file))
    [way] = adapters([settings])
    with pytest.raises(ConfigError) as unusable:
        way.adapter.current()
    assert re.search(evidence, unusable.value.evidence)
    [outcome] = tell_all([way], STANDBY)
    assert outcome.error is unusable.value


def test_no_way_at_all(tmp_path: Path):
    with pytest.raises(ConfigError, check=coded("no_kubernetes")) as failed:
        find_access(None, {"HOME": str(tmp_path)}, tmp_path)
    assert "kubeconfig" in failed.value.hint
