"""One attempt to run a flow: its lease first, then everything that the lease allows."""

from __future__ import annotations

from functools import partial
import threading
from typing import Final

from drkit.flow_state.creation import ensure_state_topic
from drkit.flow_state.lease.run_lease import FlowLease
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster, refuse_same_cluster
from drkit.kafka.transport import permitted_by
from drkit.pair.reverse_flow import OppositeFlows
from drkit.replicate.flow_run import FlowMemory, FlowRun
from drkit.replicate.frame import writes_for
from drkit.replicate.standby import Standby
from drkit.spark.jobs import session_of
from drkit.time_limit import within
from drkit.topic_sync.rules import refuse_promoted

_GOODBYE_SECONDS: Final = 0.5


class FlowJob(FlowMemory):
    """A flow that can be run, again and again."""

    def run(self, stop: threading.Event) -> None:
        """Copy until `stop` is set, or with `once` until the ends are reached.

        :raises DrkitError: an error that ends this attempt
        """
        overrides = (self.flow.source_admin, self.flow.target_admin)
        source, target = (
            Cluster.connect(c.with_client(o)) for c, o in zip(self.clusters, overrides, strict=True)
        )
        refuse_same_cluster(source, target)
        ensure_state_topic(target, self.flow)
        with StateTopic(target.settings, self.flow.source) as state:
            workers = partial(session_of, self.workshop)
            lease = FlowLease(target.settings, self.flow, state, self.run_id, workers=workers)
            if self.standby:
                self.progress = None  # what looks after a flow that copies does nothing now
                if not Standby(self.flow, self.clusters, self.workshop, state, lease).wait(stop):
                    return
            self.events.follow(state)
            opposite = OppositeFlows(source, target, self.flow, state, writes_for(self.flow))
            try:
                refuse_promoted(self.flow, state.records)
                opposite.introduce()
                if not self.standby:
                    lease.acquire(stop.is_set)
                with permitted_by(lease.check):
                    FlowRun(self, source, target, state, lease, opposite).run(stop)
            finally:
                is_over = self.cut is None or not self.cut.has_tasks
                within(_GOODBYE_SECONDS, lease.release if is_over else lease.leave)
                within(_GOODBYE_SECONDS, opposite.close)
