"""The real MirrorMaker 2 beside drkit, from one properties file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from drkit.local import jars
from drkit.local.java import find_java
from tests.bench.peers.mm2 import MAIN_CLASS
from tests.bench.peers.replicator import Command, Flow, Running, running

JVM: Final = (
    "-Xmx512M",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Djava.awt.headless=true",
    "-Dlog4j2.level=WARN",
)
"""A quick start, where nothing is measured."""


@dataclass(frozen=True, slots=True)
class _FromFile:
    properties: Path
    name: str = "mm2"

    def prepare(self, _flow: Flow) -> Command:
        classpath = jars.classpath(modules=jars.MIRROR_MAKER)
        return Command([str(find_java()), *JVM, "-cp", classpath, MAIN_CLASS, str(self.properties)])


@contextmanager
def mirror_maker(properties: Path) -> Iterator[Running]:
    """MM2 in dedicated mode while the block runs; its log lies beside the file."""
    nowhere = Flow("", "", "", "", properties.parent)
    with running(_FromFile(properties.resolve()), nowhere) as process:
        yield process
