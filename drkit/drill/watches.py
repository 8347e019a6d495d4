"""Watch production in threads beside a drill: its journal, what it would lose now, what its groups commit.

A watch only reads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import ExitStack, closing, suppress
from statistics import median
import threading
from typing import Final, Self

from drkit.background import Background
from drkit.clock import monotonic
from drkit.config import ClusterSettings
from drkit.drill.evidence import GroupCommit, ProductionLoss
from drkit.drill.steps import DrillRun
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

    :param abort: called with the reason when the drill must end
    """

    def __init__(self, drill: DrillRun, abort: Callable[[str], None]) -> None:
        super().__init__("production's journal", _JOIN_SECONDS)
        self._drill, self._abort = drill, abort
        self._reading, self._open = threading.Lock(), ExitStack()
        self._known: frozenset[str] | None = None
        """The runs in the journal when it was first read."""
        self._new: list[str] = []
        """Those that began since."""
        self._error = ""

    @property
    def has_run(self) -> bool:
        """True once a run of production began during the drill."""
        return bool(self._new)

    def __enter__(self) -> Self:
        self._began = self._answered = monotonic()
        flow = self._drill.flow
        target = self._drill.settings.cluster(flow.target).with_client(flow.target_admin)
        (self._raw,) = self._open.enter_context(connections("drill", target))
        self._journal = JournalReader(self._raw, flow.source)
        self.look()  # a run that begins after this is noticed
        return super().__enter__()

    def stop(self) -> None:
        """Stop reading."""
        super().stop()
        if not self._thread.is_alive():
            self._open.close()

    def look(self) -> bool:
        """Read the journal; return whether the drill must end, which is aborted then."""
        with self._reading:
            began = monotonic()
            try:
                self._raw.loop.run(self._raw.connected)
                self._raw.loop.run(self._journal.read_existing)
            except DrkitError as error:
                self._error = str(error)
            else:
                self._answered, runs = began, frozenset(self._journal.history.runs)
                self._known = runs if self._known is None else self._known
                self._new = sorted(runs - self._known)
            seconds, reason = self._drill.plan.limits.seconds, ""
            if self.has_run:
                reason = f"production failover {self._new[0]} began"
            elif began - self._answered > _SILENT_SECONDS:
                reason = f"production's journal cannot be read: {self._error}"
            elif self._drill.options.stop.is_set():
                reason = DrkitError("process_stopped").what
            elif began - self._began > seconds:
                reason = f"the drill exceeds its limit of {seconds:g} s"
            if reason:
                self._abort(reason)
            return bool(reason)

    def _run(self) -> None:
        while not self._ended.wait(_JOURNAL_SECONDS) and not self.look():
            pass


class ProductionLossSampler(Background):
    """Samples what production would lose now, and ends the drill when its copies fall behind.

    :param abort: called with the reason when the drill must end
    """

    def __init__(self, drill: DrillRun, abort: Callable[[str], None]) -> None:
        super().__init__("production's loss", _JOIN_SECONDS)
        self._drill, self._abort = drill, abort
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
        behind, limit = 0, self._drill.plan.limits.production_lag
        with closing(StatusCollector(self._drill.settings, self._drill.flow, groups=False)) as collector:
            while behind < _BEHIND_LOOKS and not self._ended.wait(_LOSS_SECONDS):
                loss = collector.look().loss
                if loss.records is None:
                    self._unknown += 1
                    continue
                self._records.append(loss.records)
                if loss.seconds is not None:
                    self._seconds.append(loss.seconds)
                is_behind = loss.records > self._records[0] + limit
                behind = behind + 1 if is_behind else 0
        if behind == _BEHIND_LOOKS:
            grown = f"from {self._records[0]:,} to {self._records[-1]:,} records"
            self._abort(f"production would lose more, {grown}; limits.production_lag = {limit:,}")


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
