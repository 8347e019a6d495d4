"""An endpoint file says where a cluster is; its writer gets nothing else from an application."""

from __future__ import annotations

from dataclasses import replace
import logging
from pathlib import Path
from typing import Any

import pytest

from drkit.client.switch import EndpointWatch, configuration, why_not
from drkit.endpoint import Endpoint
from drkit.errors import ConfigError
from tests.support.errors import coded

PRIMARY = Endpoint(1, "primary", "id-1", "p:9092", {"security.protocol": "SASL_SSL"})
STANDBY = Endpoint(2, "standby", "id-2", "s:9092", {"security.protocol": "SASL_SSL"})


def changed(**client: str) -> Endpoint:
    return replace(STANDBY, client={**STANDBY.client, **{k.replace("_", "."): v for k, v in client.items()}})


@pytest.mark.parametrize(
    ("endpoint", "reason"),
    [
        (changed(plugin_library_paths="evil.so"), "plugin.library.paths"),
        (changed(ssl_engine_location="evil.so"), "ssl.engine.location"),
        (changed(sasl_oauthbearer_token_endpoint_url="http://e"), "sasl.oauthbearer.token.endpoint.url"),
        (changed(group_id="another"), "group.id"),
        (changed(enable_ssl_certificate_verification="false"), "may not switch that check off"),
        (changed(ssl_endpoint_identification_algorithm="none"), "may not switch that check off"),
        (changed(ssl_endpoint_identification_algorithm=""), "may not switch that check off"),
        (changed(security_protocol="SASL_PLAINTEXT"), "travel in clear"),
        (replace(STANDBY, client={}), "travel in clear"),
        (replace(STANDBY, cluster_id=""), "names no cluster_id"),
        (replace(STANDBY, cluster_id="id\x00"), "cannot be printed"),
        (replace(STANDBY, cluster=""), "names no cluster"),
        (replace(STANDBY, term=-1), "its term"),
        (replace(STANDBY, term=2**53 + 1), "its term"),
        (replace(STANDBY, bootstrap_servers=""), "host names"),
        (replace(STANDBY, bootstrap_servers="s:9092\ud800"), "host names"),
        (replace(STANDBY, bootstrap_servers="$(reboot):9092"), "host names"),
        (replace(STANDBY, bootstrap_servers="s:9092\n"), "host names"),
        (replace(STANDBY, topics={"orders": "^.*"}), "'^.*', which no topic"),
        (replace(STANDBY, topics={"orders": ""}), "which no topic"),
        (replace(STANDBY, topics={"orders": ".."}), "which no topic"),
        (replace(STANDBY, topics={"^a": "b"}), "which no topic"),
        (replace(STANDBY, topics={"a": "c", "b": "c"}), "the same name"),
        (changed(client_rack="b\x00"), "cannot be printed"),
        (changed(ssl_ca_pem="-----BEGIN\x00"), "cannot be printed"),
        (replace(STANDBY, client={"Security.Protocol": "SSL"}), "may not set Security.Protocol"),
        (replace(STANDBY, client={"security_protocol": "SSL"}), "may not set security_protocol"),
        (replace(STANDBY, client={"metadata.broker.list": "e:1"}), "may not set metadata.broker.list"),
        (changed(security_protocol="SSL "), "travel in clear"),
        (changed(ssl_cipher_suites="eNULL:@SECLEVEL=0"), "lower the level"),
        (changed(ssl_sigalgs_list="RSA+MD5:@seclevel=0"), "lower the level"),
        (changed(sasl_mechanism="SCRAM-SHA-512", sasl_mechanisms="PLAIN"), "to different values"),
        (changed(sasl_kerberos_service_name="kafka;reboot"), "no service"),
    ],
)
def test_what_an_endpoint_may_not_say(endpoint: Endpoint, reason: str) -> None:
    assert reason in why_not(endpoint, {}, PRIMARY)


