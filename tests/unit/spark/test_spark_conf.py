"""Spark's settings and masters, without a Spark: what is refused, what is set, what is hidden."""

from __future__ import annotations

from pathlib import Path
import socket
import sys
from typing import Any

import pytest

from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.control_key import ControlKey, ControlKeys
from drkit.errors import ConfigError, Failed, Refused
from drkit.spark.conf import (
    OWNED,
    given_conf,
    is_encrypted,
    may_be_seen,
    refuse_clear_text,
    refuse_unfit,
    secrets_of,
    spark_settings,
    workers_python,
)
from drkit.spark.master import Master, MasterRoute, choose_master, find_route
from drkit.spark.session import plan_spark
from tests.support.errors import coded

STANDALONE = Master("spark://10.0.0.1:7077", None)
ROUTE = MasterRoute("10.0.0.1:7077", "10.0.0.9")
HERE = MasterRoute("127.0.0.1:7077", "127.0.0.1")
SECRET = {"spark.authenticate.secret": "s3"}


def test_a_master_says_where_it_listens():
    assert choose_master("spark://a:1,b:2", 3).addresses == [("a", 1), ("b", 2)]
    assert choose_master("spark://[fd00::1]:7077", 1).addresses == [("fd00::1", 7077)]
    assert choose_master("k8s://https://api.example:6443", 1).addresses == [("api.example", 6443)]
    assert choose_master("k8s://api.example", 1).addresses == [("api.example", 443)]
    assert choose_master("yarn", 1).addresses == []


@pytest.mark.parametrize("url", ["spark://host", "spark://host:port", "mesos://h:1", "local[x]", ""])
def test_what_is_no_master_is_refused_with_those_that_are(url: str):
    with pytest.raises(ConfigError, check=coded("spark_master_malformed")) as refused:
        choose_master(url, 1)
    assert "spark://HOST:PORT" in refused.value.hint


def test_the_route_to_the_master_gives_the_drivers_address():
    with socket.create_server(("127.0.0.1", 0)) as listens:
        free = listens.getsockname()[1]
        route = find_route(Master(f"spark://127.0.0.2:1,127.0.0.1:{free}", None))
    assert route == MasterRoute(f"127.0.0.1:{free}", "127.0.0.1")
    assert route.is_loopback
    assert find_route(Master("yarn", None)) is None


def test_a_master_that_does_not_answer_is_named_with_each_address():
    with socket.create_server(("127.0.0.1", 0)) as listens:
        free = listens.getsockname()[1]
    with pytest.raises(Failed, check=coded("spark_master_silent")) as failed:
        plan_spark(f"spark://127.0.0.1:{free},127.0.0.2:{free}", 1)
    assert failed.value.evidence.count("Connection refused") == 2


def test_settings_are_pairs_of_spark_and_the_command_wins_over_the_file(tmp_path: Path):
    file = tmp_path / "spark.properties"
    file.write_text("# comment\nspark.cores.max 4\nspark.authenticate.secret=s3\nother=1\n")
    assert given_conf(["spark.cores.max=6", "spark.a=b=c"], file) == {
        "spark.cores.max": "6", "spark.authenticate.secret": "s3", "spark.a": "b=c",
    }  # fmt: skip
    for wrong in ("spark.cores.max", "cores=1"):
        with pytest.raises(ConfigError, check=coded("spark_setting_unknown")):
            given_conf([wrong], None)
    with pytest.raises(ConfigError, check=coded("spark_settings_unreadable")):
        given_conf([], tmp_path / "none")


@pytest.mark.parametrize("key", sorted(OWNED))
def test_what_only_drkit_can_choose_is_refused_by_name(key: str, tmp_path: Path):
    file = tmp_path / "spark.properties"
    file.write_text(f"{key}=x")
    for pairs, given in (([f"{key}=x"], None), ([], file)):
        with pytest.raises(ConfigError, check=coded("spark_setting_owned")) as refused:
            given_conf(pairs, given)
        assert f"'{key}'" in str(refused.value)


def test_a_secret_is_no_argument_of_a_process():
    """P: neither of drkit's, which ``--conf`` is, nor of Spark's JVM."""
    for key in ("spark.authenticate.secret", "spark.ssl.rpc.keyPassword", "spark.hadoop.fs.s3a.secret.key",
                "spark.hadoop.fs.azure.account.key.a.example", "spark.hadoop.fs.s3a.access.key"):  # fmt: skip
        assert not may_be_seen({key: "s3"})
        with pytest.raises(ConfigError, check=coded("secret_argument")):
            given_conf([f"{key}=s3"], None)
    files = ["spark.authenticate.secret.file=/run/s", "spark.kubernetes.authenticate.oauthTokenFile=/run/t"]
    assert given_conf(files, None) == may_be_seen(given_conf(files, None))
    settings = spark_settings(STANDALONE, ROUTE, 2, SECRET)
    assert settings["spark.authenticate.secret"] == "s3"
    assert "s3" not in may_be_seen(settings).values()


def settings_with(client: dict[str, str], **flow: Any) -> tuple[Settings, list[FlowSettings]]:
    made = Settings(
        clusters={
            "a": ClusterSettings(alias="a", bootstrap_servers="h:1", client=client),
            "b": ClusterSettings(alias="b", bootstrap_servers="h:2"),
        },
        flows=(FlowSettings(source="a", target="b", **flow),),
    )
    return made, list(made.flows)


