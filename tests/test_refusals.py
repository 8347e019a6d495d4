"""Every error has a code of the catalogue and its values, and says what was seen and what to do."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
import re
from string import Formatter

import pytest

from drkit.catalogue import ERRORS, filled
from drkit.catalogue.entry import Entry
from drkit.config import changes
from drkit.journal import journal
from tests.support.errors import constant_parts
from tests.support.laws import source_of

ROOT = Path(__file__).parents[1]
NEEDED = {
    "DrkitError": set[str](),
    "Failed": set[str](),
    "ClusterUnreachable": set[str](),
    "Refused": {"evidence", "hint"},
    "ConfigError": {"where", "hint"},
    "Usage": {"where", "hint"},
    "NotAuthorized": {"where", "evidence", "hint"},
    "NotAuthenticated": {"where", "evidence", "hint"},
    "LeaseTaken": {"where", "evidence", "hint"},
}
"""Keywords of each kind and of those derived from it, where the catalogue has no hint. A refused name gets
its ``where`` from the caller who knows the flow; what is wrong in a configuration is often all the evidence
there is."""
EXIT_CODES = {"Refused": 3, "LeaseTaken": 3, "ConfigError": 2, "Usage": 2}
NO_PLACE = {"drkit/local/jars.py", "drkit/demo/stage.py", "drkit/local/cluster.py"}
"""Local clusters and the demonstration: they have neither a flow nor a setting."""
SAY_TOO_LITTLE = {"UsageError", "BadParameter", "ClickException", "BadOptionUsage", "Abort"}
"""Click's own errors name neither the line in the file nor what to do: they are for click alone."""
ALLOWED = {
    "the old primary has more partitions": "a condition of a page",
    "'soon' is not a whole number": "a problem of the configuration",
    "a failover is under way": "a condition of a page",
    "topics or topics_exclude of standby->primary leave out orders: nothing copies them": "a report",
    "topics or topics_exclude of s->p leave it out": "the status of a pair",
    "watch.third: there is no cluster 'witnes' (did you mean 'witness'?)": "a problem of the configuration",
    "flows[0].source: there is no cluster 'primry' (did you mean 'primary'?)": "likewise",
    "may not list the ACLs of ": "a note about the choice of a fence",
    "drkit itself: a copy is not empty up to where its seed begins": "docs/chaos.json has it of a run",
    "drkit itself: the new primary has records with the content of some of the tail: duplicates or "
    "distinct?": "likewise",
    "drkit itself: a translated position does not lead back to where it came from": "likewise",
}
"""Texts of tests that resemble a sentence of the catalogue, with the reason why they may."""
OWN = {"where", "evidence", "hint", "kafka_code"}
"""Keywords that are no values of the catalogue."""
SOURCES = sorted(p for p in (ROOT / "drkit").rglob("*.py") if "catalogue" not in p.parts)


def faults_of(tree: ast.Module, kinds: Mapping[str, str]) -> list[str]:
    """What is wrong with the errors that a module makes, each with its line.

    :param kinds: name of a class in this module → the name in :data:`NEEDED` that it derives from
    """
    found = []
    chosen = _chosen(tree, kinds)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = _name(node.func)
        if name in SAY_TOO_LITTLE:
            found.append(f"line {node.lineno}: {name}: ConfigError says where, and what to do")
        elif node.args:
            own = {kinds[name]} if name in kinds else chosen.get(name, set())
            faults = sorted({fault for kind in own for fault in _faults(node, kind)})
            found += [f"line {node.lineno}: {name}{fault}" for fault in faults]
    return found


