"""``drkit config schema``: a valid schema that accepts what drkit reads and finds what it refuses."""

from __future__ import annotations

from collections.abc import Iterator
import json
from pathlib import Path
import re
import tomllib
from typing import Any

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it has no types
import pytest

from drkit.cli import main as cli
from drkit.cli.actions.config import starter
from drkit.config import read
from drkit.config.schema import DIALECT, described_schema, editor_schema
from tests.pages.settings import reference_toml

ROOT = Path(__file__).parents[3]
PAIR = """\
[clusters.primary]
bootstrap_servers = "p:1"
[clusters.standby]
bootstrap_servers = "s:1"
[[flows]]
source = "primary"
target = "standby"
"""


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return editor_schema()


def problems(schema: dict[str, Any], text: str) -> list[str]:
    found = Draft202012Validator(schema).iter_errors(tomllib.loads(text))
    return [f"{error.json_path}: {error.message}" for error in found]


def test_it_is_a_valid_schema(schema: dict[str, Any]):
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == DIALECT == Draft202012Validator.META_SCHEMA["$id"]


def test_the_command_prints_it_without_a_configuration(
    schema: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DRKIT_CONFIG", raising=False)
    assert cli.run(["config", "schema"]) == 0
    assert json.loads(capsys.readouterr().out) == schema


def test_every_setting_has_its_meaning_and_its_default(schema: dict[str, Any]):
    for name, table in described_schema()["$defs"].items():
        for setting, found in table["properties"].items():
            if (name, setting) == ("ClusterSettings", "alias"):
                continue
            shown = schema["$defs"][name]["properties"][setting]
            assert shown["description"] == " ".join(found["description"].replace("``", "`").split())
            default = found.get("default")
            assert shown.get("default") == (None if isinstance(default, dict) else default)
    assert all(found["description"] for found in schema["properties"].values())
    text = json.dumps(schema)
    assert '"null"' not in text, "TOML has none"
    assert "``" not in text


def _examples() -> Iterator[tuple[str, str]]:
    yield "reference", reference_toml()
    yield "reference without comments", re.sub(r"^#(?=\S+ = )", "", reference_toml(), flags=re.MULTILINE)
    for both_ways in (False, True):
        yield f"init {both_ways}", starter(both_ways=both_ways)
    offered = [line.removeprefix("#") for line in starter(both_ways=True).splitlines() if line[:2] != "# "]
    yield "init without comments", "\n".join(offered)
    for page in sorted((ROOT / "docs").rglob("*.md")):
        blocks = re.findall(
            r"^```toml\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
        )
        whole = [block for block in blocks if re.match(r"\[|#", block)]  # others are lines of some table
        for number, block in enumerate(whole):
            yield f"{page.relative_to(ROOT)} {number}", block


EXAMPLES = dict(_examples())


@pytest.mark.parametrize("name", EXAMPLES)
def test_it_accepts_what_drkit_documents(schema: dict[str, Any], name: str):
    try:
        found = problems(schema, EXAMPLES[name])
    except tomllib.TOMLDecodeError:
        pytest.skip("a fragment with an ellipsis")
    assert [each for each in found if "is a required property" not in each] == []


def test_documentation_has_examples():
    assert len(EXAMPLES) > 20


@pytest.mark.parametrize(
    "more",
    [
        'tasks = "${env:TASKS}"\n',
        'topics = "a, b"\ngroups = ["a"]\n',
        'opposite_flows = "standby"\nseparator = "-"\n',
        'source_consumer = { "request.timeout.ms" = 5000, "check.crcs" = true }\n',
        'on_source_gap = "${env:GAP}"\n',
        "epoch_seconds = 3\nlease_seconds = 3.5\n",
        '[watch]\nobservers = 3\n[fence_agent]\nagents = ["a"]\n',
        '[watch]\nobservers = "a, b, c"\n',
        '[detection]\ncanary = "${env:CANARY}"\n',
    ],
)
def test_what_drkit_reads_is_accepted(schema: dict[str, Any], tmp_path: Path, more: str):
    (tmp_path / "drkit.toml").write_text(PAIR + more)
    read(tmp_path / "drkit.toml", {"TASKS": "3", "GAP": "stop", "CANARY": "false"})
    assert problems(schema, PAIR + more) == []


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        (PAIR + "topcs = []\n", "$.flows[0]", "'topcs' was unexpected"),
        (PAIR + "tasks = 0\n", "$.flows[0].tasks", "not valid under any"),
        (PAIR + 'tasks = "many"\n', "$.flows[0].tasks", "not valid under any"),
        (PAIR + 'on_source_gap = "go"\n', "$.flows[0].on_source_gap", "not valid under any"),
        (PAIR + "takeover_from_mm2 = 1\n", "$.flows[0].takeover_from_mm2", "not valid under any"),
        ("[clusters.a]\n", "$.clusters.a", "'bootstrap_servers' is a required property"),
        ('[clusters.a]\nbootstrap_servers = "h:1"\nalias = "a"\n', "$.clusters.a", "'alias' was unexpected"),
        ("[metrcs]\n", "$", "'metrcs' was unexpected"),
    ],
)
def test_what_drkit_refuses_is_found(schema: dict[str, Any], text: str, at: str, message: str):
    (found,) = problems(schema, text)
    assert found.startswith(f"{at}: ")
    assert message in found
