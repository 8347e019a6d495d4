"""Laws of each help: examples that parse, a heading for each option, 80 columns; and errors of typing."""

from __future__ import annotations

import re
import shlex

import click
import pytest

from drkit.cli import main as cli
from drkit.cli.options import Option
from drkit.cli.session import common_options
from tests.commands import commands
from tests.support.cli.parsed import parsed

COMMANDS = dict(commands())
COMMON = {p.opts[-1] for p in common_options()}
WIDTH = 80
IN_EXAMPLE = re.compile(r"\bdrkit [^)>]*[^)> \"]")
"""A command line, also within ``eval "$(…)"`` or before ``> FILE``."""


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))


def help_of(path: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert cli.run([*path.split()[1:], "--help"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("path", COMMANDS)
def test_each_command_has_examples_that_parse(path: str) -> None:
    examples = COMMANDS[path].examples
    assert 3 <= len(examples) <= 5
    assert any(line.startswith(path) or f"({path} " in line for line in examples)
    for line in examples:
        found = IN_EXAMPLE.search(line.replace("->", "-\0"))
        assert found, line
        parsed(shlex.split(found[0].replace("\0", ">"))[1:])


@pytest.mark.parametrize("path", [path for path in COMMANDS if path != "drkit"])
def test_each_option_has_a_heading(path: str) -> None:
    options = [p for p in COMMANDS[path].params if isinstance(p, click.Option)]
    assert {p.opts[-1] for p in options if not isinstance(p, Option)} <= COMMON


@pytest.mark.parametrize("path", COMMANDS)
def test_a_help_fits_and_leaves_the_common_options_to_drkits(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = help_of(path, capsys)
    assert max(map(len, text.splitlines())) <= WIDTH
    headings = re.findall(r"^(?=\S)(.+):$", text, re.MULTILINE)
    assert headings[-1] == "Examples"
    if path == "drkit":
        assert "Common options" in headings
        assert all(f"  {option} " in text for option in COMMON)
    else:
        assert text.endswith("\nCommon options (--config, --set, --json, --log-level, …): drkit --help\n")
        assert "--log-format" not in text


@pytest.mark.parametrize("path", COMMANDS)
def test_values_have_names(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = help_of(path, capsys)
    assert not re.findall(r"^  --\S+ (?:TEXT|INTEGER|FLOAT|PATH)\b.*", text, re.MULTILINE)
    assert "epeatable" not in text
    assert set(re.findall(r"--flow [^ a-z'-]\S*", text)) <= {"--flow SOURCE->TARGET"}


def test_one_sentence_describes_a_command_in_both_helps() -> None:
    for name, sentence in cli._COMMANDS.items():
        command = COMMANDS[f"drkit {name}"]
        assert (command.help or "").partition("\n")[0] == sentence, name


def test_the_sections_hold_each_command_once(capsys: pytest.CaptureFixture[str]) -> None:
    text = help_of("drkit", capsys)
    listed = re.findall(r"^  ([a-z][a-z-]*) {2,}[A-Z]", text, re.MULTILINE)
    assert listed == list(cli._COMMANDS)
    assert text.index("Every day:") < text.index("Failover:") < text.index("Back home:")
    assert text.index("Back home:") < text.index("Set up:") < text.index("Learn:")


@pytest.mark.parametrize(
    ("line", "where", "what"),
    [
        ("statsu", "drkit", "did you mean 'status'?"),
        ("replicat", "drkit", "did you mean 'replicate'?"),
        ("failver --all", "drkit", "did you mean 'failover'?"),
        ("fence payy", "drkit fence", "did you mean 'pay'?"),
        ("xyzzy", "drkit", "drkit --help"),
        ("help statsu", "drkit", "did you mean 'status'?"),
        ("failover --group", "drkit failover", "option '--group' requires an argument"),
        ("failover -all", "drkit failover", "did you mean '--all'?"),
        ("failover --planed", "drkit failover", "did you mean '--planned'?"),
        ("completion", "drkit completion", "choose bash, zsh or fish"),
        ("completion fosh", "drkit completion", "invalid SHELL: 'fosh' is not one of 'bash', 'zsh', 'fish'"),
        ("replay", "drkit replay", "missing option '--from'"),
        ("local kill", "drkit local kill", "choose primary or standby"),
    ],
)
def test_a_wrong_word_is_answered_where_it_is(
    line: str, where: str, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(line.split()) == 2
    err = capsys.readouterr().err
    assert err.startswith("usage: ")
    assert re.search(rf"^  where +{where}$", err, re.MULTILINE)
    assert what in err
    assert "\\n" not in err
