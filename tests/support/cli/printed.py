"""Every command that drkit prints to be typed next, and the states in which it prints it.

What is printed and has no row here fails a test; a row that nothing prints does, too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
import re
from typing import Final

from drkit.catalogue.entry import Program
from drkit.cli.main import _COMMANDS
from tests.support.laws import source_of

DRKIT: Final = Path(__file__).parents[3] / "drkit"
_VERBS: Final = "|".join(sorted(_COMMANDS, key=len, reverse=True))
_TYPED: Final = re.compile(r"\{drkit:((?:[^{}]|\{[^}]*\})*)\}")
"""A command in a hint of the catalogue, or options to add to one."""
_VALUE: Final = re.compile(r"\{\w+(?::[^}]*)?\}")
"""A placeholder in a sentence of the catalogue."""
PRINTED: Final = re.compile(
    rf"\bdrkit (?:{_VERBS})\b"
    r"(?: (?:show|pay|lift|apply|check|resume|pause|acknowledge|up|down|status|adopt|export|verify"
    r"|run|history|report|cleanup|schedule)\b)?"
    r"(?: --[a-z][a-z0-9-]*(?: (?:\"[^\"]*\"|'[^']*'|[A-Z{][\w{}.+]*|/[\w./+-]*\w|none\b|readiness\b|\d+))?)*"
)
ADDED: Final = re.compile(r"(?<=: )--[a-z][a-z-]*(?: (?:\"[^\"]*\"|'[^']*'|[A-Z]+\b|\{[^}]*\}))?")
NAMES: Final = {
    "drkit failover", "drkit watch", "drkit replicate", "drkit demo", "drkit local", "drkit translate",
    "drkit fence-agent", "drkit fence", "drkit config", "drkit repoint", "drkit control", "drkit explain",
    "drkit explain --list",
    "drkit reprotect", "drkit replay", "drkit divergence verify", "drkit failback", "drkit chaos",
    "drkit drill", "drkit drill run", "drkit drill report", "drkit drill schedule", "drkit chaos run",
    "drkit demo --keep", "drkit demo --rate 300", "drkit files", "drkit files show",
}  # fmt: skip
"""Without an option they name the program in a sentence."""


DRAWN: Final = {"picture.py", "class_training.py"}
"""Files that print these words into pages and logs, not as commands to type."""


class State(Enum):
    """What a failover of the flow has come to when a command is printed."""

    NOTHING = "nothing is begun"
    REFUSED = "refused before anything was begun"
    HELD = "held before OPEN"
    OPENED = "held from OPEN on"
    DONE = "done, the primary is fenced"
    PENDING = "done or rolled back, a fence or its lift is pending"
    ANY = "whatever it is"


N, R, H, P = State.NOTHING, State.REFUSED, State.HELD, State.OPENED
D, W, A = State.DONE, State.PENDING, State.ANY
FAILOVER: Final[dict[str, tuple[State, ...]]] = {
    "drkit failover --resume": (H, P),
    "drkit failover --resume --term N": (P,),
    "drkit failover --abort": (H,),
    'drkit failover --abort --target-lost "HOW YOU KNOW"': (H,),
    'drkit failover --resume --accept-data-loss "REASON"': (H, P),
    "drkit failover --resume --evict-members": (H,),
    "drkit failover --resume --keep-positions": (H,),
    "drkit failover --all": (N, R),
    "drkit failover --all --dry-run": (N,),
    "drkit failover --all --accept-data-loss REASON": (N,),
    "drkit failover --flow '{}' --all --accept-data-loss \"REASON\"": (N,),
    "drkit failover --all --without-quorum REASON": (N,),
    "drkit failover --all --planned": (N,),
    "drkit failover --flow '{}->{}' --all --planned": (D,),
    "drkit failover --group G": (N,),
    '--accept-data-loss "REASON"': (R,),
    '--despite-signs-of-life "REASON"': (R,),
    '--without-quorum "REASON"': (R,),
    "--evict-members": (R,),
    "--keep-positions": (R,),
    "--repoint-others": (R,),
}
OTHERS: Final[dict[str, tuple[State, ...]]] = {
    "drkit config check": (A,),
    "drkit config check --connect": (A,),
    "drkit config show --all": (A,),
    "drkit config show --plan": (A,),
    "drkit control adopt": (A,),
    "drkit control adopt --again": (A,),
    "drkit control adopt --discard TOPIC": (A,),
    "drkit control adopt --sign NAME": (A,),
    "drkit control check": (A,),
    "drkit divergence": (D, W),
    "drkit divergence --flow '{}'": (D, W),
    "drkit divergence export --to DIR": (D, W),
    "drkit divergence export --flow '{}' --to DIR": (D, W),
    "drkit drill cleanup": (A,),
    "drkit drill cleanup --flow '{}'": (A,),
    "drkit drill history": (A,),
    "drkit drill report --check FILE": (A,),
    "drkit drill run --kind readiness": (A,),
    "drkit fence lift": (W,),
    'drkit fence lift --accept-divergence "REASON"': (D, W),
    "drkit fence pay": (W,),
    "drkit fence show": (A,),
    "drkit replay --from MANIFEST": (D,),
    "drkit replay --from MANIFEST --to-quarantine": (D,),
    "drkit replicate --dry-run": (A,),
    "drkit replicate --flow '{}'": (N, R, D),
    "drkit replicate --flow '{}->{}'": (D,),
    "drkit replicate --standby": (A,),
    "drkit repoint apply --to CLUSTER": (A,),
    "drkit repoint show": (A,),
    'drkit reprotect --clients-cut "HOW"': (D,),
    "drkit reprotect --abort": (D,),
    "drkit reprotect --hold": (D,),
    "drkit reprotect --resume": (D,),
    "drkit reprotect --resume --same none": (D,),
    '--clients-cut "HOW"': (D,),
    "drkit failback --flow '{}'": (D,),
    "drkit failover --all --dry-run --quiet": (N,),
    "drkit local down": (A,),
    "drkit local up": (A,),
    "drkit status": (A,),
    "drkit status --all-groups": (A,),
    "drkit status --flow '{}'": (A,),
    "drkit status --partitions": (A,),
    "drkit translate --group G": (A,),
    "drkit translate --topic T --partition P --offset N": (A,),
    "--accept-data-loss REASON": (A,),
    "--acls-only-home": (A,),
    "--all-groups": (A,),
    "--keep-source N": (A,),
    "--location URL": (A,),
    "--term {}": (A,),
    "--until-export": (A,),
    "drkit verify": (A,),
    "drkit watch --once 5": (A,),
    "drkit watch acknowledge": (A,),
    "drkit watch resume": (A,),
    "drkit watch resume --flow '{}'": (R,),
}
REGISTRY: Final = FAILOVER | OTHERS


def texts(path: Path) -> Iterator[str]:
    """What a module says: its strings, but for its docstrings; what is filled in is ``{}``."""
    passed, is_template = set[int](), "catalogue" in path.parts
    for node in source_of(path).nodes:
        if isinstance(node, (ast.Expr, ast.JoinedStr)):
            inner = [node.value] if isinstance(node, ast.Expr) else node.values
            passed |= {id(value) for value in inner}
        if isinstance(node, ast.JoinedStr) and id(node) not in passed:
            yield "".join(str(v.value) if isinstance(v, ast.Constant) else "{}" for v in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in passed:
            yield _VALUE.sub("{}", _TYPED.sub(_printed, node.value)) if is_template else node.value


def _printed(field: re.Match[str]) -> str:
    return format(Program(), field[1])


def printed_in(text: str) -> Iterator[str]:
    """The commands, and the options to be added to one, of a text."""
    yield from (found.strip() for found in PRINTED.findall(text))
    yield from ADDED.findall(text)


def printed() -> dict[str, str]:
    """All of them, each with a module that prints it."""
    rooms = (
        "catalogue", "checkpoints", "cli", "client", "copy_task", "detect", "export", "failover",
        "flow_state", "kafka", "mm2_topics", "monitoring", "offset_map", "replay", "replicate", "repoint",
        "spark", "status", "takeover", "topic_sync", "translate", "verify", "watch",
    )  # fmt: skip
    files = [path for room in rooms for path in sorted((DRKIT / room).rglob("*.py"))]
    files += [DRKIT / "config" / f"{name}.py" for name in ("loader", "tables/auto_proof")]
    options = DRKIT / "cli" / "commands"
    return {
        command: str(path.relative_to(DRKIT))
        for path in files
        if options not in path.parents and path.name not in DRAWN
        for text in texts(path)
        for command in printed_in(text)
        if command not in NAMES
    }
