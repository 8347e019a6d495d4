"""Offset logs of a Structured Streaming query (Spark 2.1 to 4.3), and the offsets to translate in them. Pure.

- ``offsets/N``, the end of batch N: a line ``v1`` or ``v2``, a line of JSON settings, then of each source the
  offset as JSON or ``-``, in ``v2`` after the name of the source and a colon.
- ``sources/S/0``, where a Kafka source began: a zero byte, a line ``v1`` (not in Spark 2.1), the offset.
- A Kafka source's offset: ``{"topic":{"partition":next offset to read}}``.

At its start Spark reads the newest batch N in ``offsets/`` and the previous one. If N is committed, the query
continues at its end. If it is only planned, batch N runs again: from the end of the previous one, or else the
first offsets, to its planned end; sinks and state need the same records again. All older batches are history,
which Spark deletes later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
import json
import re
from typing import Any, Final, NamedTuple

from drkit.model import TopicPartition
from drkit.offsets.segments import Unavailable
from drkit.offsets.translation import Exact, Translation

_NONE: Final = "-"
_VERSIONS: Final = ("v1", "v2")
_NAMED: Final = "v2"
_ZERO: Final = b"\0"
_HEADER_LINES: Final = 2

KafkaOffsets = dict[TopicPartition, int]


class UnreadableLog(ValueError):
    """A file that Spark cannot have written; the text describes it."""


def kafka_offsets(text: str) -> KafkaOffsets | None:
    """Read the offsets of a Kafka source; None for any other kind of source."""
    try:
        topics = json.loads(text)
    except ValueError:
        return None
    if not isinstance(topics, dict) or not topics:
        return None
    offsets: KafkaOffsets = {}
    for topic, partitions in topics.items():
        if not isinstance(partitions, dict):
            return None
        for number, offset in partitions.items():
            if not number.isascii() or not number.isdigit() or type(offset) is not int:
                return None
            offsets[TopicPartition(topic, int(number))] = offset
    return offsets


def kafka_text(offsets: Mapping[TopicPartition, int]) -> str:
    """Return offsets as Spark writes them."""
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
        """Return the file's bytes."""
        rows = [
            f"{name}:{text or _NONE}" if self.version == _NAMED else text or _NONE
            for name, text in self.sources.items()
        ]
        return "\n".join([self.version, self.settings, *rows]).encode()

    def kafka(self) -> dict[str, KafkaOffsets]:
        """Return the offsets of its Kafka sources."""
        by_source = {name: kafka_offsets(text) for name, text in self.sources.items() if text is not None}
        return {name: offsets for name, offsets in by_source.items() if offsets is not None}

    def with_kafka(self, offsets: Mapping[str, KafkaOffsets]) -> LoggedBatch:
        """Return a copy with other offsets for some sources."""
        texts = {name: kafka_text(o) for name, o in offsets.items()}
        return replace(self, sources={**self.sources, **texts})


@dataclass(frozen=True, slots=True)
class FirstOffsets:
    """``sources/S/0`` of a Kafka source: the start offsets of its first batch."""

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
        """Return the file's bytes with these offsets."""
        return self.header + kafka_text(offsets).encode()


NO_OFFSET: Final = "a negative offset is no position; Spark writes none into a checkpoint"


class Use(StrEnum):
    """The purpose of an offset in a checkpoint."""

    NEXT = "reads on"
    START = "batch start"
    END = "batch end"
    PAST = "history"


Translate = Callable[[TopicPartition, int], tuple[TopicPartition, Translation]]
"""The partition on the other side and the offset in it, or the reason why no offset is exact."""


class Position(NamedTuple):
    """An offset of a checkpoint that decides what the application reads, and its translation."""

    source: str
    """The source's name, else its number in the query."""
    use: Use
    topic: str
    partition: int
    offset: int
    to_topic: str
    to_offset: int | None
    note: str
    """Remark about the translation."""
    refused: str = ""
    """Why it is not exact."""
    loss: bool = False
    """Not exact because records are permanently lost; `accept_loss` accepts that."""


