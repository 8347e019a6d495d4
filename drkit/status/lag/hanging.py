"""An open transaction that holds records back: its description, and when it is a fault. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
import shlex
from typing import Final

from drkit.model import TopicPartition
from drkit.status.lag.held_back import HeldInPartition, Holder

HANGING: Final = "hanging_transaction"
"""Code of the fault, kind of the event."""
_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that is open in a partition and holds records back there."""

    cluster: str
    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    transactional_id: str | None
    """None: no coordinator reports it."""
    state: str | None
    """Kafka's name of the state, from the coordinator; None: no coordinator knows the transaction."""
    timeout_seconds: float | None
    """After this time its coordinator aborts it; None: no coordinator does."""
    age_seconds: float | None
    """Since its coordinator began it; without one since its producer's last record. None: not known."""
    held_back: int
    """Upper bound on the partition's records above the last stable offset."""
    command: str
    """Ends it now."""
    source: bool = True
    """On the flow's source; False: on its target."""

    def is_older_than(self, seconds: float) -> bool:
        """Whether the transaction is known to be open for longer."""
        return self.age_seconds is not None and self.age_seconds > seconds

    def named(self) -> str:
        """Producer and transactional id."""
        known = f", transactional id {self.transactional_id}" if self.transactional_id is not None else ""
        return f"producer id {self.producer_id}{known}"


def open_transaction(
    cluster: tuple[str, str],
    at: TopicPartition,
    held: HeldInPartition,
    holder: Holder,
    now_ms: int,
    *,
    source: bool,
) -> OpenTransaction:
    """The description of one transaction.

    :param cluster: alias and bootstrap servers
    """
    opened, state, known = holder.opened, holder.opened.state, holder.known
    current = known if holder.is_current else None
    began = current.started_ms if current is not None and current.started_ms >= 0 else state.last_timestamp
    return OpenTransaction(
        cluster[0],
        *at,
        producer_id=opened.producer_id,
        producer_epoch=state.epoch,
        coordinator_epoch=state.coordinator_epoch,
        start_offset=state.open_since,
        transactional_id=known.owner.transactional_id if known is not None else None,
        state=current.owner.state if current is not None else None,
        timeout_seconds=current.timeout_ms / 1000 if current is not None else None,
        age_seconds=max(0, now_ms - began) / 1000 if began >= 0 else None,
        held_back=held.back.records,
        command=_command(cluster[1], at, holder),
        source=source,
    )


def _command(servers: str, at: TopicPartition, holder: Holder) -> str:
    """The command of Kafka's own tool that ends the transaction.

    A marker written past a coordinator that still has the transaction would cut it in two: its producer could
    continue and commit the rest. The coordinator ends such a transaction.
    """
    tool = f"kafka-transactions.sh --bootstrap-server {shlex.quote(servers)}"
    if holder.is_current and holder.known is not None:
        name = shlex.quote(holder.known.owner.transactional_id)
        return f"{tool} forceTerminateTransaction --transactionalId {name}"
    return (
        f"{tool} abort --topic {shlex.quote(at.topic)} --partition {at.partition}"
        f" --start-offset {holder.opened.state.open_since}"
    )


def hanging(transactions: Iterable[OpenTransaction], limit_seconds: float) -> list[OpenTransaction]:
    """Transactions that are open for longer than a limit, the oldest first."""
    late = [t for t in transactions if t.is_older_than(limit_seconds)]
    return sorted(late, key=lambda t: -(t.age_seconds or 0.0))


def fault_text(late: Sequence[OpenTransaction], limit_seconds: float) -> str:
    """The fault in words: the oldest transaction with the command that ends it, then the number of others."""
    first = late[0]
    if first.source:
        effect = (
            f"{first.held_back:,} records from offset {first.start_offset} on are not copied until it ends"
        )
    else:
        effect = f"consumers of committed records there see nothing from offset {first.start_offset} on"
    limit = (
        "no coordinator ends it"
        if first.timeout_seconds is None
        else f"its coordinator aborts it after {first.timeout_seconds:g} s"
    )
    others = [f"{t.topic}-{t.partition} on {t.cluster}" for t in late[1 : _SHOWN + 1]]
    more = f"; likewise {', '.join(others)}" if others else ""
    more += f" and {len(late) - 1 - _SHOWN} more" if len(late) > _SHOWN + 1 else ""
    return (
        f"{first.topic}-{first.partition} on {first.cluster}: a transaction of {first.named()} is open for"
        f" {first.age_seconds or 0:,.0f} s, more than {limit_seconds:g} s; {effect}; {limit}; end it: "
        f"{first.command}{more}"
    )


def held_by(transactions: Iterable[OpenTransaction]) -> str:
    """The holders of the source's held records, for the statement of a loss; empty when unknown."""
    known = sorted((t for t in transactions if t.source), key=lambda t: -(t.age_seconds or 0.0))
    if not known:
        return "an open transaction"
    first = known[0]
    since = "" if first.age_seconds is None else f", open for {first.age_seconds:,.0f} s"
    number = len({t.producer_id for t in known})
    if number == 1:
        return f"an open transaction of {first.named()}{since}"
    return f"open transactions of {number} producers, the oldest of {first.named()}{since}"
