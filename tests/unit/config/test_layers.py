"""Flags, variables and the lines of the file: which value counts, and what is said of its origin."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
import sys
import tomllib
from types import FrameType
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.config import Loaded, read
from drkit.config.files.document import lines_of
from drkit.errors import ConfigError
from tests.support.errors import coded

TEXT = """\
[clusters.primary]
bootstrap_servers = "p1:9092"   # a comment
client = { "security.protocol" = "SASL_SSL", "sasl.password" = "${env:PASSWORD}" }

[clusters.stand-by]
bootstrap_servers = [
  "s1:9092",  # [[not a table]]
]
[[flows]]
source = "primary"
target = "stand-by"
topics = \"\"\"
a,
[b]\"\"\"
[flows.source_consumer]
"request.timeout.ms" = 5000

[[flows]]
source = "stand-by"
target = "primary"
[failover]
repoint = [
  { kind = "file", path = "/x" },
]
"""


def loaded(folder: Path, *flags: str, **env: str) -> Loaded:
    file = folder / "drkit.toml"
    file.write_text(TEXT)
    return read(file, {"PASSWORD": "top-secret", **env}, flags)


def test_every_setting_has_its_line(tmp_path: Path):
    origins = loaded(tmp_path).origins
    assert {at: origins[at] for at in origins if at.count(".") or "[" in at} == {
        "clusters.primary": "drkit.toml:1",
        "clusters.primary.bootstrap_servers": "drkit.toml:2",
        "clusters.primary.client": "drkit.toml:3",
        'clusters.primary.client."security.protocol"': "drkit.toml:3",
        'clusters.primary.client."sasl.password"': "drkit.toml:3 ${env:PASSWORD}",
        "clusters.stand-by": "drkit.toml:5",
        "clusters.stand-by.bootstrap_servers": "drkit.toml:6",
        "flows[0]": "drkit.toml:9",
        "flows[0].source": "drkit.toml:10",
        "flows[0].target": "drkit.toml:11",
        "flows[0].topics": "drkit.toml:12",
        "flows[0].source_consumer": "drkit.toml:15",
        'flows[0].source_consumer."request.timeout.ms"': "drkit.toml:16",
        "flows[1]": "drkit.toml:18",
        "flows[1].source": "drkit.toml:19",
        "flows[1].target": "drkit.toml:20",
        "failover.repoint": "drkit.toml:22",
        "failover.repoint[0]": "drkit.toml:22",
        "failover.repoint[0].kind": "drkit.toml:22",
        "failover.repoint[0].path": "drkit.toml:22",
    }


@given(
    st.lists(
        st.sampled_from(["# x", "", "a = 1", "a = [\n1,\n]", 'a = """\nb = 2\n"""', "a = {b = 1}"]),
        max_size=5,
    )
)
def test_a_statement_begins_where_it_is_found(before: list[str]):
    tables = "".join(f"[t{i}]\n{part}\n" for i, part in enumerate(before))
    text = f"{tables}[last]\nkey = [\n 1,\n 2 ]\n"
    line = lines_of(text)["last.key"]
    assert text.splitlines()[line - 1] == "key = ["


@pytest.mark.parametrize(
    ("value", "lines"),
    [
        ('"""x"""', 1), ('"""a\nb"""', 2), ('"""a\n""\nb"""""', 3), ('"""a \\\n  b\\""" c"""', 2),
        ("'''a\n[b\n'''", 3), ("'''a''''", 1), ('"a[b"', 1), ("'a{b'", 1), ('"a\\"]b"', 1),
        ("[ # ]\n 1, # [\n]", 3), ('[[1],\n["]"],\n[\'[\']]', 3), ('{a = ["}", 1], b = {c = 1}}', 1),
        ("[\n\n]", 3), ('"a # b"', 1), ("1979-05-27T07:32:00Z # x ] \" '", 1),
        ('"\u2028"', 1),
    ],
)  # fmt: skip
def test_the_end_of_a_statement(value: str, lines: int):
    text = f"before = {value}\nlast = 1\n"
    tomllib.loads(text)
    assert lines_of(text)["last"] == lines + 1


