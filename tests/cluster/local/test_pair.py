"""The pair to play with outlives its starter, and only its own processes are ever stopped."""

from __future__ import annotations

import json
import os
from pathlib import Path
import signal
import subprocess
import sys
from typing import Any

import pytest

from drkit.config import load
from drkit.errors import ConfigError, Refused
from drkit.local.pair import LocalPair, default_folder
from drkit.local.process import ProcessIdentity
from tests.support.cli.json_fields import pin
from tests.support.errors import coded
from tests.support.failover.command import drkit
from tests.support.waiting import wait_until

_UP = """
import sys
from pathlib import Path
from drkit.local.pair import LocalPair
LocalPair(Path(sys.argv[1])).up(Path(sys.argv[2]))
"""


def typed(command: str, pair: LocalPair, *words: str) -> Any:
    """Return the answer of a command of ``drkit local``; its fields are as recorded."""
    said = drkit(pair.folder / "none.toml", "local", command, *words, "--folder", str(pair.folder))
    assert said.code == 0, said.err
    pin(f"local {command}", said.data)
    return said.data


@pytest.fixture
def pair(tmp_path):
    pair = LocalPair(tmp_path / "pair")
    yield pair
    pair.down()


@pytest.mark.wide
def test_a_pair_lives_on_is_told_apart_and_goes_down_without_a_trace(pair, tmp_path):
    config = tmp_path / "drkit.toml"
    subprocess.run([sys.executable, "-c", _UP, str(pair.folder), str(config)], check=True, timeout=120)

    status = pair.status()
    assert status["state"] == "up"
    assert [broker["cluster"] for broker in status["brokers"]] == ["primary", "standby"]
    settings = load(config)
    assert {name: each.bootstrap_servers for name, each in settings.clusters.items()} == {
        broker["cluster"]: broker["bootstrap"] for broker in status["brokers"]
    }
    assert typed("up", pair, "--write", str(config))["brokers"] == status["brokers"], (
        "a second up changes nothing"
    )

    primary, standby = (ProcessIdentity.of(broker["pid"]) for broker in status["brokers"])
    assert [b["state"] for b in typed("kill", pair, "standby")["brokers"]] == ["ready", "ended"]
    again = typed("start", pair, "standby")["brokers"]
    assert [b["state"] for b in again] == ["ready", "ready"]
    assert [b["bootstrap"] for b in again] == [b["bootstrap"] for b in status["brokers"]]
    standby = ProcessIdentity.of(again[1]["pid"])
    os.kill(standby.pid, signal.SIGSTOP)
    assert pair.status()["brokers"][1]["state"] == "silent"
    os.kill(primary.pid, signal.SIGKILL)
    wait_until(lambda: pair.status()["brokers"][0]["state"] == "ended")
    assert pair.status()["state"] == "degraded"
    with pytest.raises(Refused, check=coded("local_pair_incomplete")):
        pair.up(config)

    assert typed("down", pair)["stopped"] == [standby.pid]
    assert not standby.alive
    assert not config.exists()
    assert pair.status() == {"state": "down", "config": "", "brokers": []}
    assert [entry.name for entry in pair.folder.iterdir()] == ["lock"]


def test_down_leaves_nothing_where_nothing_was(pair):
    assert pair.down() == {"stopped": [], "folder": str(pair.folder)}
    assert not pair.folder.exists()


@pytest.mark.wide
def test_down_spares_a_process_that_got_the_same_id(pair):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        identity = ProcessIdentity.of(other.pid)
        broker = {
            "cluster": "primary",
            "node_id": 0,
            "bootstrap": "127.0.0.1:1",
            "host": "127.0.0.1",
            "port": 1,
            "pid": other.pid,
            "started": "long ago",
            "logs": "",
        }
        pair.folder.mkdir()
        (pair.folder / "state.json").write_text(json.dumps({"config": "", "brokers": [broker]}))
        assert pair.status()["brokers"][0]["state"] == "ended"
        assert pair.down()["stopped"] == []
        assert identity.alive
        other.communicate(b"\n")


@pytest.mark.wide
def test_an_ended_process_is_not_alive_though_its_parent_has_not_looked():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        identity = ProcessIdentity.of(process.pid)
        assert identity.alive
        assert not _another_start(identity).alive
        assert process.stdin
        process.stdin.close()
        wait_until(lambda: not identity.alive)
        assert process.returncode is None


def _another_start(identity):
    return identity._replace(started=identity.started + "0")


@pytest.mark.wide
def test_up_refuses_to_overwrite_a_configuration_that_is_not_its_own(pair, tmp_path):
    config = tmp_path / "drkit.toml"
    config.write_text("# precious\n")
    with pytest.raises(ConfigError, check=coded("config_not_ours")):
        pair.up(config)
    assert config.read_text() == "# precious\n"
    assert pair.status()["state"] == "down"


@pytest.mark.wide
@pytest.mark.parametrize("name", ["primary", "standby"])
def test_folders_of_others_are_left_alone(tmp_path, name):
    pair = LocalPair(tmp_path)
    precious = tmp_path / name / "broker-0" / "precious"
    precious.parent.mkdir(parents=True)
    precious.write_text("1")
    for work in (pair.down, lambda: pair.up(tmp_path / "drkit.toml")):
        with pytest.raises(Refused, check=coded("folders_not_ours")) as caught:
            work()
        assert caught.value.evidence == name
    assert precious.read_text() == "1"


@pytest.mark.wide
def test_folders_of_a_start_that_failed_go_away(tmp_path):
    pair = LocalPair(tmp_path)
    pair._claim_folders()
    (tmp_path / "primary" / "broker-0").mkdir()
    pair.down()
    assert [entry.name for entry in tmp_path.iterdir()] == ["lock"]


@pytest.mark.wide
@pytest.mark.parametrize("work", ["kill", "start"])
def test_a_cluster_that_is_not_there_is_refused(tmp_path, work):
    with pytest.raises(Refused, check=coded("no_local_pair")) as caught:
        getattr(LocalPair(tmp_path), work)("primary")
    assert caught.value.hint == "drkit local up"


@pytest.mark.wide
def test_the_folder_follows_the_environment():
    assert default_folder({"XDG_STATE_HOME": "/s"}) == Path("/s/drkit/local")
