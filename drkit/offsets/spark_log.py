"""What Structured Streaming notes of its sources: offset logs and first offsets, read and written. Pure.

Formats of Spark 2.1 to 4.3 (``OffsetSeqLog``, ``KafkaSourceOffset``, ``KafkaSourceInitialOffsetWriter``):

- ``offsets/N``, the end of batch N: a line ``v1`` or ``v2``, a line with settings as JSON, then one line for
  each source: its offset as JSON or ``-``; ``v2`` puts the source's name and a colon before that.
- ``sources/S/0``, where a Kafka source began: a zero byte, a line ``v1`` (not in Spark 2.1), the offset.
- A Kafka source's offset: ``{"topic":{"partition":next offset to read}}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
import json
from typing import Final

from drkit.model import TopicPartition

_NONE: Final = "-"
_VERSIONS: Final = ("v1", "v2")
_NAMED: Final = "v2"
_ZERO: Final = b"\0"
_HEADER_LINES: Final = 2

KafkaOffsets = dict[TopicPartition, int]


class UnreadableLog(ValueError):
    """A file that is not what Spark writes; the text says what was found."""


def kafka_offsets(text: str) -> KafkaOffsets | None:
    """The offsets that a Kafka source noted; None for the note of any other kind of source."""
    try:
        topics = json.loads(text)
    except ValueError:
        return None
    if not isinstance(topics, dict) or not topics:
        return None
    found: KafkaOffsets = {}
    for topic, partitions in topics.items():
        if not isinstance(partitions, dict):
            return None
        for number, offset in partitions.items():
            if not number.isascii() or not number.isdigit() or type(offset) is not int:
                return None
            found[TopicPartition(topic, int(number))] = offset
    return found


def kafka_text(offsets: Mapping[TopicPartition, int]) -> str:
    """The same as Spark writes it."""
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        topics.setdefault(topic, {})[str(partition)] = offset
    return json.dumps(topics, separators=(",", ":"), ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class LoggedBatch:
    """One file of ``offsets/``."""

    version: str
    settings: str
    sources: Mapping[str, str | None]
    """By the source's name, else its number: the JSON of its offset; None while it has none."""

    @classmethod
    def parse(cls, data: bytes) -> LoggedBatch:
        """Read a file. Raises UnreadableLog if it is cut off, or of an unknown version."""
        try:
            lines = data.decode("utf-8").removesuffix("\n").split("\n")
        except UnicodeDecodeError as error:
            raise UnreadableLog(f"not text: {error.reason} at byte {error.start}") from error
        version = lines[0].strip()
        if version not in _VERSIONS:
            raise UnreadableLog(f"its first line is {version[:40]!r}; known are {' and '.join(_VERSIONS)}")
        if len(lines) < _HEADER_LINES:
            raise UnreadableLog("it ends after its first line")
        rows = [line.rstrip("\r") for line in lines[_HEADER_LINES:]]
        if version == _NAMED:
            pairs = [row.partition(":") for row in rows]
            if unnamed := [row for row, pair in zip(rows, pairs, strict=True) if not pair[1]]:
                raise UnreadableLog(f"a line without a source's name: {unnamed[0][:80]!r}")
            named = [(name, text) for name, _, text in pairs]
        else:
            named = [(str(number), row) for number, row in enumerate(rows)]
        return cls(version, lines[1], {name: None if text == _NONE else text for name, text in named})

    def encode(self) -> bytes:
        """The file's bytes."""
        rows = [
            f"{name}:{text or _NONE}" if self.version == _NAMED else text or _NONE
            for name, text in self.sources.items()
        ]
        return "\n".join([self.version, self.settings, *rows]).encode()

    def kafka(self) -> dict[str, KafkaOffsets]:
        """The offsets of its Kafka sources."""
        found = {name: kafka_offsets(text) for name, text in self.sources.items() if text is not None}
        return {name: offsets for name, offsets in found.items() if offsets is not None}

    def with_kafka(self, offsets: Mapping[str, KafkaOffsets]) -> LoggedBatch:
        """The same with other offsets for some sources."""
        texts = {name: kafka_text(o) for name, o in offsets.items()}
        return replace(self, sources={**self.sources, **texts})


@dataclass(frozen=True, slots=True)
class FirstOffsets:
    """``sources/S/0`` of a Kafka source: where its first batch begins."""

    header: bytes
    offsets: KafkaOffsets

    @classmethod
    def parse(cls, data: bytes) -> FirstOffsets | None:
        """Read a file; None for one that a Kafka source does not write."""
        if not data.startswith(_ZERO):
            return None
        line, end, rest = data[1:].partition(b"\n")
        header = _ZERO
        if end and line.startswith(b"v"):
            header, body = data[: 1 + len(line) + 1], rest
        else:
            body = data[1:]
        try:
            offsets = kafka_offsets(body.decode("utf-8"))
        except UnicodeDecodeError:
            return None
        return None if offsets is None else cls(header, offsets)

    def encode(self, offsets: KafkaOffsets) -> bytes:
        """The file's bytes with these offsets instead."""
        return self.header + kafka_text(offsets).encode()
