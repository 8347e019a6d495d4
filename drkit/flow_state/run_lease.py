"""One run per flow: a lease record on the target, renewed by a transactional producer.

The transactional id fences an older holder the moment a newer one takes over. Even without that no record
could be copied twice (see :mod:`drkit.replicate.live`); the lease is there so that two runs do not work
against each other, and so that the second one says why it does not start.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
import os
from pathlib import Path
import socket
import threading
from typing import ClassVar, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer

from drkit.clock import boottime, wall_ms
from drkit.config import ClusterSettings, FlowSettings
from drkit.control_key import signed
from drkit.errors import Failed, Refused
from drkit.flow_state.names import lease_transactional_id
from drkit.flow_state.records import LeaseRecord, Process
from drkit.flow_state.state import FlowState
from drkit.flow_state.topic import StateTopic
from drkit.kafka.client_config import confluent_config
from drkit.kafka.quiet import QUIET

TTL_SECONDS: Final = 15.0
_WATCH_SECONDS: Final = 0.25
_LATE_SECONDS: Final = 1.0
"""A renewal may come so late."""
_CALL_SECONDS: Final = 10.0
_FENCED: Final = frozenset({
    KafkaError._FENCED,  # noqa: SLF001  the constant's only name
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.PRODUCER_FENCED,
})  # fmt: skip


class LeaseLost(Failed):
    """The lease could not be renewed in time."""


class LeaseTaken(LeaseLost):
    """Another run took over (exit 3)."""

    exit_code: ClassVar[int] = 3


class FlowLease:
    """The right to run a flow, kept alive by a thread until :meth:`release`.

    :param run_id: this run; a lease of the same run is taken back at once
    :param ttl_seconds: without a renewal for so long the lease is free
    """

    def __init__(
        self,
        target: ClusterSettings,
        flow: FlowSettings,
        state: StateTopic,
        run_id: str,
        ttl_seconds: float = TTL_SECONDS,
    ) -> None:
        self._target = target
        self._flow = flow
        self._state = state
        self._run_id = run_id
        self._ttl = ttl_seconds
        self._producer: Producer | None = None
        self._ended = threading.Event()
        self._renewer: threading.Thread | None = None
        self._renewed = 0.0
        self.lost: LeaseLost | None = None

    def acquire(self, cancelled: Callable[[], bool] = lambda: False) -> None:
        """Take the lease: at once when it is free, after its time when its holder went silent.

        :param cancelled: asked while waiting; True gives up
        :raises Refused: another run holds it and lives
        :raises LeaseLost: somebody else took it at the same moment
        """
        self._state.load()
        holder = self._state.get(LeaseRecord)
        if holder is not None and holder.run_id != self._run_id:
            self._outlive(holder, cancelled)
        self._transact(self._record())
        self._renewer = threading.Thread(target=self._renew, name=f"lease {self._flow.name}", daemon=True)
        self._renewer.start()

    def check(self) -> None:
        """Raise :class:`LeaseLost` when the lease is no longer ours."""
        if self.lost is not None:
            raise self.lost

    def release(self) -> None:
        """Give the lease back, so that the next run need not wait; a lost one is left alone."""
        self._ended.set()
        if self._renewer is not None:
            self._renewer.join(_CALL_SECONDS)
        if self._producer is not None and self.lost is None:
            # Not being able to say goodbye only costs the next run its waiting time.
            with suppress(LeaseLost):
                self._transact(None)
        self._producer = None

    def _outlive(self, holder: LeaseRecord, cancelled: Callable[[], bool]) -> None:
        """Return when the holder is gone; refuse when it lives."""
        alive = lives_here(holder.holder)
        if alive is False:
            return
        if alive:
            raise self._refusal(holder)
        # Clocks of two machines differ: what counts is whether the record changes while we look.
        deadline = boottime() + holder.ttl_ms / 1000
        while boottime() < deadline:
            if cancelled() or self._ended.wait(_WATCH_SECONDS):
                raise LeaseLost("cancelled while waiting for the lease", where=self._flow.name)
            self._state.load()
            now = self._state.get(LeaseRecord)
            if now is None:
                return
            if now != holder:
                raise self._refusal(now)

    def _refusal(self, holder: LeaseRecord) -> Refused:
        age = (wall_ms() - holder.renewed_ms) / 1000
        return Refused(
            f"another run replicates {self._flow.name}",
            where=f"host {holder.holder.host}, process {holder.holder.pid}",
            evidence=f"run {holder.run_id}, renewed {age:.1f} s ago",
            hint=f"stop that process (SIGTERM); its lease ends {self._ttl:.0f} s after its last sign of life",
        )

    def _record(self) -> LeaseRecord:
        return LeaseRecord(self._run_id, this_process(), wall_ms(), int(self._ttl * 1000))

    def _renew(self) -> None:
        while not self._ended.wait(self._ttl / 3):
            try:
                if self._producer is None:
                    self._still_ours()
                self._transact(self._record())
            except (LeaseLost, Failed) as error:
                # Begin anew: what a broken transaction left behind is aborted by its successor.
                self._producer = None
                taken = isinstance(error, LeaseTaken)
                if taken or boottime() - self._renewed > self._ttl:
                    self.lost = error if isinstance(error, LeaseLost) else LeaseLost(error.what)
                    return

    def _still_ours(self) -> None:
        """A new producer would fence a newer run: look before taking the lease back."""
        self._state.load()
        holder = self._state.get(LeaseRecord)
        if holder is not None and holder.run_id != self._run_id:
            raise self._taken(f"held by run {holder.run_id} on {holder.holder.host}")

    def _transact(self, record: LeaseRecord | None) -> None:
        began = boottime()
        producer = self._producer
        try:
            if producer is None:
                producer = self._producer = self._new_producer()
                producer.init_transactions(_CALL_SECONDS)
            producer.begin_transaction()
            value = None if record is None else record.encode()
            name, key = self._state.name, LeaseRecord.key().encode()
            headers = signed(self._target.control, name, key, value)
            producer.produce(name, value, key, partition=0, headers=headers)
            producer.commit_transaction(_CALL_SECONDS)
        except KafkaException as error:
            raise self._trouble(error.args[0]) from error
        self._renewed = began

    def _new_producer(self) -> Producer:
        return Producer(
            {
                **confluent_config(self._target),
                "transactional.id": lease_transactional_id(self._flow.source, self._flow.target),
                # An open renewal of a frozen holder must not hide the state topic's end for long.
                "transaction.timeout.ms": 10_000,
                "message.timeout.ms": 10_000,
                "linger.ms": 0,
                "allow.auto.create.topics": False,
                "log_level": 0,
            },
            logger=QUIET,
        )

    def _trouble(self, cause: KafkaError) -> LeaseLost:
        if cause.code() in _FENCED:
            return self._taken(cause.str())
        return LeaseLost(
            f"the lease of {self._flow.name} could not be renewed",
            where=f"{self._state.name} on {self._target.alias}",
            evidence=f"{cause.name()}: {cause.str()}",
            hint="check the target cluster, and drkit's permission on its transactional ids",
        )

    def _taken(self, evidence: str) -> LeaseTaken:
        return LeaseTaken(
            f"another run of {self._flow.name} took over",
            where=f"{self._state.name} on {self._target.alias}",
            evidence=evidence,
            hint="see who: drkit status",
        )


class Replicator(NamedTuple):
    """Who holds the flow's lease."""

    host: str
    process: int
    age_seconds: float
    alive: bool


