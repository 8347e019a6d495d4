"""Every refusal in drkit's source says what was seen and what to do."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from drkit.config import changes
from drkit.failover.journal import journal
from tests.support.laws import source_of

ROOT = Path(__file__).parents[1]
NEEDED = {
    "Refused": {"evidence", "hint"},
    "ConfigError": {"where", "hint"},
    "Usage": {"where", "hint"},
    "NotAuthorized": {"where", "evidence", "hint"},
    "NotAuthenticated": {"where", "evidence", "hint"},
    "LeaseTaken": {"where", "evidence", "hint"},
}
"""Keywords of each kind and of those derived from it. A refused name gets its ``where`` from the
caller who knows the flow; what is wrong in a configuration is often all the evidence there is."""
NO_PLACE = {"drkit/local/jars.py", "drkit/demo/stage.py", "drkit/local/cluster.py"}
"""Local clusters and the demonstration: they have neither a flow nor a setting."""
SAY_TOO_LITTLE = {"UsageError", "BadParameter", "ClickException", "BadOptionUsage", "Abort"}
"""Click's own errors name neither the line in the file nor what to do: they are for click alone."""
SOURCES = sorted((ROOT / "drkit").rglob("*.py"))


def poor(text: str) -> list[str]:
    """Refusals of a text that say too little, each with its line."""
    return poor_in(ast.parse(text), NEEDED)


def poor_in(tree: ast.Module, kinds: dict[str, set[str]]) -> list[str]:
    """Refusals that say too little, each with its line.

    :param kinds: name of the class in this module → the keywords that it needs
    """
    found = []
    for node, may_be_empty in _calls(tree, frozenset()):
        name = _name(node.func)
        if name in kinds:
            said = {k.arg for k in node.keywords if not _is_empty(k.value, may_be_empty)}
            if missing := kinds[name] - said:
                found.append(f"line {node.lineno}: {name} without {', '.join(sorted(missing))}")
        elif name in SAY_TOO_LITTLE:
            found.append(f"line {node.lineno}: {name}: ConfigError says where, and what to do")
    return found


def _calls(node: ast.AST, may_be_empty: frozenset[str]) -> Iterator[tuple[ast.Call, frozenset[str]]]:
    """All calls, with the parameters around them that may be an empty text."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        given = node.args
        behind = given.args[len(given.args) - len(given.defaults) :]
        defaults = [*given.defaults, *given.kw_defaults]
        pairs = zip([*behind, *given.kwonlyargs], defaults, strict=True)
        may_be_empty |= {a.arg for a, d in pairs if isinstance(d, ast.Constant) and d.value == ""}
    if isinstance(node, ast.Call):
        yield node, may_be_empty
    for child in ast.iter_child_nodes(node):
        yield from _calls(child, may_be_empty)


def _name(function: ast.expr) -> str:
    """Also of ``errors.Refused``."""
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def _is_empty(value: ast.expr, may_be_empty: frozenset[str]) -> bool:
    if isinstance(value, ast.Name):
        return value.id in may_be_empty
    return isinstance(value, ast.Constant) and not value.value


@cache
def derived() -> dict[tuple[str, str], set[str]]:
    """Classes derived from the kinds above: (module, name) → the keywords that they need."""
    found = {}
    for path in SOURCES:
        for node in source_of(path).nodes:
            if isinstance(node, ast.ClassDef):
                for base in map(_name, node.bases):
                    if base in NEEDED:
                        found[_module(path), node.name] = NEEDED[base]
    return found


def kinds_of(path: Path) -> dict[str, set[str]]:
    """What the kinds are called in a file: those derived only where they are defined or imported."""
    here = dict(NEEDED)
    imported = {
        (node.module, alias.name)
        for node in source_of(path).nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for (module, name), needed in derived().items():
        if module == _module(path) or (module, name) in imported:
            here[name] = needed
    return here


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.stem)
def test_every_refusal_says_what_was_seen_and_what_to_do(path: Path):
    if path.relative_to(ROOT).as_posix() not in NO_PLACE:
        assert not poor_in(source_of(path).tree, kinds_of(path))


def test_derived_kinds_are_seen():
    names = {name for _, name in derived()}
    assert {"RunLocked", "OlderTerm"} <= names
    assert kinds_of(Path(str(journal.__file__)))["RunLocked"] == NEEDED["Refused"]
    assert "RunLocked" not in kinds_of(Path(str(changes.__file__))), "it neither defines nor imports it"


def test_a_poor_refusal_is_seen():
    assert poor("raise Refused('no', where='x', evidence='1')") == ["line 1: Refused without hint"]
    assert poor("raise ConfigError('no', where='x', hint='')") == ["line 1: ConfigError without hint"]
    assert poor("raise errors.Refused('no', hint='set y')") == ["line 1: Refused without evidence"]
    assert poor("raise click.UsageError('no')")
    assert not poor("raise Refused('no', where='x', evidence='1', hint='set y')")
    passed_on = "def f(x, hint=''):\n    raise ConfigError('no', where=x, hint=hint{})\n"
    assert poor(passed_on.format("")) == ["line 2: ConfigError without hint"]
    assert not poor(passed_on.format(" or 'set y'"))