def test_work_grows_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A thousand topics took seconds of every command, two thousand four times as long."""
    read_characters: list[int] = []
    parse = tomllib.loads

    def counted(text: str) -> dict[str, Any]:
        read_characters.append(len(text))
        return parse(text)

    monkeypatch.setattr(tomllib, "loads", counted)
    costs = []
    for topics in (200, 400, 800):
        read_characters.clear()
        file = tmp_path / "drkit.toml"
        names = ",\n".join(f'  "topic-{n:05}"' for n in range(topics))
        tables = "\n".join(f'[clusters.c{n}]\nbootstrap_servers = "h{n}:1"' for n in range(topics))
        file.write_text(f'{tables}\n[[flows]]\nsource = "c0"\ntarget = "c1"\ntopics = [\n{names}\n]\n')
        costs.append((_calls(partial(read, file, {})), sum(read_characters)))
    for smaller, larger in pairwise(costs):
        for before, after in zip(smaller, larger, strict=True):
            assert after < 2.5 * before, costs


def _calls(work: Callable[[], object]) -> int:
    """How many functions a piece of work calls."""
    count = 0

    def seen(_frame: FrameType, event: str, _what: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def test_tables_with_odd_names():
    text = '["a=b"."c]d"] # [e]\nx = 1\n[[f]]\ny = 2\n[f.g]\nz = 3\n'
    assert lines_of(text) == {
        "a=b": 1,
        "a=b.c]d": 1,
        "a=b.c]d.x": 2,
        "f": 3,
        "f[0]": 3,
        "f[0].y": 4,
        "f[0].g": 5,
        "f[0].g.z": 6,
    }


def test_an_array_of_toml_is_taken_and_a_set_of_characters_is_one(tmp_path: Path):
    found = loaded(tmp_path, 'flows[0].topics=["orders", "pay.*"]', "flows[1].topics=[a-z]+")
    assert [flow.topics for flow in found.settings.flows] == [("orders", "pay.*"), ("[a-z]+",)]


def test_flags_win_over_variables_over_the_file(tmp_path: Path):
    env = {"DRKIT_FLOWS__PRIMARY__STAND_BY__TASKS": "5", "DRKIT_FLOWS__PRIMARY__STAND_BY__BUCKETS": "8"}
    found = loaded(
        tmp_path,
        "flows.primary->stand-by.tasks=4",
        "flows[1].topics=x, y",
        'clusters.stand-by.client."client.id" = me',
        "clusters.primary.client.sasl.username=other=name",
        "flows.0.source_consumer.request_timeout_ms=7",
        "failover.rpo_seconds=7",
        **env,
    )
    there, back = found.settings.flows
    assert (there.tasks, there.buckets, back.topics) == (4, 8, ("x", "y"))
    assert there.source_consumer == {"request.timeout.ms": "7"}
    assert found.settings.cluster("stand-by").client == {"client.id": "me"}
    assert found.settings.cluster("primary").client["sasl.username"] == "other=name"
    assert found.settings.failover.rpo_seconds == 7
    assert found.origins["flows[0].tasks"] == "--set flows.primary->stand-by.tasks"
    assert found.origins["flows[0].buckets"] == "DRKIT_FLOWS__PRIMARY__STAND_BY__BUCKETS"
    assert not [n for n in found.notes if n.at.startswith("failover")]


@pytest.mark.parametrize(
    "key",
    [
        "clusters.primary.client.sasl.password", 'clusters.stand-by.client."sasl.jaas.config"',
        "flows.0.target_producer.ssl.key.pem", "watch.webhook_secret", "watch.webhook",
    ],
)  # fmt: skip
def test_a_secret_is_no_flag(tmp_path: Path, key: str):
    with pytest.raises(ConfigError, check=coded("secret_argument")) as caught:
        loaded(tmp_path, f"{key}=t0p")
    assert "t0p" not in str(caught.value.as_dict())
    file = tmp_path / "t0p.key"
    file.write_bytes(bytes(range(40)))
    file.chmod(0o600)
    assert loaded(tmp_path, f"control.key_file={file}").settings.control.keys


@pytest.mark.parametrize(
    ("flag", "what", "hint"),
    [
        ("flow.0.tasks=1", "not the name of a single setting", "'flows'"),
        ("flows.0.tasks", "not the name of a single setting", "flows.NUMBER.SETTING"),
        ("flows.7.tasks=1", "no such flow", "flows.SOURCE->TARGET.SETTING"),
        ("flows.primary->standb.tasks=1", "no such flow", "did you mean 'primary->stand-by'?"),
        ("clusters.x.client.a=1", "no such cluster", "clusters.ALIAS"),
        ("clusters.primry.client.a=1", "no such cluster", "did you mean 'primary'?"),
        ("clusters.primary.client=1", "not the name of a single setting", "client.PROPERTY"),
        ("flows.0.source_consumer=1", "not the name of a single setting", ""),
        ("flows.0.tasks.x=1", "not the name of a single setting", ""),
        ("flows.0.tsks=1", "unknown setting", "'tasks'"),
        ("flows.0.tasks=many", "must be a whole number", "drkit explain configuration"),
        ("flows.0.source_consumer.fetch.max.byte=1", "no property 'fetch.max.byte'", ""),
    ],
)
def test_a_wrong_flag_is_named(tmp_path: Path, flag: str, what: str, hint: str):
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, flag)
    assert what in caught.value.what
    assert hint in caught.value.hint
    assert "top-secret" not in str(caught.value.as_dict())