def replicator_of(state: FlowState, now: int) -> Replicator | None:
    """Who holds the flow's lease, from its state; None when nobody does."""
    lease = state.get(LeaseRecord)
    if lease is None:
        return None
    # One of this machine is seen to be dead at once, not only when its lease is over.
    alive = lease.is_fresh(now) and lives_here(lease.holder) is not False
    return Replicator(lease.holder.host, lease.holder.pid, lease.age_ms(now) / 1000, alive=alive)


class LeaseWatch:
    """Judges a lease by whether it is renewed while this process looks on.

    Clocks of two machines differ: one that is an hour slow makes a living replicator look dead.
    """

    def __init__(self) -> None:
        self._known: LeaseRecord | None = None
        self._since = 0.0
        self._renewed = False

    def look(self, state: FlowState, now_ms: int, clock: float) -> Replicator | None:
        """Who holds the lease; alive until it could have been renewed and was not.

        :param clock: of this process, in seconds
        """
        lease, found = state.get(LeaseRecord), replicator_of(state, now_ms)
        if lease is None or found is None:
            return None
        if lease != self._known:
            self._renewed = self._known is not None
            self._known, self._since = lease, clock
        if lives_here(lease.holder) is not None:
            return found
        ttl = lease.ttl_ms / 1000
        allowed = ttl if self._renewed or found.alive else ttl / 3 + _LATE_SECONDS
        return found._replace(alive=clock - self._since < allowed)

    @property
    def is_renewed(self) -> bool:
        """It was renewed while this process looked on."""
        return self._renewed


def this_process() -> Process:
    """Who holds something: this process, so that others on this machine can see whether it lives."""
    pid = os.getpid()
    return Process(socket.gethostname(), pid, _pid_space(), _birth(pid))


def lives_here(holder: Process) -> bool | None:
    """Whether the holder is a living process of this machine; None when it is not for us to see."""
    if holder.host != socket.gethostname() or holder.space != _pid_space():
        return None
    born = _birth(holder.pid)
    if born is None and not Path("/proc/self/stat").exists():
        return None
    return born is not None and born == holder.born


def _pid_space() -> str:
    """Process ids mean something only within one boot and one pid namespace (containers have their own)."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115  no path of a file
    except OSError:
        return ""


def _birth(pid: int) -> int | None:
    """When a process began, in clock ticks since boot; None when there is no such process, or no /proc."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, *rest = stat.rpartition(")")[2].split()
    return None if state in {"Z", "X"} else int(rest[18])
