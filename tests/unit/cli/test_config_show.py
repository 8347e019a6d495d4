"""``drkit config show``: what differs from the defaults, within the width, without secrets."""

from __future__ import annotations

import json
from pathlib import Path
import re
from typing import Any, get_args

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
import pytest

from drkit.cli import main as cli
from drkit.cli.screens.config import SettingRow, grouped_writers, settings_rows, settings_text
from drkit.config import Settings, read
from drkit.config.tables.cluster import CLIENT_TABLES
from drkit.errors import ConfigError
from drkit.masking import MASK

TEXT = """\
[clusters.primary]
bootstrap_servers = "p1.example.com:9092, p2.example.com:9092, p3.example.com:9092"
client = { "sasl.oauthbearer.client.credentials.client.secret" = "hunter-1" }
[clusters.standby]
bootstrap_servers = "s:1"
[[flows]]
source = "primary"
target = "standby"
tasks = 2
buckets = 4
groups = []
target_producer = { "sasl.password" = "hunter-2" }
[watch]
webhook = "https://hooks/hunter-3"
command = ["notify", "hunter-4"]
[failover.fence]
canary = { "sasl.password" = "hunter-5" }
stop_webhook = "https://hooks/hunter-6"
[[failover.repoint]]
kind = "webhook"
url = "https://hooks/hunter-7"
headers = { "X-Key" = "hunter-8" }
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    (tmp_path / "drkit.toml").write_text(TEXT)
    return str(tmp_path / "drkit.toml")


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.run(["config", "show", *words]) == 0
    return capsys.readouterr().out


def test_only_what_differs_is_shown(config: str, capsys: pytest.CaptureFixture[str]):
    out = shown(capsys, "--config", config, "--set", "flows.primary->standby.epoch_seconds=60")
    assert re.search(r"^flows\.primary->standby\.buckets +4 +drkit\.toml:10$", out, re.MULTILINE)
    assert "flows.primary->standby.epoch_seconds" in out
    assert "tasks" not in out, "2 is the default, also where the file says so"
    assert "rpo_seconds" not in out
    assert "[0]" not in out.replace("repoint[0]", ""), "a flow is named as in --set"
    hidden = re.search(r"^(\d+) settings with defaults: (drkit config show .*--all)$", out, re.MULTILINE)
    assert hidden is not None
    assert f"--config {config}" in hidden[2]
    everything = shown(capsys, "--all", "--config", config)
    assert re.search(r"^flows\.primary->standby\.tasks +2 +drkit\.toml:9$", everything, re.MULTILINE)
    assert re.search(r"^failover\.rpo_seconds +30\.0 +default$", everything, re.MULTILINE)
    assert "with defaults" not in everything
    rows, names = (
        json.loads(shown(capsys, "--json", "--config", config)),
        re.compile(r"^[a-z]\S+", re.MULTILINE),
    )
    assert len(names.findall(everything)) - 1 == len(rows), "the head, and a line for each"
    text = out.partition("\n\n")[0]
    assert len(names.findall(text)) - 1 == len(rows) - int(hidden[1])


def test_an_empty_value_is_a_dash(config: str, capsys: pytest.CaptureFixture[str]):
    out = shown(capsys, "--config", config)
    assert re.search(r"^flows\.primary->standby\.groups +– +drkit\.toml:11$", out, re.MULTILINE)
    everything = shown(capsys, "--all", "--config", config)
    assert re.search(r"^failover\.journal_folder +– +default$", everything, re.MULTILINE)


@pytest.mark.parametrize("words", [[], ["--all"], ["--json"]])
def test_no_secret_is_shown(config: str, capsys: pytest.CaptureFixture[str], words: list[str]):
    out = shown(capsys, *words, "--config", config)
    assert "hunter" not in out
    assert out.count("********") >= 7


def test_what_is_not_shown_is_no_argument_either(config: str):
    """Every user of the machine sees the arguments of a process."""
    masked = [row.name for row in settings_rows(read(config, {})) if row.value == MASK]
    refused = set()
    for name in masked:
        with pytest.raises(ConfigError) as caught:
            read(config, {}, [f"{name}=t0p"])
        assert "t0p" not in str(caught.value.as_dict())
        refused |= {name} if caught.value.code == "secret_argument" else set()
    assert len(refused) == 5
    assert set(masked) - refused == {"failover.repoint[0].url", "failover.repoint[0].headers.X-Key"}, (
        "of an array"
    )


MISSPELT = """
[clusters.standby.client]
passwrd = "hunter-9"
"client.id" = "me"
[[detection.listeners]]
cluster = "standby"
name = "clients"
bootstrap_servers = "s:2"
client = { "sslkey" = "hunter-10", "keytab" = "hunter-11" }
"""


def test_a_property_that_kafka_does_not_know_may_be_a_misspelt_secret(config: str):
    Path(config).write_text(TEXT + MISSPELT)
    found = read(config, {})
    rows = {row.path: row.value for row in settings_rows(found)}
    assert "hunter" not in repr(found.settings) + str(rows)
    assert rows["clusters.standby.client.passwrd"] == "********"
    assert rows['clusters.standby.client."client.id"'] == "me"


def test_all_tables_of_client_properties_are_known():
    def fields(model: type[BaseModel]) -> set[str]:
        here = {name for name, field in model.model_fields.items() if field.annotation == dict[str, str]}
        below = [each for field in model.model_fields.values() for each in models(field.annotation)]
        return here.union(*map(fields, below))

    def models(kind: Any) -> list[type[BaseModel]]:
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return [kind]
        return [each for part in get_args(kind) for each in models(part)]

    # The last three are not client properties, or have names that are checked.
    assert fields(Settings) - {"applications", "headers", "labels"} == {*CLIENT_TABLES}


def test_json_has_every_setting_and_its_old_fields(config: str, capsys: pytest.CaptureFixture[str]):
    rows = {row["setting"]: row for row in json.loads(shown(capsys, "--json", "--config", config))}
    assert rows["flows[0].buckets"] == {
        "setting": "flows[0].buckets",
        "value": "4",
        "from": "drkit.toml:10",
        "name": "flows.primary->standby.buckets",
        "is_default": False,
    }
    assert rows["failover.rpo_seconds"]["is_default"]
    assert rows["flows[0].tasks"] | {"name": ""} == {
        "setting": "flows[0].tasks",
        "value": "2",
        "from": "drkit.toml:9",
        "name": "",
        "is_default": True,
    }
    assert rows["flows[0].groups"]["value"] == ""


@pytest.mark.parametrize("columns", [None, "60", "120"])
def test_no_line_is_wider_than_the_terminal(
    config: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str | None
):
    """A pipe has 80 columns; only the name of a setting may be longer, as it is never broken."""
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    for line in shown(capsys, "--all", "--config", config).splitlines():
        assert len(line) <= int(columns or 80) or re.fullmatch(r"\S+", line)


@pytest.mark.parametrize("name", ["flows.primary->standby.buckets", "clusters.standby.bootstrap_servers"])
def test_a_name_can_be_typed_after_set(config: str, capsys: pytest.CaptureFixture[str], name: str):
    before = json.loads(shown(capsys, "--json", "--config", config))
    (row,) = (row for row in before if row["name"] == name)
    words = ["--json", "--config", config, "--set", f"{row['name']}={row['value']}"]
    (after,) = (row for row in json.loads(shown(capsys, *words)) if row["name"] == name)
    assert (after["value"], after["from"]) == (row["value"], f"--set {name}")


def test_every_property_can_be_typed_after_set(tmp_path: Path):
    (tmp_path / "drkit.toml").write_text(re.sub(r"[a-z.]+secret|sasl.password", "sasl.username", TEXT))
    rows = settings_rows(read(tmp_path / "drkit.toml", {}))
    properties = [
        row.name for row in rows if row.name.startswith(("clusters.", "flows.")) and '"' in row.name
    ]
    assert len(properties) == 2
    again = read(tmp_path / "drkit.toml", {}, [f"{name}=x" for name in properties])
    origins = {row.name: row.origin for row in settings_rows(again)}
    assert [origins[name] for name in properties] == [f"--set {name}" for name in properties]


_CELLS = st.text(alphabet="ab .,-", min_size=1, max_size=130).map(str.strip).filter(bool)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.text("abc._", min_size=1, max_size=70), _CELLS, _CELLS), min_size=1, max_size=5))
def test_nothing_is_cut(monkeypatch: pytest.MonkeyPatch, cells: list[tuple[str, str, str]]):
    monkeypatch.setenv("COLUMNS", "80")
    rows = [SettingRow(name, name, value, origin, is_default=False) for name, value, origin in cells]
    text = settings_text(rows, everything=False)
    assert all(len(line) <= 80 for line in text.splitlines())
    letters = sorted("".join(text.split()))
    assert letters == sorted(
        "".join(("setting", "value", "from", *("".join(c) for c in cells))).replace(" ", "")
    )


def test_topics_with_the_same_writers_share_a_row() -> None:
    rows = [
        {"cluster": "b", "topic": "one", "writers": ["any client"]},
        {"cluster": "b", "topic": "two", "writers": []},
        {"cluster": "b", "topic": "three", "writers": ["any client"]},
        {"cluster": "a", "topic": "one", "writers": ["any client"]},
    ]
    assert grouped_writers(rows) == [
        {"cluster": "b", "writers": "any client", "topics": "one, three"},
        {"cluster": "b", "writers": "only drkit", "topics": "two"},
        {"cluster": "a", "writers": "any client", "topics": "one"},
    ]