@dataclass(frozen=True, slots=True)
class QueryLog:
    """The logs of a query.

    :param offsets: by number of the batch
    :param committed: number of the newest batch in ``commits/``; None without any
    :param first: first offsets of Kafka sources
    """

    offsets: Mapping[int, LoggedBatch]
    committed: int | None
    first: Mapping[str, FirstOffsets]

    @property
    def newest(self) -> int | None:
        """The newest batch that was planned."""
        return max(self.offsets, default=None)

    @property
    def previous(self) -> int | None:
        """The batch before the newest; asynchronous progress may skip numbers."""
        return max((n for n in self.offsets if n != self.newest), default=None)

    @property
    def open(self) -> bool:
        """Return whether the newest batch was planned but not committed: it runs again."""
        return self.newest is not None and (self.committed is None or self.committed < self.newest)

    def kafka_sources(self) -> set[str]:
        """Names or numbers of the Kafka sources."""
        return set(self.first).union(*(batch.kafka() for batch in self.offsets.values()))

    def partitions(self, without: Iterable[str] = ()) -> set[TopicPartition]:
        """Return all partitions in the logs, except those of some sources."""
        named: set[TopicPartition] = set()
        for by_source in (self._first_offsets(), *(batch.kafka() for batch in self.offsets.values())):
            for source in by_source.keys() - set(without):
                named |= by_source[source].keys()
        return named

    def decisive(self) -> dict[Use, dict[str, KafkaOffsets]]:
        """Return the offsets that determine the next records to read, by use and source."""
        if self.newest is None:
            return {Use.NEXT: self._first_offsets()}
        newest = self.offsets[self.newest].kafka()
        previous = {} if self.previous is None else self.offsets[self.previous].kafka()
        starts = {s: previous.get(s, first) for s, first in self._first_offsets().items()} | previous
        if self.open:
            return {Use.START: starts, Use.END: newest}
        unread = {s: o for s, o in self._first_offsets().items() if s not in newest}
        return {Use.NEXT: newest | unread, Use.PAST: previous}

    def _first_offsets(self) -> dict[str, KafkaOffsets]:
        return {source: first.offsets for source, first in self.first.items()}


@dataclass(slots=True)
class NewLog:
    """A query's logs for the other cluster."""

    offsets: dict[int, bytes] = field(default_factory=dict)
    first: dict[str, bytes] = field(default_factory=dict)
    positions: list[Position] = field(default_factory=list)
    left_out: list[int] = field(default_factory=list)
    """Batches of the history that cannot be translated."""
    first_left_out: list[str] = field(default_factory=list)
    """Sources whose first offsets cannot be translated and are no longer needed."""

    def refused(self, *, accept_loss: bool) -> list[Position]:
        """The positions for which there is no exact answer."""
        return [p for p in self.positions if p.refused and not (accept_loss and p.loss)]


def renew(log: QueryLog, translate: Translate, keep: Iterable[str] = ()) -> NewLog:
    """Translate a query's logs.

    The positions include untranslatable offsets; with any of these, the files must not be used.

    :param keep: sources that stay as they are
    """
    kept = set(keep)
    new = NewLog()
    decisive = log.decisive()
    for use, by_source in decisive.items():
        for source in sorted(by_source.keys() - kept):
            starts = decisive.get(Use.START, {}).get(source, {})
            for tp, offset in sorted(by_source[source].items()):
                empty = use is Use.END and starts.get(tp) == offset
                new.positions.append(judged(source, use, tp, offset, translate, empty=empty))
    for number in sorted(log.offsets, reverse=True):
        batch = log.offsets[number]
        is_history = number not in {log.newest, log.previous}
        translated = {s: _translate_all(o, translate) for s, o in batch.kafka().items() if s not in kept}
        if is_history and (new.left_out or any(not complete for _, complete in translated.values())):
            new.left_out.append(number)
        else:
            new.offsets[number] = batch.with_kafka({s: o for s, (o, _) in translated.items()}).encode()
    for source, first in log.first.items():
        if source in kept:
            continue
        offsets, complete = _translate_all(first.offsets, translate)
        if complete or _is_first(log, source):
            new.first[source] = first.encode(offsets)
        else:
            new.first_left_out.append(source)
    return new


