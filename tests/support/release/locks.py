"""The lock files: which packages are installed, in which versions, with which hashes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
import re
from typing import Final, NamedTuple

from packaging.requirements import Requirement

ROOT: Final = Path(__file__).parents[3]
RUNTIME: Final = ROOT / "requirements.lock"
DEVELOPMENT: Final = ROOT / "requirements-dev.lock"
BUILD: Final = ROOT / "requirements-build.lock"
DOCUMENTATION: Final = ROOT / "requirements-docs.lock"
TOOLS: Final = ROOT / "requirements-tools.lock"
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")


class Locked(NamedTuple):
    """One package of a lock file."""

    name: str
    version: str
    hashes: tuple[str, ...]
    marker: str


def normal(name: str) -> str:
    """The name of a package as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(file: Path) -> Iterator[Locked]:
    """All packages of a lock file.

    :raises ValueError: a line is something else, such as an option or an address
    """
    for statement in file.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
        text = statement.partition(" #")[0].strip()
        if not text or text.startswith("#"):
            continue
        head, *_ = text.split(" --hash", 1)
        wanted = Requirement(head)
        (pin,) = wanted.specifier
        if pin.operator != "==" or wanted.url:
            raise ValueError(text)
        yield Locked(normal(wanted.name), pin.version, tuple(_HASH.findall(text)), str(wanted.marker or ""))