@pytest.mark.parametrize(
    "endpoint",
    [
        STANDBY,
        changed(security_protocol="ssl"),
        changed(sasl_mechanism="SCRAM-SHA-512", client_dns_lookup="use_all_dns_ips", client_rack="b"),
        changed(ssl_ca_pem="-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"),
        changed(ssl_cipher_suites="ECDHE+AESGCM:!aNULL:@STRENGTH"),
        replace(STANDBY, bootstrap_servers="s_1.example:9092, [fe80::1%eth0]:9092"),
        replace(STANDBY, topics={"a": "b", "b": "c"}),
        replace(STANDBY, term=0),
        changed(ssl_endpoint_identification_algorithm="https", enable_ssl_certificate_verification="true"),
    ],
)
def test_where_a_cluster_is_may_be_said(endpoint: Endpoint) -> None:
    assert not why_not(endpoint, {}, PRIMARY)


def test_an_application_may_name_its_protocol_itself() -> None:
    clear = replace(STANDBY, client={})
    assert not why_not(clear, {"security.protocol": "PLAINTEXT"}, PRIMARY)


def test_an_application_that_has_settings_of_tls_is_never_led_to_clear_text() -> None:
    """Also at its start, when there is no earlier endpoint to compare with."""
    clear, own = replace(PRIMARY, client={}), {"ssl.ca.location": "/etc/ca.pem"}
    assert "the application sets ssl.ca.location" in why_not(clear, own)
    assert not why_not(PRIMARY, own)
    assert not why_not(clear, {**own, "security.protocol": "PLAINTEXT"})


def test_a_password_that_was_proven_is_not_sent_in_clear() -> None:
    def over(mechanism: str, protocol: str = "SASL_PLAINTEXT") -> Endpoint:
        return changed(security_protocol=protocol, sasl_mechanisms=mechanism)

    scram, plain = over("SCRAM-SHA-512"), over("PLAIN")
    assert "the password would travel in clear" in why_not(plain, {}, scram)
    assert not why_not(scram, {}, plain)
    assert not why_not(plain, {}, plain)
    assert not why_not(plain, {"sasl.mechanism": "PLAIN"}, scram)
    assert not why_not(over("PLAIN", "SASL_SSL"), {}, over("SCRAM-SHA-512", "SASL_SSL"))
    assert "in clear" in why_not(over("PLAIN", "SSL"), {"security.protocol": "SASL_PLAINTEXT"}, scram)


def test_the_applications_own_mechanism_and_authorities_win_by_any_of_their_names() -> None:
    """librdkafka takes the last of two mechanisms, and trusts two authorities together."""
    found = changed(
        sasl_mechanism="PLAIN", sasl_mechanisms="PLAIN", ssl_ca_pem="of the file", client_rack="b"
    )
    own = {"sasl.mechanism": "SCRAM-SHA-512", "ssl.ca.location": "/etc/ca.pem"}
    made = configuration(own, {}, found)
    assert {name: made.get(name) for name in ("sasl.mechanism", "sasl.mechanisms")} == {
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.mechanisms": None,
    }
    assert "ssl.ca.pem" not in made
    assert made["client.rack"] == "b"
    assert configuration({}, {}, found)["ssl.ca.pem"] == "of the file"
    for_one = configuration({}, {"standby": {"ssl.ca.pem": "own"}}, changed(ssl_ca_location="/srv/ca.pem"))
    assert (for_one["ssl.ca.pem"], for_one.get("ssl.ca.location")) == ("own", None)


def test_a_client_stays_where_it_is_and_says_why(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "endpoint.json"
    file.write_text(PRIMARY.to_json())
    watch = EndpointWatch(file)
    file.write_text(changed(plugin_library_paths="evil.so").to_json())
    with caplog.at_level(logging.WARNING, "drkit.client"):
        assert watch.newer(at_once=True) is None
        assert watch.newer(at_once=True) is None
    (said,) = [r.getMessage() for r in caplog.records]
    assert said.startswith(f"{file} is not followed, staying with primary: ")
    assert said.endswith("an endpoint may not set plugin.library.paths: an application sets it by itself")
    file.write_text(replace(STANDBY, term=3).to_json())
    assert watch.newer(at_once=True) == replace(STANDBY, term=3)


@pytest.mark.parametrize("more", [{"cluster_id": ""}, {"client": {"plugin.library.paths": "x"}}])
def test_a_client_does_not_begin_with_such_an_endpoint(tmp_path: Path, more: dict[str, Any]) -> None:
    file = tmp_path / "endpoint.json"
    file.write_text(replace(PRIMARY, **more).to_json())
    with pytest.raises(ConfigError, check=coded("no_endpoint")):
        EndpointWatch(file)