def judged(
    source: str, use: Use, tp: TopicPartition, offset: int, translate: Translate, *, empty: bool = False
) -> Position:
    """Return an offset with its translation, or the reason why it is not exact for this use.

    :param empty: the planned batch has no record of this partition
    """
    to_tp, answer = _translate(tp, offset, translate)
    if isinstance(answer, Unavailable):
        return Position(
            source, use, *tp, offset, to_topic=to_tp.topic, to_offset=None, note="", refused=answer.reason
        )
    loss = "" if empty else _loss(use, answer)
    return Position(
        source,
        use,
        *tp,
        offset,
        to_topic=to_tp.topic,
        to_offset=answer.offset,
        note=answer.note,
        refused=loss,
        loss=bool(loss),
    )


def _loss(use: Use, answer: Exact) -> str:
    if use in {Use.NEXT, Use.START} and answer.skipped:
        return f"records that it has yet to read are gone there: {answer.note}"
    if use is Use.END and not answer.reached:
        return f"records of the planned batch may be missing there: {answer.note}"
    return ""


def _translate_all(offsets: KafkaOffsets, translate: Translate) -> tuple[KafkaOffsets, bool]:
    translated: KafkaOffsets = {}
    for tp, offset in offsets.items():
        to_tp, translation = _translate(tp, offset, translate)
        if isinstance(translation, Exact):
            translated[to_tp] = translation.offset
    return translated, len(translated) == len(offsets)


def _translate(tp: TopicPartition, offset: int, translate: Translate) -> tuple[TopicPartition, Translation]:
    to_tp, translation = translate(tp, offset) if offset >= 0 else (tp, Unavailable(NO_OFFSET))
    if isinstance(translation, Unavailable) and translation.nearest is not None:  # history may lie there
        translation = Exact(translation.nearest, translation.reason, skipped=1, reached=False)
    return to_tp, translation


def _is_first(log: QueryLog, source: str) -> bool:
    begun = log.previous if log.open else log.newest
    return begun is None or source not in log.offsets[begun].kafka()


_FILE: Final = re.compile(r"state/\d+/_metadata/v2/\d+")
"""Files of operators such as ``transformWithState`` with whole paths of schemas (OperatorStateMetadataV2)."""
_SCHEMA: Final = re.compile(r"(?P<place>.*)/(?P<rest>state/\d+/_stateSchema/.*)")
_STORES: Final = "stateStoreInfo"
_PATHS: Final = "stateSchemaFilePaths"


def names_its_place(name: str) -> bool:
    """Return whether a file of a checkpoint may contain the checkpoint's own path, by its relative name."""
    return _FILE.fullmatch(name) is not None


def places(data: bytes) -> set[str]:
    """Return the checkpoint folders, as paths or URLs, that a file names."""
    stores = _parsed(data)[1].get(_STORES, ())
    matches = (_SCHEMA.fullmatch(path) for store in stores for path in store.get(_PATHS, ()))
    return {match["place"] for match in matches if match is not None}


def moved(data: bytes, place: str) -> bytes:
    """Return the file with its paths moved into another checkpoint folder.

    :param place: that folder as path or URL
    """
    version, body = _parsed(data)
    for store in body.get(_STORES, ()):
        if _PATHS in store:
            store[_PATHS] = [_SCHEMA.sub(lambda m: f"{place}/{m['rest']}", path) for path in store[_PATHS]]
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    return version + b"\n" + text.encode()


def _parsed(data: bytes) -> tuple[bytes, dict[str, Any]]:
    version, _, text = data.partition(b"\n")
    try:
        body = json.loads(text)
    except ValueError:
        return version, {}
    return version, body if isinstance(body, dict) else {}
