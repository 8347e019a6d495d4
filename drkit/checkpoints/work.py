"""Decides from round to round what checkpoints of a flow have to be made of; needs no Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from drkit.checkpoints.group_ledger import GroupLedger
from drkit.checkpoints.moved_groups import MovedGroups
from drkit.checkpoints.other_groups import OtherGroup
from drkit.checkpoints.plan import GROUPS_PER_SHARD, FrameLook, GroupsFrame
from drkit.checkpoints.shard import Shard, ShardReport
from drkit.clock import Seconds, monotonic, wall_ms
from drkit.config import ClusterSettings, FlowSettings
from drkit.errors import DrkitError
from drkit.flow_state.state import FlowState
from drkit.kafka.raw import RawError

_LOOK_SECONDS: Final = 300.0
"""Within this time every group is looked at, whatever is known of it."""
_UNLISTED: Final = 3
"""Factor for the time until groups are listed again after a failure: it takes long if a broker is dead."""


class CheckpointWork:
    """What the rounds of one flow look at. A round is over before the next is asked for.

    :param clusters: source and target
    :param waiting: source topics that are not copied before their return
    """

    def __init__(
        self,
        clusters: tuple[ClusterSettings, ClusterSettings],
        flow: str,
        clock: Seconds = monotonic,
        *,
        waiting: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        self._look, self._moved = FrameLook(clusters, waiting), MovedGroups(clusters[0], flow)
        self._clock = clock
        self.ledger = GroupLedger()
        self.number = wall_ms()
        """Of the newest round: no worker, which may outlive the flow, takes it for one of an earlier life."""
        self.whole = True
        """It looks at all groups."""
        self.unlisted = ""
        """Why the current groups are unknown; the groups listed before stay valid."""
        self._frame: GroupsFrame | None = None
        self._gone: tuple[str, ...] = ()
        self._recorded: tuple[tuple[str, str, int], ...] = ()
        self._look_at = self._synced_at = float("-inf")

    @property
    def others(self) -> tuple[OtherGroup, ...]:
        """Groups that the flow's filter accepts and that are not consumer groups."""
        return self._frame.others if self._frame is not None else ()

    @property
    def begun(self) -> bool:
        """There is something to make checkpoints of."""
        return self._frame is not None

    def of_all(self, flow: FlowSettings, state: FlowState, *, at_once: bool = False) -> list[Shard]:
        """All current groups as shards; empty when nothing was copied yet, or without groups.

        :param state: the flow's state
        :param at_once: sync, however long ago the last sync was
        :raises DrkitError: a cluster does not answer
        """
        self._frame = self._look.look(flow, state)
        if self._frame is None:
            return []
        self._gone, self._recorded = self._frame.gone, self._frame.recorded
        return self._shards(flow, self._frame, None, at_once=at_once)

    def of_next(self, flow: FlowSettings, state: FlowState) -> list[Shard] | None:
        """What the next round has to look at, as shards; None when nothing was copied yet.

        An empty list: the round is over, no group has moved.
        """
        before = self._frame
        if self._clock() >= self._look_at:
            self._renew(flow, state)
        if self._frame is None:
            return None
        # The log first: commits from now on are in the next round.
        changed = self._moved.newest(groups=bool(self._frame.groups)) if flow.follow_group_commits else None
        if before is None or self._all_are_due(before, self._frame):
            changed = None
        return self._shards(flow, self._frame, changed)

    def _all_are_due(self, before: GroupsFrame, now: GroupsFrame) -> bool:
        """Whether something changed for all groups. An added topic does not make many groups due at once.

        The log shows the groups that commit there now; the others committed there before it was copied.
        """
        if before.terms == now.terms:
            return False
        if len(now.groups) > GROUPS_PER_SHARD and before.terms.widened(now.terms):
            self.ledger.look_soon()
            return False
        return True

    def look_anew(self) -> None:
        """Ask for groups and topics at the next round: the settings have changed."""
        self._look_at = float("-inf")

    def take(self, reports: Sequence[ShardReport]) -> None:
        """Note what a round did."""
        for report in reports:
            self.ledger.take(report, self._clock())

    def _renew(self, flow: FlowSettings, state: FlowState) -> None:
        pause = flow.refresh_topics_interval_seconds
        try:
            found = self._look.look(flow, state)
        except (DrkitError, RawError) as error:
            self.unlisted = str(error)
            pause *= _UNLISTED
        else:
            self.unlisted = ""
            self._frame = found
            if found is not None:
                self._gone, self._recorded = found.gone, found.recorded
        self._look_at = self._clock() + pause if self._frame is not None else float("-inf")

    def _shards(
        self, flow: FlowSettings, frame: GroupsFrame, changed: frozenset[str] | None, *, at_once: bool = False
    ) -> list[Shard]:
        now = self._clock()
        sync = self._syncs(flow, now, at_once=at_once)
        look = min(_LOOK_SECONDS, frame.terms.refresh_ms / 1000)
        self.whole = changed is None
        groups = self.ledger.due(frame.groups, changed, now, look_seconds=look, sync=sync)
        self.number += 1
        gone: tuple[str, ...] = ()
        if sync:
            self._synced_at, gone, self._gone = now, self._gone, ()
        recorded, self._recorded = self._recorded, ()
        last, quick = self.ledger.sent(groups), self.ledger.quick
        return frame.shards(groups, last, self.number, gone=gone, recorded=recorded, sync=sync, quick=quick)

    def _syncs(self, flow: FlowSettings, now: float, *, at_once: bool) -> bool:
        """Whether a round that begins now syncs.

        Half a round before the setting: one that begins a moment early would leave it to the next.
        """
        early = flow.checkpoint_interval_seconds / 2
        due = now - self._synced_at >= flow.sync_group_offsets_interval_seconds - early
        return flow.sync_group_offsets and (due or at_once)

    def close(self) -> None:
        """Close the connections."""
        self._moved.close()
        self._look.close()
