"""Watch production in threads beside a drill: its journal, what it would lose now, what its groups commit.

A watch only reads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import closing, suppress
from statistics import median
import threading
from typing import Final, Self

from drkit.background import Background
from drkit.clock import monotonic
from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.drill.evidence import GroupCommit, ProductionLoss
from drkit.errors import DrkitError
from drkit.journal.topic import JournalReader
from drkit.kafka.groups.requests import Committed, Groups
from drkit.kafka.raw import RawCluster, connections
from drkit.model import TopicPartition
from drkit.offsets.group_guard import OffsetMark
from drkit.status.look import StatusCollector

_JOIN_SECONDS: Final = 5.0
"""Nothing waits longer for a watch: a call to a dead cluster takes its time."""
_JOURNAL_SECONDS, _LOSS_SECONDS, _COMMIT_SECONDS = 1.0, 2.0, 0.5
"""The period of each watch."""
_SILENT_SECONDS: Final = 10.0
_BEHIND_LOOKS: Final = 3
"""A single look may see a round of the copy half done."""
_Offsets = dict[tuple[str, TopicPartition], Committed]


class ProductionWatch(Background):
    """Reads production's journal each second: a run that begins there ends the drill.

    :param settings: of production, as is `flow`
    :param seconds: longest duration of the drill
    :param abort: called once with the reason when the drill must end
    :param ended: an event that ends the drill when it is set
    """

    def __init__(
        self,
        settings: Settings,
        flow: FlowSettings,
        seconds: float,
        abort: Callable[[str], None],
        ended: threading.Event,
    ) -> None:
        super().__init__("production's journal", _JOIN_SECONDS)
        self._target = settings.cluster(flow.target).with_client(flow.target_admin)
        self._flow, self._seconds, self._abort = flow, seconds, abort
        self._to_end, self._wake, self._looked = ended, threading.Event(), threading.Condition()
        self._looks = 0
        """Number of times that the journal was read."""
        self._is_over = False
        self.has_run = False
        """True once a run of production began during the drill."""

    def __enter__(self) -> Self:
        super().__enter__()
        self.refresh()  # a run that begins after this is noticed
        return self

    def stop(self) -> None:
        """Stop reading."""
        self._ended.set()
        self._wake.set()
        super().stop()

    def refresh(self) -> None:
        """Return when the journal was read again, from after this call, or does not answer."""
        with self._looked:
            enough = self._looks + 2  # the next one may have begun before
            while self._looks < enough and not self._is_over:
                self._wake.set()
                if not self._looked.wait(_SILENT_SECONDS):
                    return

    def _run(self) -> None:
        try:
            with connections("drill", self._target) as (raw,):
                self._watch_journal(raw, JournalReader(raw, self._flow.source))
        finally:
            with self._looked:
                self._is_over = True
                self._looked.notify_all()

    def _watch_journal(self, raw: RawCluster, journal: JournalReader) -> None:
        began = answered = monotonic()
        known: set[str] | None = None
        new: list[str] = []
        error: Exception | None = None
        while not self._ended.is_set():
            now = monotonic()
            try:
                raw.loop.run(raw.connected)
                raw.loop.run(journal.read_existing)
            except DrkitError as silence:
                error = silence
            else:
                answered, runs = now, set(journal.history.runs)
                known = runs if known is None else known
                new = sorted(runs - known)
                self.has_run = bool(new)
            reasons = (
                (self.has_run, f"production failover {''.join(new[:1])} began"),
                (now - answered > _SILENT_SECONDS, f"production's journal cannot be read: {error}"),
                (self._to_end.is_set(), DrkitError("process_stopped").what),
                (now - began > self._seconds, f"the drill exceeds its limit of {self._seconds:g} s"),
            )
            if reason := next((text for is_so, text in reasons if is_so), ""):
                self._abort(reason)
                return
            with self._looked:
                self._looks += answered == now
                self._looked.notify_all()
            self._wake.wait(_JOURNAL_SECONDS)
            self._wake.clear()


class ProductionLossSampler(Background):
    """Samples what production would lose now, and ends the drill when its copies fall behind.

    :param settings: of production, as is `flow`
    :param limit: the most records that the loss may grow
    :param abort: called with the reason when the drill must end
    """

    def __init__(
        self, settings: Settings, flow: FlowSettings, limit: int, abort: Callable[[str], None]
    ) -> None:
        super().__init__("production's loss", _JOIN_SECONDS)
        self._settings, self._flow, self._limit, self._abort = settings, flow, limit, abort
        self._records: list[int] = []
        self._seconds: list[float] = []
        self._unknown = 0

    def found(self) -> ProductionLoss | None:
        """Return the summary of the samples, or None without a sample."""
        if not self._records:
            return None
        oldest, middle = (round(f(self._seconds), 3) if self._seconds else None for f in (max, median))
        return ProductionLoss(len(self._records), self._unknown, max(self._records), oldest, middle)

    def _run(self) -> None:
        behind = 0
        with closing(StatusCollector(self._settings, self._flow, groups=False)) as collector:
            while behind < _BEHIND_LOOKS and not self._ended.wait(_LOSS_SECONDS):
                loss = collector.look().loss
                if loss.records is None:
                    self._unknown += 1
                    continue
                self._records.append(loss.records)
                if loss.seconds is not None:
                    self._seconds.append(loss.seconds)
                is_behind = loss.records > self._records[0] + self._limit
                behind = behind + 1 if is_behind else 0
        if behind == _BEHIND_LOOKS:
            grown = f"from {self._records[0]:,} to {self._records[-1]:,} records"
            self._abort(f"production would lose more, {grown}; limits.production_lag = {self._limit:,}")


class CommitWatch(Background):
    """Reads the committed offsets of some groups of a cluster.

    Offsets that drkit itself writes are not commits of the group.

    :param groups: names of groups
    :param topics: names of topics; others are not looked at
    :param take: called with each commit of a group
    """

    def __init__(
        self,
        cluster: ClusterSettings,
        groups: Collection[str],
        topics: Collection[str],
        take: Callable[[GroupCommit], None],
    ) -> None:
        super().__init__(f"commits on {cluster.alias}", _JOIN_SECONDS)
        self._cluster, self._groups, self._topics = cluster, sorted(groups), frozenset(topics)
        self._take = take

    def _run(self) -> None:
        known: _Offsets | None = None
        with connections("drill", self._cluster) as (raw,):
            while not self._ended.is_set():
                # A cluster, or a group, without an answer is asked again.
                with suppress(DrkitError):
                    offsets: _Offsets = raw.loop.run(self._read, raw)
                    new = offsets.items() - (offsets if known is None else known).items()
                    own = {group for (group, _), offset in new if OffsetMark.of(offset.metadata) is None}
                    now = monotonic()
                    for group in sorted(own):
                        self._take(GroupCommit(now, self._cluster.alias, group))
                    known = offsets
                self._ended.wait(_COMMIT_SECONDS)

    async def _read(self, raw: RawCluster) -> _Offsets:
        await raw.connected()
        by_group = (await Groups(raw).offsets(self._groups)).items()
        return {(group, tp): o for group, of in by_group for tp, o in of.items() if tp.topic in self._topics}
