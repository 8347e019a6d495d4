"""Records that are not at their expected offset, remembered until their content is found elsewhere."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol

from drkit.verify.finding import preview

_WINDOW = 10_000
"""Strays remembered per side, some 500 bytes each."""
_DIGEST_BYTES = 12


class Content(Protocol):
    """A record as both sides deliver it."""

    @property
    def key(self) -> bytes | None:
        """Its key."""

    @property
    def value(self) -> bytes | None:
        """Its value."""

    @property
    def headers(self) -> list[tuple[str, bytes | None]] | None:
        """Its headers."""

    @property
    def timestamp(self) -> int:
        """Milliseconds since 1970."""


@dataclass(slots=True, eq=False)
class Stray:
    """What is kept of a record without a counterpart: never its content, which may be megabytes."""

    offset: int
    place: int | None
    """The expected offset of its counterpart on the other side."""
    digest: str
    preview: str
    equal_before: int
    """Number of records found equal before it."""
    partner: Stray | None = None
    """The record with other content at the expected offset."""
    fields: tuple[str, ...] = ()
    """The fields that differ from its partner's."""

    @classmethod
    def of(cls, record: Content, offset: int, place: int | None, equal_before: int) -> Stray:
        """Remember a record."""
        digest = blake2b(digest_size=_DIGEST_BYTES)
        headers = record.headers or ()
        for part in (record.key, record.value, *(p for k, v in headers for p in (k.encode(), v))):
            digest.update(b"\xff" if part is None else len(part).to_bytes(4, "big"))
            digest.update(part or b"")
        digest.update(record.timestamp.to_bytes(8, "big", signed=True))
        text = preview(record.key, record.value, record.timestamp, len(headers))
        return cls(offset, place, digest.hexdigest(), text, equal_before)


class _Lost(Protocol):
    def __call__(self, stray: Stray, *, on_source: bool) -> None: ...


class _Side:
    """The strays of one cluster, found by content, forgotten in order."""

    def __init__(self) -> None:
        self.all: OrderedDict[int, Stray] = OrderedDict()
        self._by_digest: dict[str, deque[Stray]] = {}

    def add(self, stray: Stray) -> None:
        self.all[stray.offset] = stray
        self._by_digest.setdefault(stray.digest, deque()).append(stray)

    def remove(self, stray: Stray) -> None:
        del self.all[stray.offset]
        same = self._by_digest[stray.digest]
        same.remove(stray)
        if not same:
            del self._by_digest[stray.digest]

    def take(self, digest: str) -> Stray | None:
        same = self._by_digest.get(digest)
        if not same:
            return None
        stray = same[0]
        self.remove(stray)
        return stray


class UnmatchedRecords:
    """Joins strays of both sides by content.

    :param moved: called with (source, target) of the same content
    :param lost: called with a record without a counterpart
    :param different: called with (source, target, fields) at the same offset that nothing else explains
    """

    def __init__(
        self,
        moved: Callable[[Stray, Stray], None],
        lost: _Lost,
        different: Callable[[Stray, Stray, tuple[str, ...]], None],
    ) -> None:
        self._moved = moved
        self._lost = lost
        self._different = different
        self._source = _Side()
        self._target = _Side()

    def source(self, stray: Stray) -> None:
        """Add a source record whose target offset is empty or holds another record."""
        if (found := self._target.take(stray.digest)) is not None:
            self._moved(stray, found)
            return
        self._source.add(stray)
        if len(self._source.all) > _WINDOW:
            self._give_up_source(next(iter(self._source.all.values())))

    def target(self, stray: Stray) -> None:
        """Add a target record at an offset where no record belongs, or another one."""
        if (found := self._source.take(stray.digest)) is not None:
            self._moved(found, stray)
            return
        self._target.add(stray)
        if len(self._target.all) > _WINDOW:
            self._give_up_target(next(iter(self._target.all.values())))

    def pair(self, source: Stray, target: Stray, fields: tuple[str, ...]) -> None:
        """Add two records of different content at one offset."""
        source.partner, target.partner, source.fields = target, source, fields
        self.source(source)
        self.target(target)

    def finish(self) -> None:
        """Report the remaining records as lost or different: no more records follow."""
        while self._source.all:
            self._give_up_source(next(iter(self._source.all.values())))
        while self._target.all:
            self._give_up_target(next(iter(self._target.all.values())))

    def _give_up_source(self, stray: Stray) -> None:
        self._source.remove(stray)
        partner = stray.partner
        if partner is not None and self._target.all.get(partner.offset) is partner:
            self._target.remove(partner)
            self._different(stray, partner, stray.fields)
        else:
            self._lost(stray, on_source=True)

    def _give_up_target(self, stray: Stray) -> None:
        partner = stray.partner
        if partner is not None and self._source.all.get(partner.offset) is partner:
            self._give_up_source(partner)
            return
        self._target.remove(stray)
        self._lost(stray, on_source=False)
