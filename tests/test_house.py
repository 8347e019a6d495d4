"""The rooms of the tests: what is where, and who uses whom.

`unit/` has no broker, no Java and no other process; `process/` starts programs; `cluster/` starts brokers;
`spark/` Spark; `interop/` has MirrorMaker 2 and Kafka's Java classes beside drkit. `containers/`, `soak/` and
`bench/` run when they are asked for. `runbooks/` executes the pages of `runbooks/`; `mutants/` runs chaos
scenarios on broken builds of drkit. What several of them use is in `support/`, without tests. The laws of
the house itself are beside this file.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.support.laws import ROOT, Source, broken, sources

TESTS = ROOT / "tests"
KINDS = {
    "unit",
    "process",
    "cluster",
    "spark",
    "interop",
    "fuzz",
    "soak",
    "bench",
    "containers",
    "runbooks",
    "mutants",
}
MAX_MODULES = 20
CROWDED = {"bench": "a program of many measurements", "mutants": "a module for each mutant"}


def imported(source: Source) -> Iterator[str]:
    """Full names of what a module imports, those inside of ``from a import b`` as ``a.b``."""
    for node in source.nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def of_tests(tree: Iterable[Source]) -> list[str]:
    """Imports from test modules."""
    return [
        f"{source.name} imports {name}"
        for source in tree
        for name in imported(source)
        if name.startswith("tests.") and any(part.startswith("test_") for part in name.split("."))
    ]


def misplaced(tree: Iterable[Source]) -> list[str]:
    """Test modules in no room of their kind; beside the rooms are the laws of the house alone."""
    found = []
    for source in tree:
        room = source.path.relative_to(TESTS).parts[0]
        if source.path.name.startswith("test_") and room not in KINDS and source.path.parent != TESTS:
            found.append(source.name)
    return found


def test_tests_import_no_tests():
    broken("what several tests use is in tests/support", of_tests(sources(TESTS)))


def test_tests_are_in_rooms():
    broken(f"tests are in {', '.join(sorted(KINDS))}", misplaced(sources(TESTS)))


def test_a_folder_of_tests_can_be_kept_in_mind():
    count = Counter(
        s.path.parent for s in sources(TESTS) if s.path.name not in {"__init__.py", "conftest.py"}
    )
    broken(
        f"folders with more than {MAX_MODULES} modules",
        [
            f"{folder.relative_to(ROOT)}: {number}"
            for folder, number in count.items()
            if number > MAX_MODULES and folder.name not in CROWDED
        ],
    )


def made_up(path: str, text: str) -> Source:
    name = ".".join(Path(path).with_suffix("").parts)
    return Source(name, ROOT / path, text, ast.parse(text))


def test_what_is_out_of_place_is_found():
    for text in (
        "from tests.unit.wire.test_join import batch",
        "from tests.unit.wire import test_join",
        "import tests.unit.wire.test_join as other",
    ):
        assert of_tests([made_up("tests/unit/wire/test_merge.py", text)])
    assert not of_tests(
        [made_up("tests/unit/wire/test_merge.py", "from tests.support.wire.forge import batch")]
    )
    assert misplaced([made_up("tests/model/test_model.py", "")]) == ["tests.model.test_model"]
    assert not misplaced([made_up("tests/unit/model/test_model.py", "")])
