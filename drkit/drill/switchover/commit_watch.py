"""Watch what consumer groups commit on both clusters, beside a switchover."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
import threading
from types import TracebackType
from typing import Final, Self

from drkit.clock import monotonic
from drkit.config import ClusterSettings
from drkit.drill.switchover_evidence import GroupCommit
from drkit.errors import DrkitError
from drkit.kafka.groups.requests import Committed, Groups, failure
from drkit.kafka.one_shot import connections
from drkit.kafka.raw import RawCluster, RawError
from drkit.model import TopicPartition
from drkit.offsets.group_guard import OffsetMark

_LOOK_SECONDS: Final = 0.5
_JOIN_SECONDS: Final = 5.0
_Offsets = dict[tuple[str, TopicPartition], Committed]


class CommitWatch:
    """Reads the committed offsets of some groups in a thread for each cluster; use it in a ``with``.

    Offsets that drkit itself writes are not commits of the group.

    :param clusters: of the pair
    :param groups: names of groups
    :param topics: names of topics on both clusters; others are not looked at
    """

    def __init__(
        self, clusters: Sequence[ClusterSettings], groups: Collection[str], topics: Collection[str]
    ) -> None:
        self._groups, self._topics = sorted(groups), frozenset(topics)
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._watch, args=(c,), daemon=True) for c in clusters]
        self._commits: list[GroupCommit] = []

    @property
    def commits(self) -> list[GroupCommit]:
        """The commits that were seen, in no order."""
        return list(self._commits)

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(_JOIN_SECONDS)

    def _watch(self, cluster: ClusterSettings) -> None:
        known: _Offsets | None = None
        with connections("drill", cluster) as (raw,):
            while not self._ended.is_set():
                # A cluster, or a group, without an answer is asked again.
                with suppress(DrkitError, RawError):
                    offsets: _Offsets = raw.loop.run(self._read, raw)
                    new = offsets.items() - (offsets if known is None else known).items()
                    own = {group for (group, _), offset in new if OffsetMark.of(offset.metadata) is None}
                    now = monotonic()
                    self._commits += [GroupCommit(now, cluster.alias, group) for group in sorted(own)]
                    known = offsets
                self._ended.wait(_LOOK_SECONDS)

    async def _read(self, raw: RawCluster) -> _Offsets:
        await raw.connected()
        found: _Offsets = {}
        for group, answer in (await Groups(raw).committed(self._groups)).items():
            if answer.value is None:
                raise failure(answer.error, f"read the offsets of the group {group}", raw.alias)
            found |= {(group, tp): o for tp, o in answer.value.items() if tp.topic in self._topics}
        return found
