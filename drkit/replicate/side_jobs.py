"""What a flow does beside copying: checkpoint rounds, and MirrorMaker 2's offset syncs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
import threading
from typing import Any, Final

from drkit.checkpoints.summary import wants_checkpoints
from drkit.config import FlowSettings
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.mm2_topics.offset_syncs import OffsetSyncEmitter, OffsetSyncs, syncing
from drkit.replicate.checkpoint_rounds import CheckpointDriver, rounds
from drkit.replicate.once import wants_another_round
from drkit.spark.checkpoint_jobs import round_jobs, run_round
from drkit.spark.session import SharedSpark
from drkit.status.progress import Progress

_LAST_ROUNDS: Final = 5
_PAUSE_SECONDS: Final = 0.5
"""Between two of them: coordinators of a new cluster load for a moment."""


class SideJobs:
    """Runs both for as long as a copy runs, or once when a copy with an end is complete.

    :param now: returns the flow's current settings, which may change
    :param waiting: source topics that are not copied before their return
    """

    def __init__(
        self,
        workshop: SharedSpark,
        clusters: tuple[Cluster, Cluster],
        state: StateTopic,
        progress: Progress,
        now: Callable[[], FlowSettings],
        waiting: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        self._waiting = waiting
        self._workshop, self._clusters, self._state = workshop, clusters, state
        self._totals, self._now = progress.totals.groups, now

    @contextmanager
    def running(self, *, once: bool) -> Iterator[None]:
        """Both, until the end of the context; neither with `once`."""
        what = self._now(), self._workshop, self._clusters, self._state, self._totals
        with (
            rounds(*what, once=once, now=self._now, waiting=self._waiting),
            syncing(self._now(), self._clusters, self._state, once=once, now=self._now),
        ):
            yield

    def finish(self, stop: threading.Event) -> dict[str, Any]:
        """After a copy with an end: the groups find their positions, and readers of offset syncs the end.

        :returns: what the last checkpoint round did; empty when the flow wants none, or none is needed
        :raises DrkitError: a cluster does not answer, or a round's job has died
        """
        flow = self._now()
        if flow.emit_offset_syncs:
            OffsetSyncEmitter(OffsetSyncs(self._clusters, flow, self._state), self._now).look_once()
        if not wants_checkpoints(flow) or not self._workshop.wait(stop):
            return {}
        return self._last_rounds(flow, stop)

    def _last_rounds(self, flow: FlowSettings, stop: threading.Event) -> dict[str, Any]:
        """Rounds, one after another, until one leaves nothing to do."""
        both = self._clusters[0].settings, self._clusters[1].settings
        driver = CheckpointDriver(both, flow, self._state, self._totals, waiting=self._waiting)
        jobs = round_jobs(self._workshop, flow)
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
