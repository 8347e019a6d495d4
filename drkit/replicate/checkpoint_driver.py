"""Keeps the checkpoint query of a flow supplied with groups and alive; its troubles never end the copy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
import tempfile
import threading
from typing import Any, Final
from uuid import UUID

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from drkit import observe
from drkit.clock import monotonic, wall_ms
from drkit.config import ClusterSettings, FlowSettings
from drkit.errors import DrkitError
from drkit.kafka.admin import Cluster
from drkit.kafka.group_members import listed_groups
from drkit.kafka.raw import RawError
from drkit.kafka.topics import broker_config
from drkit.replicate.checkpoint_query import start_checkpoint_query
from drkit.replicate.checkpoint_shard import Shard, ShardReport, shards_of
from drkit.replicate.checkpoint_source import write_plan
from drkit.replicate.checkpoint_topic import ensure_checkpoint_topic
from drkit.replicate.known import known_of
from drkit.replicate.mm2_topic import tell_remade
from drkit.replicate.query import cause_of
from drkit.replicate.rounds import (
    CHECKPOINTS,
    CONSUMERS,
    RoundTotals,
    promoted_topics,
    summary,
    wants_checkpoints,
)
from drkit.replicate.session import Workshop
from drkit.replicate.state_topic import StateTopic
from drkit.replicate.supervisor import within

GROUPS_PER_SHARD: Final = 500
_FIRST_LOOK_SECONDS: Final = 1.0
_RETENTION: Final = "offsets.retention.minutes"
_SHARE: Final = 4
"""Unchanged offsets are written again after this fraction of the target's retention."""
_SETTINGS_SECONDS: Final = 0.5
_STOP_SECONDS: Final = 2.0
_GOODBYE_SECONDS: Final = 0.5


@contextmanager
def rounds(
    flow: FlowSettings,
    workshop: Workshop,
    clusters: tuple[Cluster, Cluster],
    state: StateTopic,
    totals: RoundTotals,
    *,
    once: bool,
    now: Callable[[], FlowSettings] | None = None,
) -> Iterator[None]:
    """Checkpoint rounds for as long as the context lasts; none with `once`, or where the flow wants none.

    :param now: the flow's settings as they are now, should they change
    """
    if once or not wants_checkpoints(flow):
        yield
        return
    folder = Path(tempfile.mkdtemp(prefix="checkpoints-", dir=workshop.folder))
    driver = CheckpointDriver((clusters[0].settings, clusters[1].settings), flow, state, totals, now)
    driver.start(workshop.spark, folder)
    try:
        yield
    finally:
        within(_GOODBYE_SECONDS, driver.stop)


