"""Watch what consumer groups commit on both clusters, beside a switchover."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from drkit.clock import monotonic
from drkit.config import ClusterSettings
from drkit.drill.switchover_evidence import GroupCommit
from drkit.drill.watch_thread import WatchThreads
from drkit.errors import DrkitError
from drkit.kafka.groups.requests import Committed, Groups, failure
from drkit.kafka.raw import RawCluster, RawError, connections
from drkit.model import TopicPartition
from drkit.offsets.group_guard import OffsetMark

_LOOK_SECONDS: Final = 0.5
_Offsets = dict[tuple[str, TopicPartition], Committed]


class CommitWatch(WatchThreads):
    """Reads the committed offsets of some groups in a thread for each cluster; use it in a ``with``.

    Offsets that drkit itself writes are not commits of the group.

    :param clusters: of the pair
    :param groups: names of groups
    :param topics: names of topics on both clusters; others are not looked at
    """

    def __init__(
        self, clusters: Sequence[ClusterSettings], groups: Collection[str], topics: Collection[str]
    ) -> None:
        super().__init__(*(partial(self._watch, cluster) for cluster in clusters))
        self._groups, self._topics = sorted(groups), frozenset(topics)
        self._commits: list[GroupCommit] = []

    @property
    def commits(self) -> list[GroupCommit]:
        """The commits that were seen, in no order."""
        return list(self._commits)

    def _watch(self, cluster: ClusterSettings) -> None:
        known: _Offsets | None = None
        with connections("drill", cluster) as (raw,):
            while not self.stop.is_set():
                # A cluster, or a group, without an answer is asked again.
                with suppress(DrkitError, RawError):
                    offsets: _Offsets = raw.loop.run(self._read, raw)
                    new = offsets.items() - (offsets if known is None else known).items()
                    own = {group for (group, _), offset in new if OffsetMark.of(offset.metadata) is None}
                    now = monotonic()
                    self._commits += [GroupCommit(now, cluster.alias, group) for group in sorted(own)]
                    known = offsets
                self.stop.wait(_LOOK_SECONDS)

    async def _read(self, raw: RawCluster) -> _Offsets:
        await raw.connected()
        found: _Offsets = {}
        for group, answer in (await Groups(raw).committed(self._groups)).items():
            if answer.value is None:
                raise failure(answer.error, f"read the offsets of the group {group}", raw.alias)
            found |= {(group, tp): o for tp, o in answer.value.items() if tp.topic in self._topics}
        return found
