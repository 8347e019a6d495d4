"""Jobs of a flow beside copying, whose failures never end the copy: checkpoint rounds and offset syncs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
import threading
from typing import Any, Final

from drkit import observe
from drkit.allocator import search_seldom
from drkit.checkpoints.group_ledger import RoundTotals, summary, wants_checkpoints
from drkit.checkpoints.other_groups import SHOWN, OtherGroup
from drkit.checkpoints.round import CheckpointTask
from drkit.checkpoints.shard import Shard, ShardReport
from drkit.checkpoints.work import CheckpointWork
from drkit.clock import monotonic, wall_ms
from drkit.config import ClusterSettings, FlowSettings
from drkit.errors import DrkitError
from drkit.flow_state.records import CheckpointsRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.mm2_topics.offset_syncs import OffsetSyncEmitter, OffsetSyncs, syncing
from drkit.replicate.once import wants_another_round
from drkit.spark.jobs import SparkJobs, round_jobs, run_round
from drkit.spark.session import SharedSpark
from drkit.time_limit import within

_FIRST_LOOK_SECONDS: Final = 1.0
_SETTINGS_SECONDS: Final = 0.5
_STOP_SECONDS: Final = 2.0
_GOODBYE_SECONDS: Final = 0.5


class CheckpointDriver:
    """One flow's rounds, from :meth:`start` to :meth:`stop`.

    :param state: the flow's; this class reads it, and others load it
    :param totals: counted over all runs of the flow
    :param waiting: source topics that are not copied before their return
    """

    def __init__(
        self,
        clusters: tuple[ClusterSettings, ClusterSettings],
        flow: FlowSettings,
        state: StateTopic,
        totals: RoundTotals,
        now: Callable[[], FlowSettings] | None = None,
        *,
        waiting: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        self._now = now or (lambda: flow)
        self._waiting, self._waited_for = waiting, waiting()
        self._clusters, self._flow, self._state, self._totals = clusters, flow, state, totals
        self._work = CheckpointWork(clusters, flow.name, waiting=waiting)
        self._stop = threading.Event()
        self._jobs: SparkJobs | None = None
        self._thread: threading.Thread | None = None
        self._trouble = ""
        self._others: tuple[OtherGroup, ...] = ()

    def start(self, jobs: SparkJobs) -> None:
        """Begin, in a thread of its own, with `jobs` for rounds that are too large for this process."""
        self._jobs = jobs
        if self._state.get(CheckpointsRecord) is None:
            self._state.put(CheckpointsRecord(0))
        self._thread = threading.Thread(
            target=self._run, args=(jobs,), name=f"checkpoints {self._flow.name}", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End the rounds; cut the current one, which is safe anywhere."""
        self._stop.set()
        if self._thread is not None and self._jobs is not None:
            self._jobs.cancel(_STOP_SECONDS)
            self._thread.join(_STOP_SECONDS)

    def close(self) -> None:
        """Close the connections of a driver that was not started."""
        self._work.close()

    def _run(self, jobs: SparkJobs) -> None:
        search_seldom()
        own = CheckpointTask(*self._clusters, self._flow)
        try:
            while not self._stop.is_set():
                began = monotonic()
                self._follow()
                self._round(jobs, own)
                self._pause(began)
        finally:
            own.close()
            self._work.close()

    def _follow(self) -> None:
        """Take the current settings, and the topics that wait for their return."""
        before, self._flow = (self._flow, self._waited_for), self._now()
        self._waited_for = self._waiting()
        if before[0] is not self._flow or before[1] != self._waited_for:
            self._work.look_anew()

    def _pause(self, began: float) -> None:
        """Wait for the next round; changed settings end the wait."""
        seconds = self._flow.checkpoint_interval_seconds
        until = began + (seconds if self._work.begun else min(seconds, _FIRST_LOOK_SECONDS))
        while (remaining := until - monotonic()) > 0 and self._now() is self._flow:
            if self._stop.wait(min(remaining, _SETTINGS_SECONDS)):
                return

    def shards(self, *, at_once: bool = False) -> list[Shard]:
        """All current groups as shards; empty when nothing was copied yet, or without groups.

        :param at_once: sync, however long ago the last sync was
        :raises DrkitError: a cluster does not answer
        """
        return self._work.of_all(self._flow, self._state.records.copy(), at_once=at_once)

    def _round(self, jobs: SparkJobs, own: CheckpointTask) -> None:
        """Run the next round, if groups need one, and wait for its end.

        :param own: runs small rounds in this process, where a Spark job would be more work
        """
        began = monotonic()
        shards = self._work.of_next(self._flow, self._state.records.copy())
        if self._work.unlisted:
            self._report_trouble(self._work.unlisted)
        if shards is None or self._stop.is_set():
            return
        if not shards:
            self.report([], monotonic() - began)
        elif len(shards) == 1 and not self._work.whole:
            self.report([own.run(shards[0])])
        else:
            self._dispatch(jobs, shards)

    def _dispatch(self, jobs: SparkJobs, shards: list[Shard]) -> None:
        """Run a round in Spark; report one that dies: the next round looks at its groups again."""
        try:
            reports = run_round(jobs, shards, self._clusters, self._flow)
        except DrkitError as error:
            self._report_trouble(error.in_short)
        else:
            self.report(reports)

    def report(self, reports: list[ShardReport], seconds: float = 0.0) -> dict[str, Any]:
        """Record and report a round; return its summary.

        :param seconds: duration of a round that needed no task
        """
        self._work.take(reports)
        self._totals.take(reports, self._work.ledger.names)
        before = self._state.get(CheckpointsRecord)
        record = summary(reports, wall_ms(), before, self._work.ledger, seconds, self._work.others)
        result = record.to_json()
        deleted = [g for r in reports for g in r.deleted]
        if deleted:
            observe.event("groups_deleted", flow=self._flow.name, groups=deleted)
        self._report_trouble(record.error or self._work.unlisted)
        self._report_others()
        observe.event("checkpoints", level="debug", flow=self._flow.name,
                      **{k: v for k, v in result.items() if k != "refused"})  # fmt: skip
        try:
            self._state.put(record)
        except DrkitError as error:
            self._report_trouble(str(error))
        return result

    def _report_others(self) -> None:
        """Report the groups that are not synchronised, whenever they change."""
        if self._work.others == self._others:
            return
        self._others = self._work.others
        if self._others:
            groups = {o.group: o.reason for o in self._others[:SHOWN]}
            observe.event("groups_not_synchronised", flow=self._flow.name, groups=groups,
                          total=len(self._others))  # fmt: skip

    def _report_trouble(self, reason: str) -> None:
        """Report a trouble once, and its end once."""
        if reason == self._trouble or self._stop.is_set():
            return
        self._trouble = reason
        if reason:
            observe.event("checkpoints_fail", level="warning", flow=self._flow.name, reason=reason)
        else:
            observe.event("checkpoints_work", flow=self._flow.name)


