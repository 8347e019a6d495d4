"""Tails that the old primary keeps: all of one is appended, once, or nothing of it. Pure.

Both logs then have equal records. So none may be left out, and none may be there already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Self

from drkit.catalogue import ERRORS, filled
from drkit.errors import Refused
from drkit.replay.compare import KeptBefore, Same, TailFlag
from drkit.replay.progress import ReplayProgress
from drkit.replay.tail import Tail

_REBUILD: Final = (
    "drkit reprotect --abort; then a return with --method TOPIC=rebuild --disposition TOPIC=replay"
)


class NotKept(Refused):
    """A tail cannot be kept. A return that rebuilds its topic appends what is missing.

    Only that return knows the options with which it was begun, so it says the command.
    """

    topic: str
    """Its name on the old primary."""

    def of(self, tail: Tail, same: str = "") -> Self:
        """Note the topic, and the value of ``--same`` that the command needs."""
        self.topic, self._same = tail.source.topic, same
        return self

    def way_out(self, command: Callable[[str, str], str]) -> str:
        """Return the hint with the command of the return.

        :param command: makes it of a topic, and of a value of ``--same``
        """
        return filled(ERRORS[self.code].hint, {"command": command(self.topic, self._same)})


def kept_before(tail: Tail, seen: Iterable[ReplayProgress]) -> KeptBefore:
    """What returns that were to keep a tail have appended of it, whatever has become of them.

    :param seen: what all runs have done in the partition of the new primary
    """
    mine = [
        p for p in seen
        if p.ids and p.source_id == tail.topic_id and p.first < tail.end and tail.first < p.next
    ]  # fmt: skip
    spans = tuple(sorted({(p.first, p.next) for p in mine}))
    return KeptBefore(spans, frozenset(i for p in mine for i in p.ids or ()))


def refuse_repeats(tail: Tail, flags: bytes, where: str, same: Same | None) -> None:
    """Refuse to append a tail of which the new primary has records.

    :param flags: of each record
    :param same: what records of clients with equal content are; None: nobody has said it
    :raises Refused: it has some
    """
    replayed = sum(bool(f & TailFlag.REPLAYED) for f in flags)
    alike = sum(bool(f & TailFlag.ALIKE) for f in flags) if same is not Same.NONE else 0
    if replayed:
        raise NotKept(
            "keep_replayed_before",
            where=where,
            evidence=f"{replayed:,} of {len(flags):,} records, by their header or by what returns noted",
            command=_REBUILD,
        ).of(tail)
    if alike:
        raise NotKept(
            "keep_content_known",
            where=where,
            evidence=f"{alike:,} of {len(flags):,} records; key, value and headers are equal",
            command=f"{_REBUILD} --same {Same.CONTENT}",
        ).of(tail, Same.CONTENT)


def refuse_other_way(tail: Tail, seen: Iterable[ReplayProgress], where: str) -> None:
    """Refuse a tail that is being appended, or was appended, in the other way or by another run.

    A tail that is kept has no header: while it is appended, no comparison finds the rest of it.

    :param seen: what all runs have done in the partition of the new primary
    :raises Refused: it is, or was
    """
    origin = tail.origin
    for found in seen:
        is_same_run, is_kept = found.run_id == origin.run_id, found.ids is not None
        overlaps = found.source_id == tail.topic_id and found.first < tail.end and tail.first < found.end
        if is_kept and found.is_open and overlaps and not (is_same_run and origin.is_kept):
            raise Refused(
                "keep_under_way",
                where=where,
                evidence=f"run {found.run_id} has appended {found.appended:,} of {found.records:,} records",
            )
        if not origin.is_kept:
            continue
        if is_same_run and not is_kept and not found.is_done:
            raise NotKept(
                "keep_begun_otherwise",
                where=where,
                evidence=f"drkit replay has begun with export {found.run_id}",
                command=_REBUILD,
            ).of(tail)
        appended = overlaps and (found.appended or (is_same_run and found.rolled_back_ms is None))
        if appended and not (is_same_run and is_kept and found.rolled_back_ms is None):
            raise NotKept(
                "keep_replayed_before",
                where=where,
                evidence=f"{found.appended:,} records with export {found.run_id}",
                command=_REBUILD,
            ).of(tail)