class CheckpointDriver:
    """One flow's rounds, from :meth:`start` to :meth:`stop`.

    :param state: the flow's; only what others loaded of it is read
    :param totals: counted on by every life of the flow
    """

    def __init__(
        self,
        clusters: tuple[ClusterSettings, ClusterSettings],
        flow: FlowSettings,
        state: StateTopic,
        totals: RoundTotals,
        now: Callable[[], FlowSettings] | None = None,
    ) -> None:
        self._now = now or (lambda: flow)
        self._clusters, self._flow, self._state, self._totals = clusters, flow, state, totals
        self._stop = threading.Event()
        self._query: StreamingQuery | None = None
        self._thread: threading.Thread | None = None
        self._refresh_ms = 0
        self._topic_id: UUID | None = None
        self._trouble = ""
        self._soon = True
        """Look again soon: nothing is known yet."""

    def start(self, spark: SparkSession, folder: Path) -> None:
        """Begin, in a thread of its own.

        :param folder: throw-away; a new one within it for every life of the query
        """
        if CHECKPOINTS not in self._state.values:  # others walk over these values: only replaced later
            self._state.put(CHECKPOINTS, {"at_ms": 0})
        self._thread = threading.Thread(
            target=self._run, args=(spark, folder), name=f"checkpoints {self._flow.name}", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End the rounds; one at work is cut, which is safe anywhere."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)

    def _run(self, spark: SparkSession, folder: Path) -> None:
        life, plan = 0, folder / "none"
        while not self._stop.is_set():
            self._follow()
            shards = self._look()
            query = self._query
            if query is not None and not query.isActive:
                self._tell_trouble(cause_of(query, self._flow).evidence)
                query = None
            if shards and not self._stop.is_set():
                if query is None:
                    life += 1
                    plan = folder / f"{life}" / "plan.json"
                    plan.parent.mkdir()
                write_plan(plan, shards)
                if query is None:
                    told = self.told
                    self._query = start_checkpoint_query(spark, plan, self._clusters, self._flow, told)
            self._pause(_FIRST_LOOK_SECONDS if self._soon else self._flow.refresh_topics_interval_seconds)
        if self._query is not None:
            self._query.stop()

    def _follow(self) -> None:
        """Take the settings of now; another pace needs another query."""
        before, self._flow = self._flow, self._now()
        if self._query is not None and (
            before.checkpoint_interval_seconds != self._flow.checkpoint_interval_seconds
        ):
            self._query.stop()
            self._query = None

    def _pause(self, seconds: float) -> None:
        """Wait; changed settings end it."""
        until = monotonic() + seconds
        while (left := until - monotonic()) > 0 and self._now() is self._flow:
            if self._stop.wait(min(left, _SETTINGS_SECONDS)):
                return

    def _look(self) -> list[str]:
        """The shards of now; none while a cluster does not answer, then the last ones stay."""
        try:
            return self.shards()
        except (DrkitError, RawError) as error:
            self._tell_trouble(str(error))
            self._soon = True
            return []

    # -- what to do ---------------------------------------------------------------------------------

    def shards(self, *, at_once: bool = False) -> list[str]:
        """The groups of now, as shards; none when nothing was copied yet, or there is no group.

        :param at_once: sync, however long ago the last sync was
        :raises DrkitError: a cluster does not answer
        """
        flow = self._flow
        values = dict(self._state.values)
        known = known_of(values)
        self._soon = not known.topics
        if self._soon:
            return []
        topic = flow.mm2_topics.checkpoints(flow.source) if flow.emit_checkpoints else ""
        target = Cluster.connect(self._clusters[1])
        if topic:
            found = ensure_checkpoint_topic(target, topic, flow.checkpoints_topic_replication_factor)
            tell_remade(flow.name, target, topic, self._topic_id, found)
            self._topic_id = found
        if not self._refresh_ms:
            minutes = min(int(broker_config(target, b.id)[_RETENTION].value or 0) for b in target.brokers)
            self._refresh_ms = max(1, minutes * 60_000 // _SHARE)
        theirs = listed_groups(self._clusters[0])
        accepted = flow.group_filter.accepts
        groups = sorted(g for g, x in theirs.items() if x.protocol in CONSUMERS and accepted(g))
        gone: list[str] = []
        if flow.on_source_group_deleted == "mirror":
            gone = sorted(g for g in listed_groups(self._clusters[1]) if g not in theirs and accepted(g))
        promoted = frozenset(promoted_topics(values))
        shards = shards_of(groups, GROUPS_PER_SHARD) or ([()] if gone else [])
        return [
            Shard(
                number, flow.source, names, known, topic, _sync_after(flow, at_once=at_once),
                self._refresh_ms, promoted, tuple(gone) if number == 0 else (), str(self._topic_id or ""),
            ).to_json()
            for number, names in enumerate(shards)
        ]  # fmt: skip

    # -- what became of it --------------------------------------------------------------------------

    def told(self, reports: list[ShardReport]) -> dict[str, Any]:
        """Called by Spark's thread after every round; returns what it did, in short."""
        self._totals.take(reports)
        told = summary(reports, wall_ms(), self._state.values.get(CHECKPOINTS) or {})
        deleted = [g for r in reports for g in r.deleted]
        if deleted:
            observe.event("groups_deleted", flow=self._flow.name, groups=deleted)
        self._tell_trouble(told["error"])
        observe.event("checkpoints", level="debug", flow=self._flow.name,
                      **{k: v for k, v in told.items() if k != "refused"})  # fmt: skip
        try:
            self._state.put(CHECKPOINTS, told)
        except DrkitError as error:
            self._tell_trouble(str(error))
        return told

    def _tell_trouble(self, why: str) -> None:
        """Say what goes wrong once, and that it is over."""
        if why == self._trouble or self._stop.is_set():
            return
        self._trouble = why
        if why:
            observe.event("checkpoints_fail", level="warning", flow=self._flow.name, reason=why)
        else:
            observe.event("checkpoints_work", flow=self._flow.name)


def _sync_after(flow: FlowSettings, *, at_once: bool) -> float | None:
    """From which time since the last sync a round syncs; None: never.

    Half a round before the setting: one that begins a moment early would leave it to the next.
    """
    if not flow.sync_group_offsets:
        return None
    if at_once:
        return 0.0
    return max(0.0, flow.sync_group_offsets_interval_seconds - flow.checkpoint_interval_seconds / 2)