def test_the_secrets_of_tasks_are_known_by_name():
    assert secrets_of(*settings_with({"security.protocol": "SSL"})) == []
    assert secrets_of(*settings_with({"sasl.password": "p"})) == ["sasl.password of a"]
    assert secrets_of(*settings_with({}, target_producer={"ssl.key.password": "p"})) == [
        "ssl.key.password of b"
    ]
    settings, flows = settings_with({})
    keys = ControlKeys(ControlKey.of(bytes(range(32))))
    signed = {alias: cluster.with_control(keys) for alias, cluster in settings.clusters.items()}
    assert secrets_of(settings.model_copy(update={"clusters": signed}), flows) == ["the control key"]


def test_no_secret_travels_in_clear_text():
    yarn, kubernetes = Master("yarn", None), Master("k8s://https://h:1", None)
    for master in (STANDALONE, Master("spark://127.0.0.1:1", None)):
        with pytest.raises(Refused, check=coded("spark_secrets_in_clear")) as refused:
            refuse_clear_text(master, {}, ["sasl.password of a"])
        assert refused.value.evidence.startswith("sasl.password of a;")
        refuse_clear_text(master, {}, [])
        refuse_clear_text(master, SECRET, ["sasl.password of a"])
    for master in (yarn, kubernetes, choose_master(None, 1)):
        refuse_clear_text(master, {}, ["sasl.password of a"])
    assert is_encrypted(STANDALONE, {"spark.ssl.rpc.enabled": "true"})
    for off in ("spark.authenticate", "spark.network.crypto.enabled"):
        assert not is_encrypted(STANDALONE, {**SECRET, off: "false"})
        assert not is_encrypted(yarn, {off: "false"})


def test_local_mode_takes_no_other_user_of_the_machine(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SPARK_LOCAL_HOSTNAME", raising=False)
    settings = spark_settings(choose_master(None, 2), None, 2, {"spark.ui.enabled": "true"})
    assert settings["spark.authenticate"] == settings["spark.network.crypto.enabled"] == "true"
    assert (settings["spark.driver.host"], settings["spark.ui.enabled"]) == ("localhost", "true")
    assert "spark.cores.max" not in settings


def test_a_cluster_is_asked_for_one_slot_more_and_reaches_the_driver(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SPARK_LOCAL_HOSTNAME", raising=False)
    settings = spark_settings(STANDALONE, ROUTE, 3, {}, "drkit-1.zip")
    assert (settings["spark.cores.max"], settings["spark.driver.host"]) == ("4", "10.0.0.9")
    assert settings["spark.executorEnv.PYTHONPATH"] == "drkit-1.zip"
    assert settings["spark.executorEnv.PYTHONSAFEPATH"] == "1"
    assert "TieredStopAtLevel" in settings["spark.executor.extraJavaOptions"]
    assert "spark.authenticate" not in settings
    encrypted = spark_settings(STANDALONE, ROUTE, 3, SECRET)
    assert (encrypted["spark.authenticate"], encrypted["spark.network.crypto.enabled"]) == ("true", "true")
    own = {"spark.executorEnv.PYTHONPATH": "/opt/more", "spark.cores.max": "8", "spark.driver.host": "nat"}
    settings = spark_settings(STANDALONE, ROUTE, 3, own, "drkit-1.zip")
    assert settings["spark.executorEnv.PYTHONPATH"] == "drkit-1.zip:/opt/more"
    assert (settings["spark.cores.max"], settings["spark.driver.host"]) == ("8", "nat")


@pytest.mark.parametrize("url", ["yarn", "k8s://https://10.0.0.1:6443"])
def test_containers_have_room_for_python_and_are_encrypted(url: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SPARK_LOCAL_HOSTNAME", raising=False)
    settings = spark_settings(Master(url, None), None if url == "yarn" else ROUTE, 3, {}, "drkit-1.zip")
    assert settings["spark.executor.instances"] == "4"
    assert settings["spark.executor.cores"] == "1"
    assert settings["spark.executor.memoryOverhead"] == "1g"
    assert settings["spark.network.crypto.enabled"] == settings["spark.authenticate"] == "true"
    assert settings.get("spark.driver.host") == (None if url == "yarn" else "10.0.0.9")


def test_kubernetes_needs_an_image():
    master = Master("k8s://https://10.0.0.1:6443", None)
    with pytest.raises(ConfigError, check=coded("spark_image_missing")):
        refuse_unfit(master, {})
    refuse_unfit(master, {"spark.kubernetes.container.image": "registry/spark"})


def test_workers_run_a_python_of_the_same_version(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    same = f"python3.{sys.version_info.minor}"
    assert workers_python(choose_master(None, 1), None, {}) == sys.executable
    assert workers_python(STANDALONE, HERE, {}) == sys.executable
    assert workers_python(STANDALONE, ROUTE, {}) == same
    assert workers_python(Master("yarn", None), None, {}) == same
    assert workers_python(STANDALONE, HERE, {"spark.pyspark.python": "./py"}) == "./py"
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    assert workers_python(STANDALONE, ROUTE, {}) == "/opt/python"
    assert workers_python(choose_master(None, 1), None, {}) == sys.executable
    with pytest.raises(ConfigError, check=coded("spark_python_set")):
        workers_python(choose_master(None, 1), None, {"spark.pyspark.python": "./py"})