def _chosen(tree: ast.Module, kinds: Mapping[str, str]) -> dict[str, set[str]]:
    """Variables that hold one of several kinds: ``kind = NotAuthorized if ... else Failed``."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.IfExp(body=one, orelse=other)):
                found.setdefault(name, set()).update(kinds[n] for n in map(_name, (one, other)) if n in kinds)
    return found


def _faults(call: ast.Call, kind: str) -> Iterator[str]:
    given = {k.arg: k.value for k in call.keywords}
    said = {
        name for name, value in given.items() if not (isinstance(value, ast.Constant) and not value.value)
    }
    codes = [n.value for n in _codes(call.args[0])]
    known = [ERRORS[code] for code in codes if code in ERRORS]
    if unknown := [code for code in codes if code not in ERRORS]:
        yield f": the catalogue has no {unknown}"
    if not codes or (known and all(entry.hint for entry in known)):
        said.add("hint")  # a code that is passed on: its entry has the hint
    if missing := NEEDED[kind] - said:
        yield f" without {', '.join(sorted(missing))}"
    for entry in known:
        if entry.exit_code != EXIT_CODES.get(kind, 1):
            yield f" has another exit code than {entry.sentence!r}"
        wanted = placeholders(entry.sentence) | (set() if "hint" in given else placeholders(entry.hint))
        if None not in given and (lacking := wanted - set(given)):
            yield f" without the values {sorted(lacking)} of {entry.sentence!r}"
    if len(known) == 1 and (
        extra := set(given) - OWN - placeholders(known[0].sentence + known[0].hint) - {None}
    ):
        yield f" with values that the catalogue does not use: {sorted(map(str, extra))}"


def _codes(node: ast.expr) -> Iterator[ast.Constant]:
    """The codes that an argument can be; none for a variable."""
    if isinstance(node, ast.Constant):
        yield node
    elif isinstance(node, ast.IfExp):
        yield from _codes(node.body)
        yield from _codes(node.orelse)
    elif isinstance(node, ast.JoinedStr | ast.BinOp):
        yield ast.Constant("a sentence")


def placeholders(template: str) -> set[str]:
    """Return the names of its values, also of those within a command."""
    fields = [(name, words or "") for _, name, words, _ in Formatter().parse(template) if name]
    return {name for name, _ in fields if name != "drkit"}.union(*(placeholders(w) for _, w in fields))


def _name(function: ast.expr) -> str:
    """Also of ``errors.Refused``."""
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


@cache
def derived() -> dict[tuple[str, str], str]:
    """Classes derived from the kinds above: (module, name) → the kind."""
    found = {}
    for path in SOURCES:
        for node in source_of(path).nodes:
            if isinstance(node, ast.ClassDef) and not _has_own_init(node):
                for base in map(_name, node.bases):
                    if base in NEEDED:
                        found[_module(path), node.name] = node.name if node.name in NEEDED else base
    return found


def _has_own_init(node: ast.ClassDef) -> bool:
    own = [f for f in node.body if isinstance(f, ast.FunctionDef) and f.name == "__init__"]
    return any("code" not in {a.arg for a in f.args.posonlyargs} for f in own)


def kinds_of(path: Path) -> dict[str, str]:
    """What the kinds are called in a file: those derived only where they are defined or imported."""
    here = {name: name for name in NEEDED}
    imported = {
        (node.module, alias.name)
        for node in source_of(path).nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for (module, name), kind in derived().items():
        if module == _module(path) or (module, name) in imported:
            here[name] = kind
    return here


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.stem)
def test_every_error_has_a_code_and_says_what_to_do(path: Path):
    if path.relative_to(ROOT).as_posix() not in NO_PLACE:
        assert not faults_of(source_of(path).tree, kinds_of(path))


def test_every_code_is_raised():
    texts = {n.value for p in SOURCES for n in source_of(p).nodes if isinstance(n, ast.Constant)}
    assert not set(ERRORS) - texts, "the catalogue has codes that nothing raises"


@pytest.mark.parametrize("code", ERRORS)
def test_an_entry_is_one_sentence_with_a_page_that_exists(code: str):
    entry: Entry = ERRORS[code]
    assert re.fullmatch(r"[a-z][a-z0-9_]+", code)
    assert not entry.sentence.endswith("."), "no full stop: the evidence follows"
    assert not entry.page or (ROOT / "runbooks" / f"{entry.page}.md").is_file()


_LONG = 20
_PARTS = {p for e in ERRORS.values() for p in constant_parts(e.sentence) if len(p) >= _LONG}
_ALL_PARTS = "\n".join(_PARTS)


def copies_in(tree: ast.Module) -> dict[str, int]:
    """Return the texts that hold a part of a sentence, or are one, each with its line; no docstrings."""
    docs = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    return {
        n.value: n.lineno
        for n in ast.walk(tree)
        if isinstance(n, ast.Constant)
        and isinstance(n.value, str)
        and id(n) not in docs
        and _is_copy(n.value)
    }


def _is_copy(text: str) -> bool:
    text = text.replace("\\", "").strip()  # as a regular expression has it
    return len(text) >= _LONG and (text in _ALL_PARTS or any(p in text for p in _PARTS))


def test_tests_hold_no_copy_of_a_sentence():
    """They compare codes, or take the sentence from the catalogue: one place to rewrite it."""
    found, allowed = [], set()
    for path in sorted((ROOT / "tests").rglob("*.py")):
        if path == Path(__file__):
            continue
        copies = copies_in(ast.parse(path.read_text(encoding="utf-8")))
        allowed |= ALLOWED.keys() & copies.keys()
        found += [
            f"{path.relative_to(ROOT)}:{n}: {text}" for text, n in copies.items() if text not in ALLOWED
        ]
    assert not found
    assert allowed == ALLOWED.keys(), "texts that no test has any more"


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("assert 'the data loss would exceed rpo_seconds' in err", True),
        ("assert 'data loss would exceed rpo_seconds' in err", True),
        ("assert f'refused: the data loss would exceed rpo_seconds {x}' in err", True),
        ("assert error.code == 'rpo_exceeded'", False),
        ("'the data loss would exceed rpo_seconds'", False),
    ],
)
def test_a_copy_of_a_sentence_is_seen(text: str, *, is_found: bool):
    assert bool(copies_in(ast.parse(text))) is is_found


def test_a_command_has_its_values():
    hint = "see {drkit:status --flow '{flow}'}; or add: {drkit:--term {term}}"
    assert filled(hint, {"flow": "a->b", "term": 2}) == "see drkit status --flow 'a->b'; or add: --term 2"
    with pytest.raises(KeyError):
        filled("{missing}", {})


def test_derived_kinds_are_seen():
    names = {name for _, name in derived()}
    assert {"RunLocked", "OlderTerm"} <= names
    assert kinds_of(Path(str(journal.__file__)))["RunLocked"] == "Refused"
    assert "RunLocked" not in kinds_of(Path(str(changes.__file__))), "it neither defines nor imports it"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("Refused('rpo_exceeded', where='x', evidence='1')", "without hint"),
        ("ConfigError('config_problem', where='x', hint='', problem='p')", "without hint"),
        ("Refused('no_quorum', hint='set y')", "without evidence"),
        ("Refused('a sentence of its own', evidence='1', hint='h')", "the catalogue has no"),
        ("Failed(f'cannot {x}')", "the catalogue has no"),
        ("Failed('no_quorum')", "another exit code"),
        ("ConfigError('config_problem', where='x', hint='h')", "without the values ['problem']"),
        ("Failed('jobs_cancelled', number=1)", "does not use: ['number']"),
        ("click.UsageError('no')", "ConfigError says where"),
        (
            "kind(f'cannot {x}', evidence='1', hint='h')\nkind = Refused if x else Failed",
            "the catalogue has no",
        ),
    ],
)
def test_a_poor_error_is_seen(text: str, fault: str):
    found = faults_of(ast.parse(f"raise {text}"), {name: name for name in NEEDED})
    assert len(found) == 1
    assert fault in found[0]


def test_a_good_error_passes():
    text = "raise Refused('no_quorum', where='x', evidence='1')"
    assert not faults_of(ast.parse(text), {name: name for name in NEEDED})
