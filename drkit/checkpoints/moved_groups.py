"""Which groups have committed on a flow's source since the last round, by the log of group offsets."""

from __future__ import annotations

from typing import Final

from drkit import observe
from drkit.config import ClusterSettings
from drkit.errors import DrkitError, NotAuthorized
from drkit.kafka.groups.tail import OFFSETS_TOPIC, GroupTail
from drkit.kafka.raw import EventLoop, RawCluster, RawError

_DO_WITHOUT: Final = "a cluster that hides it leaves no other way: follow_group_commits = false"


class MovedGroups:
    """Follows that log, with connections that stay. Use it from one thread.

    :param flow: its name, for events
    """

    def __init__(self, source: ClusterSettings, flow: str) -> None:
        self._source, self._flow = source, flow
        self._loop: EventLoop | None = None
        self._cluster: RawCluster | None = None
        self._tail: GroupTail | None = None
        self._hidden = ""

    def newest(self, *, groups: bool) -> frozenset[str] | None:
        """Those that may have moved since the last call; None: any may have, so all are to be asked for.

        :param groups: the source has some, so it has such a log
        """
        self._loop = loop = self._loop or EventLoop()
        try:
            found: frozenset[str] | None = loop.run(self._read, loop)
        except NotAuthorized as error:
            self._tell(f"{error.what}: {error.where}", error.hint)
            return None
        except (DrkitError, RawError):
            self._let_go()  # the round that asks the source for the offsets reports whether it answers
            return None
        if groups and self._tail is not None and self._tail.missing:
            self._tell(f"{OFFSETS_TOPIC} on {self._source.alias} is not there", _DO_WITHOUT)
        else:
            self._tell("")
        return found

    async def _read(self, loop: EventLoop) -> frozenset[str] | None:
        if self._cluster is None or self._tail is None:
            self._cluster = RawCluster(loop, self._source, "group-tail")
            self._tail = GroupTail(self._cluster)
        await self._cluster.connected()
        return await self._tail.changed()

    def _tell(self, hidden: str, hint: str = "") -> None:
        """Report once that rounds cost more than they need, and once that this is over."""
        if hidden == self._hidden:
            return
        self._hidden = hidden
        if hidden:
            observe.event("group_commits_hidden", level="warning", flow=self._flow, hint=hint,
                          reason=f"{hidden}; every checkpoint round asks for all groups")  # fmt: skip
        else:
            observe.event("group_commits_followed", flow=self._flow)

    def _let_go(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
        self._cluster = self._tail = None

    def close(self) -> None:
        """Close the connections."""
        self._let_go()
        if self._loop is not None:
            self._loop.close()
        self._loop = None
