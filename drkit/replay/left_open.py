"""Ends transactions of replays that are open on a partition after their coordinator has ended them.

A coordinator may leave out the marker of a partition (docs/internal/upstream.md). A transaction of a replay
appends to the destination and then its progress to the log, or to the log alone. Its producer begins no other
while something of it is open, since one marker would end both; and hidden progress has no effect. So, once a
new epoch has begun:

| still open on | what decides | it is committed |
| --- | --- | --- |
| the destination | the log | if progress of its producer counts records from its first one on |
| the log, with nothing appended | | no: it is decided again |
| the log | its last record on the destination | if consumers of committed records see that one |
| both | | no: consumers of committed records see none of it |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
import re
from typing import Final
from uuid import UUID

from drkit.errors import Failed, Refused
from drkit.kafka.codes import NOT_AUTHORIZED, error_name
from drkit.kafka.transactions import OpenProducer, Transactions
from drkit.model import TopicPartition
from drkit.offset_map.scan import scan
from drkit.replay.compare import replay_header
from drkit.replay.log import ReplayLog
from drkit.replay.progress import ReplayBook, ReplayProgress
from drkit.replay.side import TRANSACTION_MS, ActiveSide, NotYet
from drkit.wire import Record

_UNKNOWN: Final = "it is drkit's own, and its outcome is unknown: no record shows it"
_DECIDE: Final = (
    "keep the export; an abort by hand may lose records that count as appended, or have records appended"
    " twice; compare both sides before it"
)


class ReplayMarkers:
    """Awaits markers on the log and some destinations, each with its topic's id, and writes missing ones."""

    def __init__(self, side: ActiveSide, log: ReplayLog, to: Mapping[TopicPartition, UUID]) -> None:
        self._side, self._log = side, log
        self._places = {**to, log.at: log.id}

    async def await_markers(self, producer: Transactions) -> None:
        """Wait for the markers of a producer's last transaction. Raises NotYet if one is missing."""
        look = partial(self._side.opened, self._places, {producer.identity.id})
        if still_open := await self._side.cluster.loop.until_nothing(look):
            raise NotYet(f"a transaction that has ended is open on {still_open[0].at}")

    async def abandoned(self, prefixes: tuple[str, ...]) -> list[Transactions]:
        """Begin an epoch of each producer that has something open without a transaction; return them.

        :param prefixes: of their transactional ids
        :raises DrkitError: the new primary does not answer, or refuses
        """
        names = await self._side.patiently(partial(self._side.hanging, self._places), self._log.at)
        own = [name for name in sorted(names) if name.startswith(prefixes)]
        producers = [Transactions(self._side.cluster, name, TRANSACTION_MS) for name in own]
        for producer in producers:
            await producer.begin_epoch()
        return producers

    async def end(self, producers: Iterable[Transactions]) -> None:
        """End what producers have left open, whose epoch has just begun.

        :raises Refused: a record that decides is gone, or is hidden by a transaction of a client
        :raises Failed: drkit may not write the marker
        :raises DrkitError: the new primary does not answer
        """
        epochs = dict(p.identity for p in producers)

        async def end() -> None:
            if not (still_open := await self._side.opened(self._places, epochs)):
                return
            book = await self._log.read(self._side, decided=False)
            for opened in still_open:
                where, commits = f"{opened.at} on {self._side.alias}", await self._is_committed(opened, book)
                if commits is None:
                    raise Refused("replay_open_transaction", where=where, evidence=_UNKNOWN, hint=_DECIDE)
                epoch = epochs[opened.producer_id]
                code = await opened.end(self._side.cluster, epoch, commits=commits)
                if code in NOT_AUTHORIZED:
                    raise Failed("transaction_left_open", where=where, evidence=error_name(code))
                if code:
                    self._side.forget(opened.at.topic)
                    raise NotYet(error_name(code))

        await self._side.patiently(end, self._log.at)

    async def _is_committed(self, opened: OpenProducer, book: ReplayBook) -> bool | None:
        """Return whether a transaction is committed, or None if it is unknown."""
        if (tp := opened.at) != self._log.at:
            runs = [r for r in book.of_partition(tp).values() if r.topic_id == self._places[tp]]
            since = opened.state.open_since
            if (counted := is_counted(runs, opened.producer_id, since)) is not None:
                return counted
            earlier = [r for r in runs if r.copied_to is None]
            found = [await self._has(r, (since, since + 1), range(r.first, r.next)) for r in earlier]
            return True if True in found else None if None in found else False
        for key, hidden in self._log.hidden(book, opened.producer_id).items():
            known = book.progress.get(key)
            if hidden.appended > (known.appended if known is not None else 0):
                first = known.next if known is not None else hidden.first
                return await self._is_visible(hidden, opened.producer_id, first)
        return False

    async def _is_visible(self, hidden: ReplayProgress, producer_id: int, first: int) -> bool | None:
        """Return whether the records of a progress are committed, or None if they are gone.

        :param first: the first offset on the old primary that it adds
        """
        side, tp, topic_id, end = self._side, hidden.at, hidden.topic_id, hidden.copied_to
        try:
            node = await side.leader(tp, topic_id)
        except Refused:  # the topic is gone
            return False
        if await side.opened({tp: topic_id}, {producer_id}):
            return False
        decided = await side.decided_end(tp, topic_id)
        if end is None:
            span, offsets = (hidden.compared_to, decided), range(first, hidden.next)
            return await self._has(hidden, span, offsets, committed=True)
        batches = await scan(side.cluster, node, tp, topic_id, end - 1, end)
        own = [b for b in batches if b.producer_id == producer_id and not b.control]
        return not own[0].aborted if own else None

    async def _has(
        self, run: ReplayProgress, span: tuple[int, int], offsets: range, *, committed: bool = False
    ) -> bool | None:
        """Return whether a range has a record that a run has replayed from some offsets, by its header.

        drkit 0.1 notes the ends of records without a header only. None: some of the range is gone.
        """
        found, from_run = list[int](), re.compile(rb".+@(\d+)/" + re.escape(run.run_id.encode()))

        def take(record: Record) -> None:
            match = from_run.fullmatch(replay_header(record.headers))
            if match is not None and int(match[1]) in offsets:
                found.append(record.offset)

        start = max(span[0], await self._side.start(run.at, run.topic_id))
        whole = await self._side.read(run.at, run.topic_id, (start, span[1]), take, committed=committed)
        return bool(found) or (None if start > span[0] or not whole else False)


def is_counted(runs: Iterable[ReplayProgress], producer_id: int, open_since: int) -> bool | None:
    """Return whether progress counts records of a producer from an offset of the destination on. Pure.

    :param runs: the progress of all runs in the partition
    :returns: None if the records must show it: drkit 0.1 notes no such offset
    """
    own = [r for r in runs if r.appended and (r.ids is None or producer_id in r.ids)]
    ends = [r.copied_to for r in own if r.copied_to is not None]
    return any(end > open_since for end in ends) or (None if len(ends) < len(own) else False)
