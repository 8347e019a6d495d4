"""Every command line that a page, a runbook or drkit itself prints for typing is one that exists."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
import re
import shlex

import click
import pytest

from drkit.cli.main import root
from tests.support.laws import source_of

ROOT = Path(__file__).parents[3]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "runbooks").glob("*.md")),
]
SOURCES = sorted((ROOT / "drkit").rglob("*.py"))
TYPED = re.compile(r"^(?:\$ )?(?=drkit )")
REMARK = re.compile(r"\s{2,}|\s#\s")
"""Separates a command from the remark after it."""
SAID = re.compile(r"\bdrkit(?: [a-z][a-z-]*){1,2}(?: --[a-z][^\s;,:.`)]*)+")
"""In a sentence: one word or two and an option, so that it is no prose."""


def blocks(text: str) -> Iterator[str]:
    """Command lines of code blocks, continued ones as one."""
    fenced = re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    indented = re.findall(r"^ {4}(drkit .*)$", text, re.MULTILINE)
    for line in [x for b in fenced for x in b.replace("\\\n", " ").splitlines()] + indented:
        if TYPED.match(line):
            yield REMARK.split(TYPED.sub("", line))[0]


def inline(text: str) -> Iterator[str]:
    """The text between backquotes, also over the end of a line."""
    without = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    for found in re.findall(r"`(drkit [^`]+)`", without):
        yield " ".join(found.split())


def said(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Command lines in the texts of a module, given its nodes; what is filled in is one word."""
    parts = set[int]()
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            parts |= {id(v) for v in node.values}
            told = (str(v.value) if isinstance(v, ast.Constant) else "X" for v in node.values)
            yield from SAID.findall("".join(told))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield from SAID.findall(node.value)


@cache
def options(command: click.Command) -> dict[str, click.Option]:
    found = [p for p in command.params if isinstance(p, click.Option)]
    return {name: p for p in found for name in (*p.opts, *p.secondary_opts)}


def wrong(line: str) -> str:
    """What is not right with a command line; empty: nothing."""
    command: click.Command = root
    line = line.partition(" > ")[0]  # the shell writes the rest
    words = [w for w in shlex.split(line)[1:] if w.strip("…[]().")]
    context = click.Context(root)
    while words:
        name, _, value = words.pop(0).partition("=")
        if name in {"--help", "-h", "--version"}:
            return ""
        if name.startswith("-"):
            option = options(command).get(name)
            if option is None:
                return f"{command.name} has no {name}"
            if not option.is_flag and not value and words:
                words.pop(0)
            continue
        if isinstance(command, click.Group):
            inner = command.get_command(context, name)
            if inner is None:
                return f"{command.name} has no command {name}"
            command = inner
        elif not any(isinstance(p, click.Argument) for p in command.params):
            return f"{command.name} takes no {name}"
    return ""


def choices(line: str) -> list[str]:
    """``a|b`` in a line: each of them."""
    found = re.search(r"\S+\|\S+", line)
    if found is None:
        return [line]
    return [line.replace(found[0], one) for one in found[0].split("|")]


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.stem)
def test_every_command_of_a_page_exists(path: Path):
    text = path.read_text(encoding="utf-8")
    lines = {c for line in (*blocks(text), *inline(text)) for c in choices(line)}
    assert {line: why for line in lines if (why := wrong(line))} == {}


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.stem)
def test_every_command_that_drkit_names_exists(path: Path):
    lines = set(said(source_of(path).nodes))
    assert {line: why for line in lines if (why := wrong(line))} == {}


@pytest.mark.parametrize("name", sorted(p.stem for p in (ROOT / "runbooks").glob("*.md")))
def test_what_a_runbook_gives_to_type_can_be_run(name: str):
    """Parsed as a whole: also what a command must have is there."""
    text = (ROOT / "runbooks" / f"{name}.md").read_text(encoding="utf-8")
    lines = re.findall(
        r"^drkit .*$", "\n".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL)), re.MULTILINE
    )
    assert lines
    for line in lines:
        _, *words = shlex.split(line)
        command: click.Command = root
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            found = command.get_command(click.Context(command), words[0])
            assert found is not None, line
            command, words = found, words[1:]
        command.make_context(command.name, words)


def test_beside_what_saves_first_stands_what_it_is_refused_without():
    """Without an authorizer it is refused, with the exit code of a return that is held, and saves nothing."""
    found = 0
    for path in PAGES:
        for block in re.findall(r"```sh\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL):
            found += (saves := "--until-export" in block)
            assert not saves or "--clients-cut" in block, path
    assert found > 3


def test_what_is_wrong_is_seen():
    assert wrong("drkit failover --all --dry-run") == ""
    assert wrong("drkit fence lift --accept-divergence 'its disks are gone'") == ""
    assert wrong("drkit --config x.toml status --json") == ""
    assert wrong("drkit nonsense") == "root has no command nonsense"
    assert wrong("drkit fence nonsense") == "fence has no command nonsense"
    assert wrong("drkit status --nonsense") == "status has no --nonsense"
    assert wrong("drkit status nonsense") == "status takes no nonsense"
    text = 'x = f"then: drkit fence pay --flow {y}, or not"'
    assert list(said(ast.walk(ast.parse(text)))) == ["drkit fence pay --flow"]
    assert list(blocks("    drkit fence show     active fences\n")) == ["drkit fence show"]
