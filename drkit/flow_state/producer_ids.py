"""All producer ids that a flow ever used, of live and bulk mode, recorded before they are used.

A flow in the other direction uses these records to leave out what this one wrote (see
:mod:`drkit.pair.reverse_flow`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from drkit.config import ClusterSettings, FlowSettings
from drkit.flow_state.names import bulk_transactional_id
from drkit.flow_state.records import BulkProducerRecord, ProducerIdsRecord
from drkit.flow_state.state import FlowState
from drkit.flow_state.topic import StateTopic
from drkit.kafka.raw import RawCluster, ask_once
from drkit.kafka.transactions import ProducerIdentity, Transactions, new_producer_id


class ProducerIds(NamedTuple):
    """The current live id, all earlier ones, and those of bulk mode."""

    current: ProducerIdentity
    live: tuple[int, ...]
    bulk: tuple[int, ...]

    @property
    def all(self) -> tuple[int, ...]:
        """Every id this flow ever wrote with."""
        return (*self.live, *self.bulk)

    def with_bulk(self, state: FlowState) -> ProducerIds:
        """The ids, with those of bulk mode as currently in the flow's state."""
        return self._replace(bulk=_ids(state.readable(BulkProducerRecord)))


def on_record(state: FlowState) -> tuple[int, ...]:
    """Every producer id that a flow's state names; empty for a flow that never ran.

    :raises Damaged: a record of them was replaced
    """
    live = state.get(ProducerIdsRecord)
    return (*(live.ids if live is not None else ()), *_ids(state.all(BulkProducerRecord)))


def own_on_record(state: FlowState) -> tuple[int, ...]:
    """The same for this flow while it runs: ids that it never wrote with are left out."""
    live = state.readable(ProducerIdsRecord).get("")
    return (*(live.ids if live is not None else ()), *_ids(state.readable(BulkProducerRecord)))


def _ids(records: Iterable[str]) -> tuple[int, ...]:
    return tuple(sorted(int(producer_id) for producer_id in records))


def own_ids(target: ClusterSettings, flow: FlowSettings, state: StateTopic) -> ProducerIds:
    """The flow's producer ids; missing ones are requested and stored.

    :param state: loaded
    :raises DrkitError: the target gives none, or it cannot be stored
    """
    known = state.get(ProducerIdsRecord)
    owners = {record.bucket for record in state.all(BulkProducerRecord).values()}
    missing = [b for b in range(flow.buckets) if b not in owners]
    if known is None or missing:
        live, bulk = _ask(target, flow, missing, live=known is None)
        for bucket, identity in bulk.items():
            state.put(BulkProducerRecord(bucket), str(identity.id))
        if live is not None:
            known = ProducerIdsRecord(live, (live.id,))
            state.put(known)
    assert known is not None  # noqa: S101  a missing one was asked for
    return ProducerIds(known.current, known.ids, _ids(state.all(BulkProducerRecord)))


def renew_live_id(
    state: StateTopic, ended: Collection[int], new_id: Callable[[], ProducerIdentity]
) -> ProducerIdentity:
    """Another live id for a flow whose writers were fenced, on record before its first use.

    Repeated, it returns the same one.

    :param state: of the flow, loaded, with its producer ids
    :param ended: live ids that are not to be used any more
    :param new_id: asks the target for an id
    :raises DrkitError: the target gives none, or it cannot be stored
    """
    known = state.get(ProducerIdsRecord)
    assert known is not None  # noqa: S101  who ended them has read them there
    if known.current.id not in ended:
        return known.current
    fresh = new_id()
    # Recorded before its first use, so that the reverse flow skips the records of this id.
    state.put(ProducerIdsRecord(fresh, (*known.ids, fresh.id)))
    return fresh


async def take_bulk_ids(
    cluster: RawCluster, flow: FlowSettings, buckets: Iterable[int]
) -> dict[int, ProducerIdentity]:
    """The ids that the transactional ids of some buckets have: what they left open is aborted, and fenced.

    :raises Failed: the target gives none
    """
    names = {b: bulk_transactional_id(flow.source, flow.target, b) for b in buckets}
    ids = await cluster.loop.together(lambda n: Transactions(cluster, n).begin_epoch(), names.values())
    return dict(zip(names, ids, strict=True))


def _ask(
    target: ClusterSettings, flow: FlowSettings, buckets: Iterable[int], *, live: bool
) -> tuple[ProducerIdentity | None, dict[int, ProducerIdentity]]:
    """A new live id, and the ids that some buckets' transactional ids have."""

    async def ask(cluster: RawCluster) -> tuple[ProducerIdentity | None, dict[int, ProducerIdentity]]:
        first = await new_producer_id(cluster) if live else None
        return first, await take_bulk_ids(cluster, flow, buckets)

    return ask_once(target, "driver", ask, what="ask for producer ids")
