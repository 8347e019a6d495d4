"""Who may append a tail to a partition of the new primary: the newest owner of a transactional id."""

from __future__ import annotations

from typing import Final, NamedTuple

from drkit.config import FlowSettings
from drkit.flow_state.names import keep_transactional_id, replay_transactional_id
from drkit.kafka.raw import RawCluster
from drkit.kafka.transactions import Transactions
from drkit.model import TopicPartition

TRANSACTION_MS: Final = 30_000
"""After a kill the coordinator ends what is open; until then readers of committed records wait."""


class TailProducers(NamedTuple):
    """The producers of one replay into a partition, each with an epoch of its own."""

    begins: Transactions
    """Puts on record that the replay begins; all replays into the partition have its transactional id."""
    appends: Transactions
    """Appends the records. Where the old primary keeps the tail, nothing else does: the flow back leaves out
    what this producer wrote."""


async def fenced(
    cluster: RawCluster, flow: FlowSettings, at: TopicPartition, kept_by: str | None
) -> TailProducers:
    """Fence all others that replay into a partition, and abort what they have open.

    :param at: on the new primary
    :param kept_by: the run whose tail the old primary keeps
    :raises TransactionFailed: the coordinator refuses
    :raises RawError: no answer
    """
    ends = flow.source, flow.target
    begins = Transactions(cluster, replay_transactional_id(*ends, at), TRANSACTION_MS)
    await begins.begin_epoch()
    if kept_by is None:
        return TailProducers(begins, begins)
    appends = Transactions(cluster, keep_transactional_id(*ends, at, kept_by), TRANSACTION_MS)
    await appends.begin_epoch()
    return TailProducers(begins, appends)
