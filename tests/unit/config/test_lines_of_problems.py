"""``drkit config check`` names the line of every problem, and no problem hides another one."""

from __future__ import annotations

from pathlib import Path
import re

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.config import read
from drkit.config.files.document import Document, lines_of
from drkit.errors import ConfigError
from tests.support.errors import sentence

PAIR = """\
[clusters.primary]
bootstrap_servers = "p:9092"
[clusters.standby]
bootstrap_servers = "s:9092"
[[flows]]
source = "primary"
target = "standby"
"""
NO_PROPERTY = "no client of Kafka's has a property of this name"


def refused(tmp_path: Path, text: str, *flags: str, **env: str) -> ConfigError:
    file = tmp_path / "drkit.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read(file, env, flags)
    return caught.value


def brief(error: ConfigError) -> list[tuple[str, str]]:
    """Place and sentence of each problem, without what to do."""
    lines = (re.sub(r" \([^()]*\)$", "", line) for line in error.evidence.splitlines())
    found = (re.fullmatch(r"(drkit\.toml:\d+: [^:]+|[^:]+): (.*)", line) for line in lines)
    return [(each[1], each[2]) for each in found if each is not None]


def test_every_problem_has_its_line(tmp_path: Path):
    error = refused(
        tmp_path,
        '[clusters.primary]\nbootstrap_servers = "p"\n\n'
        '[clusters.standby]\nclient = { "sasl.pasword" = "x" }\n'
        '[[flows]]\nsource = "primry"\ntarget = "standby"\ntasks = "many"\ntopcs = []\n'
        'source_consumer = { "fetch.max.byte" = 1, "acks" = 2 }\n[[drills]]\nname = "n"\nkind = "bubble"\n'
        'cron = "99 * * * *"\n',
    )
    assert error.what == sentence("config_problems", count=9)
    assert brief(error) == [
        ("drkit.toml:2: clusters.primary.bootstrap_servers", "'p' is not host:port"),
        ("drkit.toml:4: clusters.standby.bootstrap_servers", "this setting is needed"),
        ('drkit.toml:5: clusters.standby.client."sasl.pasword"', NO_PROPERTY),
        ("drkit.toml:7: flows[0].source", sentence("cluster_unknown", alias="primry")),
        ("drkit.toml:9: flows[0].tasks", "must be a whole number: 'many'"),
        ("drkit.toml:10: flows[0].topcs", "unknown setting"),
        (
            'drkit.toml:11: flows[0].source_consumer."fetch.max.byte"',
            "there is no property 'fetch.max.byte' of Kafka's consumer: did you mean 'fetch.max.bytes'?",
        ),
        (
            "drkit.toml:11: flows[0].source_consumer.acks",
            "there is no property 'acks' of Kafka's consumer: it is one of Kafka's producer",
        ),
        ("drkit.toml:15: drills[0].cron", "'99' is no minute"),
    ]


def test_an_unset_variable_hides_no_misspelt_name(tmp_path: Path):
    client = '[clusters.primary.client]\n"sasl.pasword" = "${env:NOPE}"\n"sasl.mechansm" = "PLAIN"\n'
    error = refused(tmp_path, PAIR + "tsks = '${env:NOPE}'\n" + client)
    unset, client = "environment variable NOPE is not set", "clusters.primary.client"
    assert brief(error) == [
        ("drkit.toml:8: flows[0].tsks", unset),
        ("drkit.toml:8: flows[0].tsks", "unknown setting"),
        (f'drkit.toml:10: {client}."sasl.pasword"', unset),
        (f'drkit.toml:10: {client}."sasl.pasword"', NO_PROPERTY),
        (f'drkit.toml:11: {client}."sasl.mechansm"', NO_PROPERTY),
    ]


@pytest.mark.parametrize(
    ("text", "at"),
    [
        (PAIR + 'tasks = "${env:NOPE}"\n', "drkit.toml:8: flows[0].tasks"),
        (PAIR.replace('"p:9092"', '"${env:NOPE}"'), "drkit.toml:2: clusters.primary.bootstrap_servers"),
        (PAIR.replace('"primary"', '"${env:NOPE}"'), "drkit.toml:6: flows[0].source"),
        (PAIR + '[control]\nkey_file = "${file:nowhere}"\n', "drkit.toml:9: control.key_file"),
        (PAIR + '[watch]\nwebhook = "${env:NOPE}"\n', "drkit.toml:9: watch.webhook"),
    ],
)
def test_an_unset_variable_is_one_problem(tmp_path: Path, text: str, at: str):
    """The value that it leaves behind is wrong, too: that is not another problem."""
    error = refused(tmp_path, text)
    assert error.where == f"{tmp_path}/{at}"
    assert "NOPE is not set" in error.what or "cannot read nowhere" in error.what