_LAST_ROUNDS: Final = 5
_PAUSE_SECONDS: Final = 0.5
"""Pause between two of the last rounds: coordinators of a new cluster load for a moment."""


@dataclass
class SideJobs:
    """Runs checkpoint rounds and offset syncs during a copy, or once when a copy with an end is complete."""

    workshop: SharedSpark
    clusters: tuple[Cluster, Cluster]
    state: StateTopic
    totals: RoundTotals
    now: Callable[[], FlowSettings]
    """Returns the flow's current settings, which may change."""
    waiting: Callable[[], frozenset[str]] = frozenset
    """Returns source topics that are not copied before their return."""

    @contextmanager
    def running(self, *, once: bool) -> Iterator[None]:
        """Run both until the end of the context; neither with `once`."""
        with self._rounds(once=once), syncing(self.clusters, self.state, self.now, once=once):
            yield

    @contextmanager
    def _rounds(self, *, once: bool) -> Iterator[None]:
        """Run checkpoint rounds for as long as the context lasts; none if the flow needs none."""
        flow = self.now()
        if once or not wants_checkpoints(flow):
            yield
            return
        both = self.clusters[0].settings, self.clusters[1].settings
        driver = CheckpointDriver(both, flow, self.state, self.totals, self.now, waiting=self.waiting)
        driver.start(round_jobs(self.workshop, flow))
        try:
            yield
        finally:
            within(_GOODBYE_SECONDS, driver.stop)

    def finish(self, stop: threading.Event) -> dict[str, Any]:
        """Write the final positions of groups and the final offset syncs, after a copy with an end.

        :returns: summary of the last checkpoint round; empty if the flow needs no rounds
        :raises DrkitError: a cluster does not answer, or a round's job has died
        """
        flow = self.now()
        if flow.emit_offset_syncs:
            OffsetSyncEmitter(OffsetSyncs(self.clusters, flow, self.state), self.now).look_once()
        if not wants_checkpoints(flow) or not self.workshop.wait(stop):
            return {}
        return self._last_rounds(flow, stop)

    def _last_rounds(self, flow: FlowSettings, stop: threading.Event) -> dict[str, Any]:
        """Run rounds, one after another, until one leaves nothing to do."""
        both = self.clusters[0].settings, self.clusters[1].settings
        driver = CheckpointDriver(both, flow, self.state, self.totals, waiting=self.waiting)
        jobs = round_jobs(self.workshop, flow)
        done: dict[str, Any] = {}
        with closing(driver):
            for number in range(_LAST_ROUNDS):
                if number and stop.wait(_PAUSE_SECONDS):
                    break
                shards = driver.shards(at_once=True)
                if not shards:
                    return {}
                done = driver.report(run_round(jobs, shards, both, flow))
                if not wants_another_round(done):
                    break
        return done
