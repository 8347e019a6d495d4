"""A standby process of a flow: it keeps Spark's workers ready, and copies when the lease is free."""

from __future__ import annotations

from collections.abc import Callable
import threading
from typing import Final

from drkit import observe
from drkit.background import Background
from drkit.clock import boottime, wall_ms
from drkit.config import ClusterSettings, FlowSettings
from drkit.copy_task.worker_links import warm_task
from drkit.errors import DrkitError
from drkit.flow_state.lease.run_lease import FlowLease, LeaseLost
from drkit.flow_state.lease.turn import LeaseAvailability
from drkit.flow_state.lease.watch import forget_gone
from drkit.flow_state.processes import lives_here, this_process
from drkit.flow_state.records import LeaseRecord, StandbyRecord
from drkit.flow_state.topic import StateTopic
from drkit.replicate.supervisor import is_transient
from drkit.spark.jobs import SparkJobs, spark_gone
from drkit.spark.session import SharedSpark
from drkit.time_limit import within
from drkit.topic_sync.rules import refuse_promoted

_TICK_SECONDS: Final = 0.05
"""Between two looks at the holder's process, which are a look into /proc."""
_LOOK_SECONDS: Final = 0.5
"""Between two looks at the lease."""
_RETRY_SECONDS: Final = 1.0
_GOODBYE_SECONDS: Final = 1.0
_STARTING: Final = "Spark is starting"
_WARMING: Final = "Spark's workers start and connect"
_DIED: Final = "warm_job_died"
_WARM_AGAIN_SECONDS: Final = 30.0
"""Spark ends a worker that was idle for a minute."""
_WARM_RETRY_SECONDS: Final = 5.0
_WARM_END_SECONDS: Final = 1.0
_HIDDEN: Final = "an open transaction hides who holds the lease: abort hanging ones on the target"


class Standby:
    """One wait for the lease of a flow.

    :param lease: of this run, not taken yet
    """

    def __init__(
        self,
        flow: FlowSettings,
        clusters: tuple[ClusterSettings, ClusterSettings],
        workshop: SharedSpark,
        state: StateTopic,
        lease: FlowLease,
    ) -> None:
        self._flow, self._workshop, self._state = flow, workshop, state
        self._lease, self._run_id = lease, lease.run_id
        self._warmup = WorkerWarmup(workshop, clusters, flow)
        self._since_ms = wall_ms()
        self._reported: tuple[bool, str] | None = None
        self._reported_at = self._looked_at = self._may_at = float("-inf")
        self._turn = LeaseAvailability.HELD
        self._trouble = ""

    def wait(self, stop: threading.Event) -> bool:
        """Wait until this process holds the lease (True), or until `stop` is set (False).

        :raises SparkGone: Spark has ended
        :raises Refused: the target was promoted
        :raises DrkitError: a right is missing
        """
        self._state.load_decided()  # what an open transaction hides is its trouble below
        observe.event("standby_waits", flow=self._flow.name, holder=_named(self._state.get(LeaseRecord)))
        self._warmup.start()
        try:
            while not stop.is_set():
                if self._workshop.has_ended:
                    raise spark_gone(self._flow.name)
                if self._survive_round():
                    return True
                stop.wait(_TICK_SECONDS)
            return False
        finally:
            # After a takeover copying begins at once; its workers are free when the last round ends.
            within(_GOODBYE_SECONDS if stop.is_set() else 0.0, self._end)

    def _survive_round(self) -> bool:
        """One round; waits here for a target that does not answer, so that the workers stay warm."""
        try:
            taken = self._round()
        except DrkitError as error:
            if not is_transient(error):
                raise
            self._trouble, self._looked_at = str(error), boottime() + _RETRY_SECONDS - _LOOK_SECONDS
            self._tell(ready=False, reason=self._trouble)
            return False
        return taken

    def _round(self) -> bool:
        if self._is_time_to_look():
            self._turn = self._lease.look()
            self._looked_at, self._trouble = boottime(), ""
            refuse_promoted(self._flow, self._state.records)
            self._announce()
        if not self._may_take():
            return False
        holder = self._lease.holder
        try:
            self._lease.take(self._turn)
        except LeaseLost as error:
            self._turn, self._looked_at = LeaseAvailability.HELD, float("-inf")
            observe.event("standby_waits_on", flow=self._flow.name, reason=str(error))
            return False
        observe.event(
            "standby_takes_over", flow=self._flow.name, reason=str(self._turn), holder=_named(holder)
        )
        return True

    def _is_time_to_look(self) -> bool:
        """Return whether to look at the lease: often, and at once when the holder's process has ended."""
        if boottime() - self._looked_at >= _LOOK_SECONDS:
            return True
        holder = self._lease.holder
        gone = (
            holder is not None and self._turn is LeaseAvailability.HELD and lives_here(holder.holder) is False
        )
        return gone and not self._trouble

    def _may_take(self) -> bool:
        """A standby that is not ready leaves the lease to others for one lease time."""
        now = boottime()
        if self._turn is LeaseAvailability.HELD or self._trouble:
            self._may_at = float("-inf")
            return False
        if not self._warmup.was_ready:
            return False
        if not self._warmup.reason:
            return True
        if self._may_at == float("-inf"):
            self._may_at = now + self._lease.seconds
        return now >= self._may_at

    def _announce(self) -> None:
        """Write the standby's state to the target: when it changes, and often enough to count as alive."""
        reason = _HIDDEN if self._lease.is_hidden else self._warmup.reason
        found = (not reason, reason)
        late = boottime() - self._reported_at >= self._lease.seconds / 3
        if found == self._reported and not late:
            return
        if self._reported is None:
            forget_gone(self._state, wall_ms())
        self._tell(ready=not reason, reason=reason)
        ttl_ms = int(self._lease.seconds * 1000)
        record = StandbyRecord(this_process(), self._since_ms, wall_ms(), ttl_ms, not reason, reason)
        self._state.put(record, self._run_id)
        self._reported_at = boottime()

    def _tell(self, *, ready: bool, reason: str) -> None:
        """Emit an event when the state changes."""
        if (ready, reason) == self._reported:
            return
        self._reported = ready, reason
        if ready:
            observe.event("standby_ready", flow=self._flow.name)
        else:
            observe.event("standby_not_ready", level="warning", flow=self._flow.name, reason=reason)

    def _end(self) -> None:
        self._warmup.end()
        if self._reported_at > float("-inf"):
            self._state.delete(StandbyRecord, self._run_id)


