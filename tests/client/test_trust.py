"""An endpoint file says where a cluster is; whoever may write it gets nothing else from an application."""

from __future__ import annotations

from dataclasses import replace
import logging
from pathlib import Path
from typing import Any

import pytest

from drkit.client.switch import EndpointWatch
from drkit.client.trust import why_not
from drkit.endpoint import Endpoint
from drkit.errors import ConfigError

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
        changed(ssl_endpoint_identification_algorithm="https", enable_ssl_certificate_verification="true"),
    ],
)
def test_where_a_cluster_is_may_be_said(endpoint: Endpoint) -> None:
    assert not why_not(endpoint, {}, PRIMARY)


def test_an_application_may_name_its_protocol_itself() -> None:
    clear = replace(STANDBY, client={})
    assert not why_not(clear, {"security.protocol": "PLAINTEXT"}, PRIMARY)


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
    with pytest.raises(ConfigError, match="does not know where to go"):
        EndpointWatch(file)
