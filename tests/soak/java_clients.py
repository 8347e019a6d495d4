"""Java's own consumers and producers, all in one process: ``java/Following.java``, by lines of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
import subprocess
import tempfile
import threading
from typing import Any, Self

from drkit.local import jars
from drkit.local.java import find_java
from tests.support.failover.client_logs import ClientLog, Got
from tests.support.waiting import eventually

_SOURCE = Path(__file__).with_name("java") / "Following.java"
_CONSUMER = {"auto.offset.reset": "earliest", "enable.auto.commit": "false"}
_PRODUCER = {"acks": "all", "linger.ms": "2", "max.block.ms": "1000"}


class JavaLog(ClientLog):
    """A client in the Java process."""

    def __init__(self, java: Java, name: str, command: str, kind: str, group: str = "") -> None:
        super().__init__(kind, group)
        self._java, self.name, self._command = java, name, command
        self.ended = threading.Event()

    def __enter__(self) -> Self:
        self._java.say(self._command)
        return self

    def finish(self) -> None:
        self._java.say(f"stop {self.name}")
        self.ended.wait(30)

    def heard(self, kind: str, words: Sequence[str]) -> None:
        """One event."""
        cluster = words[0] if words else ""
        match kind:
            case "G":
                topic, p, offset, at, *value = words[1:]
                self.got.append(Got(int(at), cluster, topic, int(p), int(offset), " ".join(value).encode()))
            case "C":
                topic, p, offset = words[1:]
                self.commits(cluster, topic, int(p), int(offset))
            case "A":
                self.acked.append(" ".join(words[4:]).encode())
            case "U":
                self.uncertain.add(" ".join(words[1:]).encode())
            case "E":
                self.errors[cluster, words[1]] += 1
            case "X":
                self.ended.set()


class Java:
    """The process, in a ``with``."""

    def __enter__(self) -> Self:
        self._said = tempfile.TemporaryFile()
        path = jars.classpath()
        flags = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        self._process = subprocess.Popen(
            [str(find_java()), *flags, "-cp", path, str(_SOURCE)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, text=True,
        )  # fmt: skip
        self._logs: dict[str, JavaLog] = {}
        self._ready = threading.Event()
        self.unknown: Counter[str] = Counter()
        threading.Thread(target=self._listen, daemon=True).start()
        eventually(self._ready.is_set, 120, "Java's clients")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._said.close()

    def say(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()

    def consumer(
        self, name: str, group: str, topics: Sequence[str], endpoint: Path, kind: str, **more: Any
    ) -> JavaLog:
        """A member of a group that commits what it has processed."""
        given = _joined({"group.id": group, **_CONSUMER}, more)
        return self._log(name, f"consumer {name} {endpoint} {given} {','.join(topics)}", kind, group)

    def producer(self, name: str, topic: str, endpoint: Path, kind: str, **more: Any) -> JavaLog:
        """Unique values, numbered."""
        return self._log(name, f"producer {name} {endpoint} {_joined(_PRODUCER, more)} {topic}", kind)

    def _log(self, name: str, command: str, kind: str, group: str = "") -> JavaLog:
        self._logs[name] = JavaLog(self, name, command, kind, group)
        return self._logs[name]

    def _listen(self) -> None:
        for line in self._process.stdout or ():
            kind, *words = line.split()
            if kind == "READY":
                self._ready.set()
            elif words and words[0] in self._logs:
                self._logs[words[0]].heard(kind, words[1:])
            else:
                self.unknown[line] += 1


def _joined(common: Mapping[str, str], more: Mapping[str, Any]) -> str:
    return ";".join(f"{k.replace('_', '.')}={v}" for k, v in {**common, **more}.items())
