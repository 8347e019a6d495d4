"""The real MirrorMaker 2 beside drkit, from one properties file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
import os
from pathlib import Path
from typing import Final

from drkit.local import jars
from drkit.local.java import archive_identity, find_java
from tests.bench.peers.mm2 import MAIN_CLASS, MirrorMaker
from tests.bench.peers.replicator import Command, Flow, Running, running

_JVM: Final = (
    "-Xmx512M",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Djava.awt.headless=true",
    "-Dlog4j2.level=WARN",
)
"""A quick start, where nothing is measured."""
_ENDED_BY_SIGTERM: Final = 143
"""The exit code of a JVM that has ended in good order, its archive of classes written."""


def java_words() -> list[str]:
    """The beginning of its command, with the archive of its classes if there is one."""
    java, classpath = find_java(), jars.classpath(modules=jars.MIRROR_MAKER)
    archive = _archive()
    classes = f"-XX:SharedArchiveFile={archive}" if archive.exists() else "-Xshare:auto"
    return [str(java), *_JVM, classes, "-cp", classpath, MAIN_CLASS]


def _archive() -> Path:
    """Where the archive of its classes is (class data sharing, JEP 350), for this Java and these jars."""
    classpath = jars.classpath(modules=jars.MIRROR_MAKER)
    name = archive_identity(find_java(), map(Path, classpath.split(os.pathsep)))
    return jars.default_cache() / "tests" / f"mm2-{name}.jsa"


@dataclass(frozen=True, slots=True)
class _FromFile:
    properties: Path
    fresh: Path
    """Where it writes the archive of its classes when it ends, if that is missing."""
    name: str = "mm2"

    def prepare(self, _flow: Flow) -> Command:
        java, *words = java_words()
        making = [] if _archive().exists() else [f"-XX:ArchiveClassesAtExit={self.fresh}", "-Xlog:disable"]
        return Command([java, *making, *words, str(self.properties)])


class QuickMirrorMaker(MirrorMaker):
    """The peer of the benchmarks, where nothing is measured."""

    def prepare(self, flow: Flow) -> Command:
        """Write its file; it looks for no plugins but those that are listed in the jars."""
        *_, file = super().prepare(flow).argv
        with Path(file).open("a") as properties:
            properties.write("target.plugin.discovery = service_load\n")
        return Command([*java_words(), file])


@contextmanager
def mirror_maker(properties: Path) -> Iterator[Running]:
    """MM2 in dedicated mode while the block runs; its log lies beside the file."""
    nowhere = Flow("", "", "", "", properties.parent)
    fresh = _archive().with_suffix(f".{os.getpid()}")
    fresh.parent.mkdir(parents=True, exist_ok=True)
    with running(_FromFile(properties.resolve(), fresh), nowhere) as process:
        yield process
    # Killed, it may have written a part of it.
    if fresh.exists() and process.returncode == _ENDED_BY_SIGTERM:
        fresh.replace(_archive())
    fresh.unlink(missing_ok=True)
