"""What the laws of the house are read from: the sources of drkit and of its tests."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
import gc
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


PACKAGE = ROOT / "drkit"


class Source(NamedTuple):
    name: str
    path: Path
    text: str
    tree: ast.Module

    @property
    def room(self) -> str:
        return [*self.name.split("."), ""][1]

    @property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All nodes of its tree, which several laws go through."""
        return _nodes(self.tree)


@cache
def _nodes(tree: ast.Module) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree))


@contextmanager
def _for_good() -> Iterator[None]:
    """What is made inside stays: a million nodes, through which no collection of garbage is to look."""
    gc.collect()
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()


@cache
def sources(folder: Path = PACKAGE) -> tuple[Source, ...]:
    """Every module below a folder; parsed once in a process, as that takes seconds."""
    found = []
    with _for_good():
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            text = path.read_text(encoding="utf-8")
            found.append(Source(name, path, text, ast.parse(text)))
    return tuple(found)


@cache
def _by_path() -> dict[Path, Source]:
    return {source.path: source for source in sources()}


def source_of(path: Path) -> Source:
    """The module of drkit in this file."""
    return _by_path()[path]


@cache
def modules() -> frozenset[str]:
    return frozenset(s.name for s in sources())


def imported(node: ast.AST) -> Iterator[str]:
    """Full names; for ``from a import b`` both a and, should it be a module, a.b."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "relative import"
        assert node.module
        names = [f"{node.module}.{alias.name}" for alias in node.names]
        inner = [name for name in names if name in modules()]
        if len(inner) < len(names):
            yield node.module
        yield from inner


@cache
def imports(source: Source) -> frozenset[str]:
    return frozenset(name for node in source.nodes for name in imported(node))


def broken(rule: str, found: list[str]) -> None:
    assert not found, rule + ":\n  " + "\n  ".join(found)


def tree(*files: tuple[str, str]) -> list[Source]:
    """Sources that are on no disk: pairs of a path below drkit and a text."""
    found = []
    for name, text in files:
        path = Path("drkit") / name
        parts = path.with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found.append(Source(module, path, text, ast.parse(text)))
    return found