def _named(holder: LeaseRecord | None) -> str:
    return f"{holder.holder.host}, process {holder.holder.pid}" if holder is not None else "none"


class WorkerWarmup(Background):
    """Keeps the workers forked and connected to both clusters, by a small job that a thread repeats."""

    def __init__(
        self, workshop: SharedSpark, clusters: tuple[ClusterSettings, ClusterSettings], flow: FlowSettings
    ) -> None:
        super().__init__(f"warm {flow.name}", patience=_WARM_END_SECONDS)
        self._tasks = [str(number) for number in range(flow.tasks)]
        self._jobs = SparkJobs(workshop, f"drkit {flow.name} warm", _DIED, flow.name)
        self._task = _task(*clusters, flow)
        self.reason: str = _WARMING if workshop.has_started else _STARTING
        """Return why copying cannot begin now, or an empty text."""
        self.was_ready = False
        """One job has succeeded: Spark works."""

    def end(self) -> None:
        """Release the workers: wait a moment for a running job, then cancel it."""
        self.stop()
        if self._thread.is_alive():
            self._jobs.cancel(_WARM_END_SECONDS)

    def _run(self) -> None:
        if not self._jobs.wait() or self._ended.is_set():
            return
        self.reason = _WARMING
        while not self._ended.is_set():
            try:
                reasons = [reason for reason in self._jobs.run(self._tasks, self._task) if reason]
            except DrkitError as error:
                reasons = [str(error)]
            self.reason = reasons[0] if reasons else ""
            self.was_ready = self.was_ready or not reasons
            self._ended.wait(_WARM_RETRY_SECONDS if reasons else _WARM_AGAIN_SECONDS)


def _task(source: ClusterSettings, target: ClusterSettings, flow: FlowSettings) -> Callable[[str], str]:
    def warm(_: str) -> str:
        return warm_task(source, target, flow)

    return warm