@pytest.mark.parametrize(
    ("flag", "what", "where", "evidence"),
    [
        (
            "flows.primary->standby.tasks=abc",
            "must be a whole number",
            "--set flows.primary->standby.tasks",
            "'abc'",
        ),
        ("flows.0.separator=::", "must be '.', '-' or '_'", "--set flows.0.separator", "'::'"),
        ("failover.mode=manual", "input should be 'approve' or 'auto'", "--set failover.mode", "'manual'"),
    ],
)
def test_a_flag_is_in_no_file(tmp_path: Path, flag: str, what: str, where: str, evidence: str):
    error = refused(tmp_path, PAIR, flag)
    assert (error.what, error.where, error.evidence) == (what, where, evidence)


def test_a_variable_is_in_no_file(tmp_path: Path):
    variable = "DRKIT_FLOWS__PRIMARY__STANDBY__TASKS"
    error = refused(tmp_path, PAIR, "flows.0.buckets=0", **{variable: "abc"})
    assert brief(error) == [
        (variable, "must be a whole number: 'abc'"),
        ("--set flows.0.buckets", "input should be greater than 0: '0'"),
    ]


def test_a_value_that_may_be_secret_is_not_quoted(tmp_path: Path):
    error = refused(tmp_path, PAIR + 'tasks = "${env:TOKEN}"\nsource_consumer = 5\n', TOKEN="hunter-2")
    assert "hunter-2" not in str(error.as_dict())
    error = refused(
        tmp_path, PAIR + "[watch]\nwebhook_secret = 17041\n[failover.fence]\nstop_secret = 17041\n"
    )
    assert "17041" not in str(error.as_dict())


# -- any file ----------------------------------------------------------------------------------------

_KEYS = st.sampled_from(["alpha", "beta", '"c.d"', '"e]f"', "gamma"])
_VALUES = st.sampled_from(
    ["1", '"x # [y]"', '"""\na\n[b]\n"""', "[\n 1,\n 2, # ]\n]", "{ x = 1, y = { z = 2 } }", "'''q\n'''"]
)
_BLANK = st.sampled_from(["", "# [comment]", "   "])


@st.composite
def _files(draw: st.DrawFn) -> str:
    """A file of tables in any order, with arrays of tables between them."""
    names = draw(st.lists(_KEYS, unique=True, min_size=1, max_size=4))
    arrays = draw(st.lists(st.sampled_from(["flows", "drills"]), max_size=4))
    headers = [f"[{name}]" for name in names] + [f"[[{name}]]" for name in arrays]
    parts = []
    for header in draw(st.permutations(headers)):
        keys = draw(st.lists(_KEYS, unique=True, max_size=3))
        parts += [draw(_BLANK), f"{header}  # h", *(f"{key} = {draw(_VALUES)}" for key in keys)]
    return "\n".join(parts) + "\n"


@given(_files())
def test_every_setting_is_found_on_its_line_in_any_order_of_tables(text: str):
    lines, rows = lines_of(text), text.splitlines()
    table, counts = "", {"flows": -1, "drills": -1}
    found = set()
    for number, row in enumerate(rows, start=1):
        if row.endswith("# h"):
            name = row.split("]")[0].strip("[") if row.startswith("[[") else row[1 : row.rindex("]")]
            table = name if "." in name else name.strip('"')
            if name in counts:
                counts[name] += 1
                table = f"{name}[{counts[name]}]"
            assert lines[table] == number
            found.add(table)
        elif key := re.match(r'("?[a-z.\]]+"?) = ', row):
            name = key[1] if "." in key[1] else key[1].strip('"')
            assert lines[f"{table}.{name}"] == number
            found.add(f"{table}.{name}")
    assert {at for at in lines if not re.search(r"\.[xyz]$", at)} == found | {
        name for name, n in counts.items() if n >= 0
    }
    document = Document({}, lines=lines)
    for at in lines:
        assert document.line_of(f"{at}.missing") == document.line_of(f"{at}[7]") == lines[at]
