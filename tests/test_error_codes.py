"""Kafka's error codes have names, in drkit/kafka/codes.py alone: read from the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from kafka import errors
import pytest

from drkit.kafka import codes
from tests.support.laws import broken, sources

HOME = "drkit.kafka.codes"
NAMES = {name for name, value in vars(codes).items() if isinstance(value, int)}
KNOWN = {number for number in range(1, 200) if errors.for_code(number) is not errors.UnknownError}
HOLDERS = ("code", "error", "errno")
"""With these words end the names of what holds an error code."""
NOT_KAFKA = {"drkit.repoint", "drkit.cli", "drkit.wire"}
"""Status codes of HTTP, exit codes of processes, compression codecs."""


def numbers(node: ast.expr, known: Mapping[str, ast.expr]) -> Iterator[int]:
    """The integers written in an expression, also through names of the module."""
    match node:
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            yield value
        case ast.Name(id=name) if name in known:
            yield from numbers(known[name], {n: v for n, v in known.items() if n != name})
        case ast.Set(elts=elements) | ast.Tuple(elts=elements) | ast.List(elts=elements):
            for each in elements:
                yield from numbers(each, known)
        case ast.Starred(value=value):
            yield from numbers(value, known)
        case ast.Call(func=ast.Name(id="frozenset" | "set"), args=[argument]):
            yield from numbers(argument, known)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            yield from numbers(left, known)
            yield from numbers(right, known)


def constants(tree: ast.Module) -> dict[str, ast.expr]:
    """What the names of a module are assigned."""
    found: dict[str, ast.expr] = {}
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found[name] = value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                found[name] = value
    return found


def holds_code(node: ast.expr) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name.rpartition("_")[2] in HOLDERS


def offences(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Lines with a number of an error code, and why it is one."""
    known = constants(tree)
    for name, value in known.items():
        written = set(numbers(value, {}))
        if name.strip("_") in NAMES and written:
            yield value.lineno, f"{name} is a name of {HOME}"
        elif isinstance(value, ast.Call) and len(written) > 1 and written <= KNOWN | {-1, 0}:
            yield value.lineno, f"{name} is a set of error codes"
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare):
            continue
        sides = [node.left, *node.comparators]
        if any(holds_code(side) for side in sides):
            found = {n for side in sides for n in numbers(side, known)} & KNOWN
            if found:
                yield node.lineno, f"{ast.unparse(node)} compares with {sorted(found)}"


def test_error_codes_have_names():
    found = [
        f"{s.name}:{line}: {why}"
        for s in sources()
        if s.name != HOME and ".".join(s.name.split(".")[:2]) not in NOT_KAFKA
        for line, why in offences(s.tree)
    ]
    broken(f"numbers of Kafka's error codes belong to {HOME}", found)


@pytest.mark.parametrize(
    "text",
    [
        "_FENCED: Final = frozenset({47, 90})",
        "MOVES = frozenset({14, *{15, 16}})",
        "_NOT_COORDINATOR = 16",
        "def f(a): return a.error_code == 29",
        "def f(code): return code in {0, 46}",
        "_X: Final = 45\ndef f(code): return _X != code",
        "_A = 3\n_B = frozenset({_A, 100})\ndef f(t): return t.error in _B",
    ],
)
def test_a_number_is_found(text: str):
    assert list(offences(ast.parse(text)))


@pytest.mark.parametrize(
    "text",
    [
        "SAY_AT = frozenset({5, 20, 1000})",
        "_TRIES = 5",
        "def f(a): return a.error_code in codes.FENCED",
        "def f(code): return code == -1",
    ],
)
def test_other_numbers_are_not(text: str):
    assert not list(offences(ast.parse(text)))
