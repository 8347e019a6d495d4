"""One run per flow: a lease record on the target, renewed by a transactional producer.

The transactional id fences an older holder the moment a newer one takes over. Even without that no record
could be copied twice (see :mod:`drkit.copy_task.target.live`); the lease exists so that two runs do not
work against each other, and so that the second one says why it does not start.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
import threading
from typing import ClassVar, Final

from drkit.clock import boottime, wall_ms
from drkit.config import ClusterSettings, FlowSettings
from drkit.errors import Failed, Refused
from drkit.flow_state.creation import refuse_renamed
from drkit.flow_state.lease.turn import LeaseAvailability, LeaseRight, LeaseTurn
from drkit.flow_state.names import sole_transactional_id
from drkit.flow_state.processes import in_session, lives_here, this_process
from drkit.flow_state.records import LeaseRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka.clients import KafkaError, KafkaException, Producer
from drkit.kafka.reading.signed_log import log_producer


class LeaseLost(Failed):
    """The lease could not be renewed in time."""


class LeaseTaken(LeaseLost):
    """Another run took over (exit 3)."""

    exit_code: ClassVar[int] = 3


def held_by_another(flow: str, holder: LeaseRecord) -> Refused:
    """Another run holds the lease, and renews it."""
    age = (wall_ms() - holder.renewed_ms) / 1000
    where = f"host {holder.holder.host}, process {holder.holder.pid}"
    evidence = f"run {holder.run_id}, renewed {age:.1f} s ago"
    return Refused("lease_held", where=where, evidence=evidence, flow=flow, ttl_ms=holder.ttl_ms / 1000)


_WATCH_SECONDS: Final = 0.25
_CALL_SECONDS: Final = 10.0
_AGAIN_SECONDS: Final = 0.1
_ORPHANS_SECONDS: Final = 5.0
_ORPHANS_LOOK_SECONDS: Final = 0.05


@dataclass
class FlowLease:
    """The right to run a flow, kept alive by a thread until :meth:`release`.

    The record is changed as by a compare-and-set: the transactional id fences every other run, then the
    record is read again, and the new one is committed only if the record is still the one that was judged.

    :param run_id: this run; a lease of the same run is taken back at once
    :param ttl_seconds: seconds without a renewal after which the lease is free; None: as the flow says
    :param workers: the session of Spark's processes on this machine, once there is one
    """

    target: ClusterSettings
    flow: FlowSettings
    state: StateTopic
    run_id: str
    ttl_seconds: float | None = None
    workers: Callable[[], int | None] = lambda: None

    def __post_init__(self) -> None:
        self.seconds = self.ttl_seconds or self.flow.lease_seconds
        """The lease time."""
        self._turn = LeaseTurn(self.run_id)
        self._right = LeaseRight(self.seconds)
        self._strict = True
        self._producer: Producer | None = None
        self._place = f"{self.state.name} on {self.target.alias}"
        self._ended, self._soon = threading.Event(), threading.Event()
        self._renewer: threading.Thread | None = None
        self.lost: LeaseLost | None = None
        self._orphans: int | None = None
        """The session in which workers of a dead holder may still run for a moment."""

    @property
    def holder(self) -> LeaseRecord | None:
        """Who held the lease at the last look."""
        return self._turn.known

    @property
    def until(self) -> float:
        """When tasks must stop writing if no renewal follows, as of :func:`drkit.clock.boottime`."""
        return self._right.until

    @property
    def is_held(self) -> bool:
        """Whether this run holds the lease and renewed it in time."""
        return self.lost is None and self._right.holds(boottime())

    @property
    def is_hidden(self) -> bool:
        """Whether an open transaction has hidden the holder for a whole lease time."""
        return boottime() - self._turn.hidden_since >= self.seconds

    def acquire(self, cancelled: Callable[[], bool] = lambda: False) -> None:
        """Take the lease: at once when it is free, after its time when its holder went silent.

        :param cancelled: asked while waiting; True gives up
        :raises Refused: another run holds it and is alive
        :raises LeaseLost: another run took it at the same moment, or its holder cannot be read
        """
        while (turn := self.look(strict=False)) is LeaseAvailability.HELD:
            holder = self._turn.known
            if holder is not None and holder.run_id == self.run_id:
                break  # an open renewal of this run may hide the end: taking the lease aborts it, then reads
            if holder is not None and (self._turn.changed or lives_here(holder.holder)):
                raise held_by_another(self.flow.name, holder)
            if self.is_hidden:
                raise self._hidden()
            if cancelled() or self._ended.wait(_WATCH_SECONDS):
                raise LeaseLost("lease_wait_cancelled", where=self.flow.name)
        self.take(turn)

    def look(self, *, strict: bool = True) -> LeaseAvailability:
        """Read the lease and judge whether it may be taken.

        :param strict: if an open transaction hides records, a missing lease counts as held
        :raises DrkitError: the flow's state cannot be read
        """
        asked = boottime()
        whole = self.state.load_decided()
        refuse_renamed(self.state.records, self.flow)
        lease = self.state.get(LeaseRecord)
        alive = None if lease is None else lives_here(lease.holder)
        self._strict = strict or lease is not None
        whole = whole or not self._strict
        return self._turn.look(lease, asked=asked, answered=boottime(), alive=alive, whole=whole)

    def take(self, turn: LeaseAvailability) -> None:
        """Write this run's record if the one last read is still there; from then on it is renewed.

        :param turn: the judgement of the last :meth:`look`
        :raises LeaseLost: another run was faster, or the target does not accept it
        """
        before = self._turn.known
        self._transact(self._record(), strict=self._strict)
        self._orphans = (
            before.spark_session if before is not None and turn is LeaseAvailability.GONE else None
        )
        self._renewer = threading.Thread(target=self._renew, name=f"lease {self.flow.name}", daemon=True)
        self._renewer.start()

    def check(self) -> None:
        """Raise :class:`LeaseLost` when this run no longer holds the lease, or did not renew it in time."""
        if self.lost is not None:
            raise self.lost
        if not self._right.holds(boottime()):
            evidence = f"lease_seconds = {self.seconds:g}; this process stood still, or the target did"
            raise LeaseLost("lease_expired", where=self._place, evidence=evidence, flow=self.flow.name)

    def outlive_orphans(self, stop: threading.Event) -> None:
        """Wait until the workers of a dead holder have ended; at most some seconds."""
        deadline = boottime() + _ORPHANS_SECONDS
        while self._orphans is not None and in_session(self._orphans) and boottime() < deadline:
            if stop.wait(_ORPHANS_LOOK_SECONDS):
                return

    def renew_soon(self) -> None:
        """Renew the lease now: a task that Spark restarts waits for a renewal before it writes."""
        self._soon.set()

    def leave(self) -> None:
        """Stop renewing the lease: it expires, and tasks that write under it end before that."""
        self._ended.set()
        self._soon.set()

    def release(self) -> None:
        """Release the lease, so that the next run need not wait; a lost lease is left alone."""
        self.leave()
        if self._renewer is not None:
            self._renewer.join(_CALL_SECONDS)
        if self._producer is not None and self.lost is None:
            # If the release fails, the next run only has to wait.
            with suppress(LeaseLost):
                self._transact(None)
        self._producer = None

    def _record(self) -> LeaseRecord:
        ttl_ms, process = int(self.seconds * 1000), this_process()
        return LeaseRecord(self.run_id, process, wall_ms(), ttl_ms, self.workers())

    def _renew(self) -> None:
        pause = self.seconds / 3
        while True:
            self._soon.wait(pause)
            self._soon.clear()  # before the look: who sets both sets `_ended` first
            if self._ended.is_set():
                return
            try:
                if self._producer is None:
                    self._confirm(strict=True)  # a new producer would fence a newer run
                self._transact(self._record(), strict=True)
                pause = self.seconds / 3
            except (LeaseLost, Failed) as error:
                # Start with a new producer: it aborts what a broken transaction left open.
                self._producer = None
                # The run that fenced this one may have kept its record: read it at once.
                pause = min(_AGAIN_SECONDS, self.seconds / 3)
                if isinstance(error, LeaseTaken) or not self._right.holds(boottime()):
                    self.lost = (
                        error if isinstance(error, LeaseLost) else LeaseLost("lease_lost", reason=error.what)
                    )
                    return

    def _transact(self, record: LeaseRecord | None, *, strict: bool = False) -> None:
        """Write the record; a new producer first fences all others, then reads the lease again.

        :param strict: the read must see the whole state
        """
        began = boottime()
        producer = self._producer
        try:
            if producer is None:
                producer = self._new_producer()
                producer.init_transactions(_CALL_SECONDS)
                self._confirm(strict=strict)
                self._producer = producer  # only now: a lease not held by this run must not be given back
            producer.begin_transaction()
            value = None if record is None else record.encode()
            name, key = self.state.name, LeaseRecord.key().encode()
            producer.produce(name, value, key, partition=0, headers=self.state.headers(key, value))
            producer.commit_transaction(_CALL_SECONDS)
        except KafkaException as error:
            self._producer = None
            cause: KafkaError = error.args[0]
            evidence = f"{cause.name()}: {cause.str()}"
            raise LeaseLost(
                "lease_not_renewed", where=self._place, evidence=evidence, flow=self.flow.name
            ) from error
        self._right.extend(began)

    def _confirm(self, *, strict: bool) -> None:
        """Check again that the lease is free or held by this run. With all others fenced, that cannot change.

        :raises LeaseLost: another run holds it, or its holder cannot be read
        """
        if not self.state.load_decided() and strict:
            raise self._hidden()
        holder = self.state.get(LeaseRecord)
        if not self._turn.is_as_judged(holder):
            evidence = f"held by run {holder.run_id} on {holder.holder.host}" if holder else ""
            raise LeaseTaken("lease_taken", where=self._place, evidence=evidence, flow=self.flow.name)

    def _hidden(self) -> LeaseLost:
        evidence = "an open transaction hides the end of the topic"
        return LeaseLost("lease_unknown", where=self._place, evidence=evidence, flow=self.flow.name)

    def _new_producer(self) -> Producer:
        # An open renewal of a frozen holder must not hide the state topic's end for long.
        limits = dict.fromkeys(("transaction.timeout.ms", "message.timeout.ms"), 10_000)
        name = sole_transactional_id(self.flow.source, self.flow.target, "lease")
        return log_producer(self.target, {"transactional.id": name, **limits})
