"""The laws of the house, read from the source: what stays pure, how large things get, what names say.

Those of the rooms, such as who may import whom, are in `test_rooms.py`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
import re
import sys

import pytest

from tests.support.laws import PACKAGE, ROOT, Source, broken, imports, modules, sources, tree

PURE = ("offsets", "wire", "topology")
PURE_MAY_USE = {"model", "errors", "counted"}
WORLDLY = {
    "asyncio", "datetime", "io", "logging", "multiprocessing", "os", "pathlib", "random", "secrets", "select",
    "selectors", "shutil", "signal", "socket", "ssl", "subprocess", "sys", "tempfile", "threading", "time",
    "urllib",
}  # fmt: skip
# Checksums and codecs in plain Python would be a hundred times slower: one module has them all.
# threading: a compressor keeps its memory between calls, so each thread has its own.
# Arrays: joining records one by one is most of the work where producers send small batches.
FOREIGN_IN_PURE = {
    "drkit.wire.codecs": {"cramjam", "google_crc32c", "lz4", "zstandard", "threading"},
    "drkit.wire.join": {"numpy", "pyarrow"},
}

# Only these may load a module late, each because loading it early would cost every command.
LATE_IMPORTS = {
    "drkit.exercise.processes": "its children run drkit's commands as a user types them, from above",
    "drkit.chaos.run": "chaostoolkit-lib is an optional package; only its own command needs drkit's screens",
    "drkit.chaos.scenario": "chaostoolkit-lib and PyYAML are optional packages, needed for scenarios only",
    "drkit.cli.loading": "what a command does loads when it runs, so that no --help needs a client of Kafka",
    "drkit.export.parts": "only who reads or writes Parquet needs pyarrow",
    "drkit.export.places": "only a place that is not of this machine needs pyarrow",
    "drkit.export.run": "a failover imports what may export: only one that does needs Spark",
    "drkit.wire.merge": "only who joins batches needs numpy and pyarrow; a command that reads some does not",
    "drkit.failover.loss.outlived": "only who compares keys of a compacted topic needs numpy",
    "drkit.kafka.security.keystores": "cryptography is an optional package, needed for PKCS #12 only",
    "drkit.repoint.configmap": "PyYAML is an optional package, needed for a kubeconfig in YAML only",
}
MAX_LINES = 500
PRODUCT_LINES = 101_729
"""It only falls: a new capability is paid for by removing lines elsewhere."""
MAX_FUNCTION_LINES = 50
LONG_FUNCTIONS: dict[str, str] = {}
BROAD_EXCEPT = {
    "drkit.exercise.processes": "a child process ends there, whatever it was; its log has the traceback",
    "drkit.cli.main": "the last line of defence: a user gets a sentence instead of a traceback",
    "drkit.replicate.epochs": "what ends the epochs is kept and raised by the flow's own thread",
    "drkit.replicate.flow_thread": "the last line of defence of a flow's thread: the flow fails, by name",
    "drkit.time_limit": "a thread's error is raised where its result is asked for",
    "drkit.copy_task.core.context": "a callback's error is kept, and raised by the task outside the loop",
}
MAX_POSITIONAL = 6
TAKES_ANY_NUMBER = {"pack", "pack_into"}
"""Of `struct`: its arguments have no names."""
NAMED_AFTER = {"drkit.kafka.transport.WideManager": "it is a KafkaConnectionManager of kafka-python"}
BAD_NAMES = {"utils", "util", "helpers", "helper", "manager", "common_utils", "misc"}


def test_no_cycles():
    graph = {s.name: {n for n in imports(s) if n in modules() and n != s.name} for s in sources()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"import cycle: {' -> '.join(error.args[1])}")


def test_no_import_hides_in_a_function():
    found = []
    for source in sources():
        functions = [n for n in source.nodes if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
        inner = {n for f in functions for n in ast.walk(f)}
        late: list[ast.AST] = [n for n in inner if isinstance(n, (ast.Import, ast.ImportFrom))]
        late += [n for n in inner if isinstance(n, ast.Call) and "import_module" in ast.unparse(n.func)]
        if late and source.name not in LATE_IMPORTS:
            found += [f"{source.name}:{getattr(n, 'lineno', 0)}" for n in late]
    broken("imports inside functions", found)


def test_pure_rooms_touch_nothing():
    found = []
    for source in sources():
        if source.room not in PURE:
            continue
        for name in imports(source):
            top = name.split(".")[0]
            if top == "drkit":
                used = [*name.split("."), ""][1]
                bad = used not in {*PURE_MAY_USE, source.room, ""}
            else:
                worldly = top in WORLDLY or top not in sys.stdlib_module_names
                bad = worldly and top not in FOREIGN_IN_PURE.get(source.name, set())
            if bad:
                found.append(f"{source.name} imports {name}")
        calls = [n for n in source.nodes if isinstance(n, ast.Call)]
        found += [f"{source.name}:{c.lineno} opens a file" for c in calls if ast.unparse(c.func) == "open"]
    broken("pure rooms know no socket, clock, file or foreign package", found)


@pytest.mark.parametrize(("library", "room"), [("click", "cli"), ("rich", "cli")])
def test_library_stays_in_its_room(library: str, room: str):
    found = [
        source.name
        for source in sources()
        if source.room != room and any(name.split(".")[0] == library for name in imports(source))
    ]
    broken(f"{library} belongs to drkit/{room}/", found)


def test_files_are_short():
    found = [
        f"{s.name}: {lines} lines"
        for s in (*sources(), *sources(ROOT / "tests"))
        if (lines := len(s.text.splitlines())) > MAX_LINES
    ]
    broken(f"files over {MAX_LINES} lines", found)


def test_the_product_does_not_grow():
    lines = sum(len(source.text.splitlines()) for source in sources())
    assert lines <= PRODUCT_LINES, f"drkit/ has {lines:,} lines"


def test_functions_are_short():
    found = []
    for source in (*sources(), *sources(ROOT / "tests")):
        for node in source.nodes:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lines = (node.end_lineno or 0) - node.lineno + 1
                name = f"{source.name}.{node.name}"
                if lines > MAX_FUNCTION_LINES and name not in LONG_FUNCTIONS:
                    found.append(f"{name}: {lines} lines")
    broken(f"functions over {MAX_FUNCTION_LINES} lines", found)


def test_every_package_says_what_it_is():
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    found = []
    for folder in sorted(folders):
        init = folder / "__init__.py"
        if not init.is_file() or not ast.get_docstring(ast.parse(init.read_text(encoding="utf-8"))):
            found.append(str(init.relative_to(ROOT)))
    broken("packages without a docstring", found)


def undocumented(tree: Iterable[Source]) -> list[str]:
    """Public methods without a docstring that override none that has one."""
    classes = {n.name: n for s in tree for n in s.nodes if isinstance(n, ast.ClassDef)}

    def documented(name: str) -> set[str]:
        node = classes.get(name.rpartition(".")[2])
        if node is None:
            return set()
        bases = [ast.unparse(base).partition("[")[0] for base in node.bases]
        # A class may have the name of its base, which is a library's.
        inherited = {m for b in bases if b.rpartition(".")[2] != node.name for m in documented(b)}
        return inherited | {m.name for m in methods_of(node) if ast.get_docstring(m)}

    return [
        f"{name}.{method.name}"
        for name, node in classes.items()
        for method in methods_of(node)
        if not (name.startswith("_") or method.name.startswith("_") or method.name in documented(name))
    ]


def methods_of(node: ast.ClassDef) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [m for m in node.body if isinstance(m, ast.FunctionDef | ast.AsyncFunctionDef)]


def test_only_an_override_has_no_docstring():
    broken("public methods without a docstring", undocumented(sources()))


def test_a_method_without_a_docstring_is_found():
    base = 'class Step:\n    def run(self):\n        """Run."""\n'
    assert not undocumented(tree(("steps/one.py", base + "class One(Step):\n    def run(self): ...")))
    assert undocumented(tree(("steps/one.py", base + "class One(Step):\n    def walk(self): ...")))


def test_names_say_what_is_inside():
    found = [s.name for s in sources() if BAD_NAMES & set(s.name.split("."))]
    classes = [(s, n) for s in sources() for n in s.nodes if isinstance(n, ast.ClassDef)]
    poor = ("manager", "helper", "utils")
    found += [f"{s.name}.{c.name}" for s, c in classes if c.name.lower().endswith(poor)]
    found = [name for name in found if name not in NAMED_AFTER]
    broken("names that say nothing", found)


def test_no_error_is_swallowed():
    found = []
    for source in sources():
        for node in source.nodes:
            if not isinstance(node, ast.ExceptHandler) or source.name in BROAD_EXCEPT:
                continue
            broad = node.type is None or ast.unparse(node.type) in {"Exception", "BaseException"}
            if broad and not any(isinstance(n, ast.Raise) for n in ast.walk(node)):
                found.append(f"{source.name}:{node.lineno}")
    broken("broad except without raise", found)


def towers(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Lines of calls with too many arguments without names, and the calls; ``*some`` counts as one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and len(node.args) > MAX_POSITIONAL:
            name = ast.unparse(node.func)
            if name.rpartition(".")[2] not in TAKES_ANY_NUMBER:
                yield node.lineno, name


def test_many_arguments_have_names():
    found = [f"{s.name}:{line}: {name}" for s in sources() for line, name in towers(s.tree)]
    broken(f"calls with more than {MAX_POSITIONAL} positional arguments", found)


@pytest.mark.parametrize(
    ("text", "is_broken"),
    [
        ("f(1, 2, 3, 4, 5, 6, 7)", True),
        ("x = a.b(1, 2, 3, 4, 5, 6, *c)", True),
        ("f(1, 2, 3, 4, 5, 6, g=7)", False),
        ("_HEAD.pack_into(data, 0, 1, 2, 3, 4, 5, 6)", False),
    ],
)
def test_a_tower_of_arguments_is_found(text: str, *, is_broken: bool):
    assert bool(list(towers(ast.parse(text)))) is is_broken


def test_one_place_reads_the_wall_clock():
    """Only what is passed a clock can be tried with one that jumps; `monotonic` never does."""
    wall = re.compile(r"\b(time\.(time|time_ns|localtime|gmtime)|datetime\.(now|utcnow|today)|date\.today)\(")
    allowed = {"drkit.clock", "drkit.cli.screens.failover"}  # the latter only shows it
    found = [
        f"{s.name}:{number}"
        for s in sources()
        for number, line in enumerate(s.text.splitlines(), 1)
        if s.name not in allowed and wall.search(line)
    ]
    broken("wall clocks outside of drkit/clock.py", found)


def test_tests_wait_for_conditions():
    found = [
        f"{s.name}:{n.lineno}"
        for s in sources(ROOT / "tests")
        if s.path != ROOT / "tests/bench/waiting.py"  # a measurement's pauses, each with its reason
        for n in s.nodes
        if isinstance(n, ast.Call) and ast.unparse(n.func) in {"time.sleep", "sleep"}
    ]
    broken("bare sleeps in tests", found)
