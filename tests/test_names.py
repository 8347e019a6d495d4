"""The laws of names: of classes, of the libraries for Kafka, of the Kafka objects that drkit makes."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator
import re

import pytest

from drkit.flow_state.records import KINDS
from tests.support.laws import Source, broken, imports, sources, tree

CLIENTS_OF_KAFKA = {"confluent_kafka", "kafka"}
THEIR_ROOMS = {"kafka", "client", "demo", "exercise"}
"""Connections, the clients of applications, and the applications of the demo, of scenarios and of drills."""
OF_LIBRARIES = {"Abort", "TimeoutExpired", "launch_gateway"}
"""What docstrings refer to and drkit does not import by name."""
NAMED_TWICE: dict[str, str] = {}
"""Public classes that may share a name, each with its reason."""
STATE_ROOM = "flow_state"
OWN_NAME = re.compile(r"drkit(-[a-z-]+)?\.(\S*\.internal)?|drkit-[a-z-]+\.internal")
"""How a name of drkit's own topics or transactional ids begins, up to the first variable part."""
STATE_KEYS = {kind.KEY for kind in KINDS if set(kind.KEY) & set("/-")}
"""Keys of one word are words of other formats too."""
KEYS_OF_NOTES = {
    "drkit.detect.agents": "a note of the watch topic, which only drkit/detect/ reads",
    "drkit.detect.note_kinds": "likewise",
    "drkit.detect.votes": "likewise",
}


def libraries_elsewhere(tree: Iterable[Source]) -> list[str]:
    """Imports of a library for Kafka outside its rooms."""
    return [
        f"{s.name} imports {name}"
        for s in tree
        if s.room not in THEIR_ROOMS
        for name in sorted(imports(s))
        if name.partition(".")[0] in CLIENTS_OF_KAFKA
    ]


def errors_elsewhere(tree: Iterable[Source]) -> list[str]:
    """Imports of kafka-python's errors outside the room that converts them."""
    return [
        s.name
        for s in tree
        if s.room != "kafka"
        for node in s.nodes
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in node.names
        if f"{getattr(node, 'module', None) or ''}.{name.name}.".lstrip(".").startswith("kafka.errors.")
    ]


def texts(node: ast.AST) -> Iterator[tuple[int, str, bool]]:
    """Strings that are no docstrings: line, text up to the first variable part, and whether one follows."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Expr(value=ast.Constant(value=str())):
                continue
            case ast.Constant(value=str() as text):
                yield child.lineno, text, False
            case ast.JoinedStr(values=[ast.Constant(value=str() as text), *_]):
                yield child.lineno, text, True
            case _:
                yield from texts(child)


def is_own_name(text: str, *, goes_on: bool) -> bool:
    """Whether the text is, or begins, a name of drkit's own topics or transactional ids."""
    return (goes_on and bool(OWN_NAME.fullmatch(text))) or bool(re.fullmatch(r"drkit-\S*\.internal", text))


def built_elsewhere(tree: Iterable[Source]) -> list[str]:
    """Names of internal topics and transactional ids, and keys of the state, outside their room."""
    return [
        f"{s.name}:{line}: {text!r}"
        for s in tree
        if s.room != STATE_ROOM
        for line, text, goes_on in texts(s.tree)
        if is_own_name(text, goes_on=goes_on) or text in STATE_KEYS
    ]


def kinds_elsewhere(tree: Iterable[Source]) -> list[str]:
    """Modules with kinds of records outside of the room of the state."""
    return [
        s.name
        for s in tree
        if s.room != STATE_ROOM
        for node in s.nodes
        if (isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "KEY")
        or (isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "state_record")
    ]


def twice(tree: Iterable[Source]) -> dict[str, list[str]]:
    """Public classes with the name of another one: name → modules."""
    found: dict[str, list[str]] = {}
    for source in tree:
        for node in source.nodes:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(source.name)
    return {name: modules for name, modules in found.items() if len(modules) > 1}


def test_a_class_has_its_name_for_itself():
    found = twice(sources())
    others = [f"{name}: {', '.join(where)}" for name, where in found.items() if name not in NAMED_TWICE]
    broken("public classes with one name", others)
    broken("listed, and there once only", sorted(NAMED_TWICE.keys() - found.keys()))
    assert list(NAMED_TWICE) == sorted(NAMED_TWICE)


def test_a_second_class_of_a_name_is_found():
    one, other = ("kafka/raw.py", "class Place: pass"), ("status/look.py", "def f():\n    class Place: pass")
    assert twice(tree(one, other)) == {"Place": ["drkit.kafka.raw", "drkit.status.look"]}
    assert not twice(tree(one, ("status/look.py", "class _Place: pass")))


