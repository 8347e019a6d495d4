"""The rooms of drkit from the ground up, and what each says of itself.

``python -m tests.rooms`` writes the table of rooms into ``docs/internal/architecture.md`` below the
current folder.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
import re
import sys
from typing import Final

PACKAGE: Final = Path(__file__).parent.parent / "drkit"

FLOORS: Final[tuple[tuple[str, ...], ...]] = (
    (
        "model", "endpoint", "errors", "clock", "masking", "next_command", "observe", "control_key",
        "time_limit", "background", "private_file", "atomic_file", "counted", "visible", "allocator",
        "min_max_mean", "living_keys", "cron", "catalogue",
    ),
    ("offsets", "wire", "topology"),
    # The settings are above the topology: they refuse what filters and names say cannot be.
    ("config.tables",),
    ("config.files",),
    ("config.mm2",),
    ("config",),
    ("local", "kafka.security", "kafka.schemas"),
    ("kafka",),
    ("kafka.reading", "kafka.groups", "kafka.access"),
    ("flow_state.codec",),
    ("flow_state.kinds",),
    ("flow_state",),
    ("flow_state.lease", "flow_state.source_fence"),
    ("offset_map", "pair"),
    ("repoint", "detect", "client"),
    ("journal",),
    ("mm2_topics", "copy_task.core"),
    ("copy_task.source", "copy_task.target"),
    ("copy_task",),
    ("topic_sync",),
    ("checkpoints", "takeover"),
    ("translate", "status.lag", "status.pair"),
    ("status",),
    ("monitoring", "spark"),
    ("monitoring.page", "verify", "export"),
    ("replicate",),
    ("replay",),
    ("failover.core",),
    ("failover.loss",),
    ("failover.groups", "failover.fencing", "failover.emptying"),
    ("failover.checks",),
    ("failover.steps",),
    ("failover.old_primary", "failover.new_primary"),
    ("failover.returning",),
    ("failover",),
    ("watch",),
    ("exercise",),
    ("chaos",),
    ("drill",),
    ("demo",),
    ("cli",),
    ("cli.screens",),
    ("cli.actions",),
    ("cli.actions.back",),
    ("cli.actions.drills",),
    ("cli.commands",),
    ("cli.commands.back",),
    ("cli.commands.drills",),
    ("__main__",),
)  # fmt: skip
"""A package imports only from packages in lines above its own. The first line is of modules, which may import
each other; a package and its sub-packages are on lines of their own, in either order."""
GROUND: Final = frozenset(FLOORS[0])
FLOOR_OF: Final = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
_PLACE: Final = re.compile(r"<!-- generated: rooms -->\n(?:.*?\n)??<!-- end -->", re.DOTALL)
_ROLE: Final = re.compile(r":\w+:`([^`]+)`")
_NAME: Final = r"`\1`"
"""A name in Markdown instead of a role of reStructuredText."""


def room_of(module: str, packages: Iterable[str]) -> str:
    """The package of a module, without ``drkit.``; of a module beside the packages its own name.

    :param packages: full names of all packages
    """
    name = module if module in packages else module.rpartition(".")[0]
    return (name if name != "drkit" else module).partition(".")[2]


def packages(folder: Path = PACKAGE) -> Iterator[tuple[str, str]]:
    """Every package below a folder, in the order of its files: its name from there, and its docstring."""
    for init in sorted(folder.rglob("__init__.py")):
        name = ".".join(init.parent.relative_to(folder).parts)
        if name:
            yield name, ast.get_docstring(ast.parse(init.read_text(encoding="utf-8"))) or ""


def rooms() -> str:
    """The table of the page: rooms from the ground up, with what their docstrings say."""
    said = dict(packages())
    lines = ["| room | what it has, and what it may not |", "| --- | --- |"]
    lines += [
        f"| `drkit/{room.replace('.', '/')}/` | {_ROLE.sub(_NAME, ' '.join(said[room].split()))} |"
        for floor in FLOORS[1:]
        for room in floor
        if room in said
    ]
    return "\n".join(lines)


def filled(page: str) -> str:
    """A page with the table put in."""
    text = f"<!-- generated: rooms -->\n{rooms()}\n<!-- end -->"
    return _PLACE.sub(text.replace("\\", r"\\"), page)


def main(page: Path) -> None:
    """Put the table into the page."""
    page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(f"{page}\n")


if __name__ == "__main__":
    main(Path("docs/internal/architecture.md"))
