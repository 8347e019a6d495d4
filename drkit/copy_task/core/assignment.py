"""The assignment from the driver to a copy task: plain data, sent as JSON through Spark."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from drkit.flow_state.codec.record import TaskData
from drkit.flow_state.lease.turn import LeaseRight


@dataclass(frozen=True, slots=True)
class PartitionAssignment:
    """One partition to copy during one epoch.

    Topic ids pin the generation of a topic: a recreated topic has another id and is never
    taken for the old one (KIP-516).
    """

    source_topic: str
    source_topic_id: str
    target_topic: str
    target_topic_id: str
    partition: int
    bucket: int
    compacted: bool = False
    """The source compacts: its content may change between two fetches."""
    max_message_bytes: int = 1_048_588
    """The target topic's ``max.message.bytes``."""
    end: int | None = None
    """With ``--once``: stop at this source offset (exclusive)."""
    skip_from: int | None = None
    """The cut of a turn: only before it are batches of the flow in the other direction left out. One at or
    after it should not exist: it stops the partition. None: all are left out."""
    rebuilt_from: int | None = None
    """Source offset before the cut at which copying began after the copy was emptied: from there on nothing
    is left out because of its producer. None: copying began at the cut."""
    emptied_to: int = 0
    """Target offset before which the copy was emptied: nothing before it belongs to it."""
    tail_end: int = 0
    """Target offset after the last tail among the copies: no map knows its records."""
    kept_to: int | None = None
    """Source offset after a tail that follows the cut and that the target has already; None: no such tail."""
    kept_ids: tuple[int, ...] = ()
    """The producers that wrote it: their batches before `kept_to` are left out. One at or after it should not
    exist: it stops the partition."""
    returning: bool = False
    """The topic began with a turn: a record of another producer on the target stops the partition."""
    written_at: int | None = None
    """Target offset of such a record, found since the turn: nothing more is copied."""

    @property
    def source_id(self) -> UUID:
        """The source topic's id."""
        return UUID(self.source_topic_id)

    @property
    def target_id(self) -> UUID:
        """The target topic's id."""
        return UUID(self.target_topic_id)

    @property
    def began_at(self) -> int | None:
        """Source offset at which copying began after a turn; None: there was none."""
        return self.skip_from if self.rebuilt_from is None else self.rebuilt_from


@dataclass(frozen=True, slots=True)
class TaskAssignment(TaskData):
    """The assignment of one copy task for one epoch, without secrets: Spark ships clients by closure."""

    flow: str
    """``source->target``"""
    run_id: str
    epoch: int
    task: int
    plan: int
    """Version of the plan; a newer one in the control topic ends the epoch early."""
    producer_id: int
    """The flow's producer id for live mode."""
    producer_epoch: int
    own_producer_ids: tuple[int, ...]
    """Every id this flow ever used for live mode."""
    skip_producer_ids: tuple[int, ...]
    """Ids of the reverse flow: batches that carry one are not copied back (see `skip_from`)."""
    map_topic: str
    state_topic: str
    epoch_seconds: float
    """Length of the epoch, counted from the start of the task."""
    grace_seconds: float
    """After the epoch's end plus this the task sends nothing any more (CLOCK_BOOTTIME, so a
    suspended machine counts too)."""
    live_max_age_ms: int
    """Batches older than this go through bulk mode (a quarter of the target's producer id expiration)."""
    partitions: tuple[PartitionAssignment, ...]
    bulk_producer_ids: tuple[int, ...] | None = None
    """Ids with which bulk mode may write; an id that is not among them is put on record and waits for a
    lease that has it. None: any, where no flow runs the other way."""
    planned_at_ms: int | None = None
    """When the epoch began, by the driver's wall clock."""
    map_id: str = ""
    """Id of the map topic; another topic of the same name is not the map. Empty: any."""
    lease_seconds: float | None = None
    """The lease time of the flow; None: no lease limits the task, only its deadline."""
    held_until: float = 0.0
    """End of the driver's lease without a renewal, by the driver's boot clock."""
    held_seconds: float = 0.0
    """Seconds of the lease left when the epoch was planned, for tasks on other machines."""
    boot_id: str = ""
    """Of the driver's machine."""

    def seconds(self, now_ms: int, boot: str = "", now: float = 0.0) -> float:
        """Return how long a task that starts now copies: all tasks of an epoch end together.

        A partition whose task ended earlier would wait for the others. A clock of another machine is ignored
        if it is off by more than half an epoch; the driver's boot clock is trusted.

        :param now_ms: by the wall clock
        :param boot: id of this machine's boot
        :param now: by the clock of that boot
        """
        if self.lease_seconds is not None and self._is_here(boot):
            planned = self.held_until - self.held_seconds
            return min(self.epoch_seconds, max(0.0, planned + self.epoch_seconds - now))
        late = 0.0 if self.planned_at_ms is None else (now_ms - self.planned_at_ms) / 1000
        return self.epoch_seconds - late if 0 < late < self.epoch_seconds / 2 else self.epoch_seconds

    def right(self, boot: str, now: float) -> LeaseRight | None:
        """Return the lease of a task that starts now, extended by renewals; None: no lease limits it.

        :param boot: id of this machine's boot
        :param now: by the clock of that boot
        """
        if self.lease_seconds is None:
            return None
        until = self.held_until if self._is_here(boot) else now + self.held_seconds
        return LeaseRight(self.lease_seconds, until)

    def _is_here(self, boot: str) -> bool:
        return bool(boot) and boot == self.boot_id

    @property
    def driver(self) -> str:
        """The run that holds the flow's lease."""
        return self.run_id.partition(".")[0]