def test_libraries_for_kafka_stay_in_their_rooms():
    broken("what drkit uses of them, drkit/kafka/ hands on", libraries_elsewhere(sources()))


def test_errors_of_the_library_are_known_in_one_room():
    broken("drkit/kafka/ raises RawError and RequestUnsupported instead", errors_elsewhere(sources()))


@pytest.mark.parametrize(
    "text", ["from kafka.errors import KafkaError", "from kafka import errors", "import kafka.errors"]
)
def test_an_error_of_the_library_elsewhere_is_found(text: str):
    assert errors_elsewhere(tree(("client/consumer.py", text)))
    assert not errors_elsewhere(tree(("kafka/raw.py", text)))


def test_names_of_own_topics_and_keys_of_the_state_are_built_in_one_room():
    broken(f"these belong to drkit/{STATE_ROOM}/", built_elsewhere(sources()))


def test_kinds_of_records_are_in_one_room():
    found = set(kinds_elsewhere(sources()))
    broken(f"kinds of records belong to drkit/{STATE_ROOM}/", sorted(found - KEYS_OF_NOTES.keys()))
    broken("listed, and without a kind of record", sorted(KEYS_OF_NOTES.keys() - found))
    assert list(KEYS_OF_NOTES) == sorted(KEYS_OF_NOTES)


@pytest.mark.parametrize(
    "text",
    [
        "import kafka",
        "from confluent_kafka import Message",
        "def f():\n    from kafka.errors import for_code",
    ],
)
def test_a_library_in_another_room_is_found(text: str):
    assert libraries_elsewhere(tree(("status/look.py", text)))
    assert not libraries_elsewhere(tree(("kafka/raw.py", text)))


@pytest.mark.parametrize(
    ("text", "is_broken"),
    [
        ('def f(a): return f"drkit-state.{a}.internal"', True),
        ('def f(a, b): return f"drkit.{a}.{b}.lease"', True),
        ('TOPIC = "drkit-canary.internal"', True),
        ('def f(a): return f"topic/{a}"', True),
        ('values.get("producer-ids")', True),
        ('"""Reads ``drkit-state.a.internal``."""', False),
        ('raise Refused("was drkit-state.*.internal deleted?")', False),
        ('FILE = "drkit.toml"', False),
        ('body["lease"]', False),
    ],
)
def test_a_name_built_elsewhere_is_found(text: str, *, is_broken: bool):
    assert bool(built_elsewhere(tree(("status/look.py", text)))) is is_broken
    assert not built_elsewhere(tree(("flow_state/names.py", text)))


@pytest.mark.parametrize(
    "text",
    [
        'class Beat(Record):\n    KEY: ClassVar[str] = "beat"',
        '@state_record("beat")\nclass Beat(StateRecord):\n    at_ms: int',
        '@record.state_record("beat")\nclass Beat(StateRecord):\n    at_ms: int',
    ],
)
def test_a_kind_of_record_elsewhere_is_found(text: str):
    assert kinds_elsewhere(tree(("status/look.py", text)))
    assert not kinds_elsewhere(tree(("flow_state/kinds/run.py", text)))


def named_in_docstrings(found: Source) -> set[str]:
    """Errors and objects that docstrings refer to, by the last part of their names."""
    raised = re.findall(r"(?::r|\bR)aises ([\w.]*[A-Z]\w*)", found.text)
    named = re.findall(r":(?:class|func|meth|data|attr|exc):`~?([^`]+)`", found.text)
    return {name.rpartition(".")[2] for name in (*raised, *named)}


def defined(found: Source) -> Iterator[str]:
    for node in found.nodes:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (a.asname or a.name for a in node.names)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.id if isinstance(node, ast.Name) else node.attr


def unknown_names(tree: Iterable[Source]) -> list[str]:
    tree = list(tree)
    known = {*dir(builtins), *(name for found in tree for name in defined(found)), *OF_LIBRARIES}
    return [f"{found.name}: {n}" for found in tree for n in sorted(named_in_docstrings(found) - known)]


def test_docstrings_name_what_exists():
    broken("docstrings refer to names that nothing has", unknown_names(sources()))


def test_a_name_that_nothing_has_is_found():
    long = 'def f():\n    """Do.\n\n    :raises Taken: another run was faster\n    """'
    for text in (long, 'def f():\n    """Do. Raises Taken: another run was faster."""'):
        assert unknown_names(tree(("status/look.py", text)))
        assert not unknown_names(tree(("status/look.py", text), ("errors.py", "class Taken(Exception): ...")))
