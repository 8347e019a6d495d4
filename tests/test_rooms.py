"""The laws of the rooms: who may import whom, how many modules a folder has, what a room says of itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
import re

import pytest

from tests.rooms import FLOOR_OF, FLOORS, GROUND, filled, packages, room_of
from tests.support.laws import PACKAGE, ROOT, Source, broken, imports, sources, tree

MAX_MODULES = 20
"""In one folder, besides its ``__init__.py``: what one can keep in mind at a time."""
JAVA = {"pyspark", "py4j"}
SPARK_ROOM = "spark"
MAY_USE_SPARK = {
    "drkit.replicate.run": "the driver: it starts Spark for all flows of a process",
    "drkit.replicate.flow_thread": "a flow's thread: it knows the error of a Spark that is gone",
}
SENTENCES = range(2, 5)
PAGE = ROOT / "docs/internal/architecture.md"


def packages_of(tree: Iterable[Source]) -> set[str]:
    return {"drkit"} | {s.name for s in tree if s.path.name == "__init__.py"}


def upward(tree: Iterable[Source]) -> list[str]:
    """Imports from a package that is not on a floor below."""
    found = []
    folders = packages_of(tree)
    for source in tree:
        room = room_of(source.name, folders)
        if not room:
            continue
        used_names = [name for name in imports(source) if name.split(".")[0] == "drkit"]
        found += [
            f"{source.name} imports from drkit.{used}"
            for used in {room_of(name, folders) for name in used_names} - {room, ""}
            if not {used, room} <= GROUND and FLOOR_OF[used] >= FLOOR_OF[room]
        ]
    return found


def crowded(tree: Iterable[Source], most: int = MAX_MODULES) -> list[str]:
    """Folders with too many modules."""
    count = Counter(s.path.parent for s in tree if s.path.name != "__init__.py")
    return [f"{folder}: {number} modules" for folder, number in count.items() if number > most]


def spark_elsewhere(tree: Iterable[Source]) -> list[str]:
    """Modules that import Spark, besides those that may."""
    folders = packages_of(tree)
    return [
        f"{source.name} imports {', '.join(sorted(used))}"
        for source in tree
        if (used := {name.split(".")[0] for name in imports(source)} & JAVA)
        and room_of(source.name, folders) != SPARK_ROOM
        and source.name not in MAY_USE_SPARK
    ]


def poor(docstring: str) -> str:
    """What a package's docstring lacks; empty when it is as it should be."""
    count = len(re.findall(r"[.?!](?=\s|$)", docstring))
    if count not in SENTENCES:
        return f"{count} sentences"
    limits = re.search(r"\b(?:not|no|nothing|never|none|only|pure)\b", docstring, re.IGNORECASE)
    return "" if limits else "it does not say what may not be there"


def test_every_package_has_a_floor():
    folders = packages_of(sources())
    found = {room_of(s.name, folders) for s in sources()} - {""}
    broken("packages without a floor", sorted(found - set(FLOOR_OF)))
    broken("floors without a package", sorted(set(FLOOR_OF) - found))
    assert len(FLOOR_OF) == sum(map(len, FLOORS)), "a package is on one floor"


def test_imports_go_down_only():
    broken("imports go to packages on a floor below", upward(sources()))


def test_a_folder_can_be_kept_in_mind():
    broken(f"folders with more than {MAX_MODULES} modules", crowded(sources()))


def test_spark_stays_in_its_room():
    broken("pyspark and py4j belong to drkit/spark/", spark_elsewhere(sources()))
    users = {s.name for s in sources() if {n.split(".")[0] for n in imports(s)} & JAVA}
    broken("may use Spark, and do not", sorted(set(MAY_USE_SPARK) - users))


def test_every_package_says_what_it_has_and_what_it_may_not():
    broken("docstrings of packages", [f"{room}: {why}" for room, said in packages() if (why := poor(said))])


def test_the_page_is_current():
    page = PAGE.read_text(encoding="utf-8")
    assert filled(page) == page, "run: python -m tests.rooms"


def test_the_page_names_files_that_are_there():
    named = re.findall(r"`((?:\w+/)+(?:\w+\.py)?)`", PAGE.read_text(encoding="utf-8"))
    assert len(named) > len(FLOORS)
    found = [n for n in named if not ((ROOT / n).exists() or (PACKAGE / n).exists())]
    broken("files on the page that are not there", found)


ROOMS = [(f"{room}/__init__.py", "") for room in ("kafka", "kafka/groups", "spark", "status", "status/lag")]


@pytest.mark.parametrize(
    ("file", "text", "is_broken"),
    [
        ("kafka/groups/asking.py", "from drkit.kafka.raw import RawCluster", False),
        ("kafka/raw.py", "from drkit.kafka.groups.asking import ask", True),
        ("kafka/groups/asking.py", "from drkit.kafka.access.acls import Acl", True),
        ("status/lag/source.py", "from drkit.status.model import Fault", True),
        ("status/model.py", "from drkit.status.lag.source import Lag", False),
        ("status/model.py", "import drkit.spark.session", True),
        ("clock.py", "from drkit import errors", False),
        ("clock.py", "from drkit.kafka.raw import RawCluster", True),
    ],
)
def test_an_import_upward_is_found(file: str, text: str, *, is_broken: bool):
    made_up = tree(*ROOMS, ("kafka/access/__init__.py", ""), ("kafka/raw.py", ""), (file, text))
    made_up += tree(("kafka/groups/asking.py", ""), ("status/model.py", ""), ("errors.py", ""))
    assert bool(upward(made_up)) is is_broken


def test_a_crowd_is_found():
    some = tree(("kafka/__init__.py", ""), *((f"kafka/part_{n}.py", "") for n in range(MAX_MODULES)))
    assert not crowded(some)
    assert crowded([*some, *tree(("kafka/one_more.py", ""))]) == ["drkit/kafka: 21 modules"]
    assert not crowded([*some, *tree(("kafka/groups/one_more.py", ""))]), "each folder by itself"


def test_spark_in_another_room_is_found():
    for text in ("import pyspark", "from py4j.protocol import Py4JError", "def f():\n    import pyspark.sql"):
        assert spark_elsewhere(tree(*ROOMS, ("status/look.py", text)))
        assert not spark_elsewhere(tree(*ROOMS, ("spark/look.py", text)))


@pytest.mark.parametrize(
    ("said", "lacks"),
    [
        ("Connections to a cluster.", "1 sentences"),
        ("One. Two. Three. Four. Not five.", "5 sentences"),
        ("Connections to a cluster. Requests, and their errors.", "it does not say what may not be there"),
        ("Connections to a cluster. Requests, and their errors. What a flow is, is not known here.", ""),
    ],
)
def test_a_docstring_that_says_too_little_is_found(said: str, lacks: str):
    assert poor(said) == lacks


def test_a_table_that_is_not_current_is_found():
    page = PAGE.read_text(encoding="utf-8")
    assert filled(page.replace("| `drkit/spark/` |", "| `drkit/lamp/` |")) == page
