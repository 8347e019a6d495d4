"""Producer ids of a flow, of live and of bulk mode: all that ever were, on record before they are used.

The record is what an opposite flow goes by to leave out what this one wrote (see
:mod:`drkit.replicate.opposite`). Each bulk id has a key of its own, so that two tasks that find new ids at
the same moment cannot overwrite each other's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from drkit.config import ClusterSettings, FlowSettings
from drkit.kafka.one_shot import ask_once
from drkit.kafka.raw import RawCluster
from drkit.kafka.transactions import ProducerIdentity, Transactions, new_producer_id
from drkit.replicate.state_topic import BULK_PRODUCER_ID, PRODUCER_IDS, StateTopic, Value


class ProducerIds(NamedTuple):
    """The live id in use, all that ever were, and those of bulk mode."""

    current: ProducerIdentity
    live: tuple[int, ...]
    bulk: tuple[int, ...]

    @property
    def all(self) -> tuple[int, ...]:
        """Every id this flow ever wrote with."""
        return (*self.live, *self.bulk)

    def with_bulk(self, values: Mapping[str, Any]) -> ProducerIds:
        """Those of bulk mode as the flow's state has them now."""
        return self._replace(bulk=_bulk(values))


def transactional_id(flow: FlowSettings, bucket: int) -> str:
    """The transactional id of a bucket in bulk mode."""
    return f"drkit.{flow.source}.{flow.target}.{bucket}"


def map_transactional_id(flow: FlowSettings, bucket: int) -> str:
    """The transactional id whose producer writes a bucket of the map outside transactions."""
    return f"{transactional_id(flow, bucket)}.map"


def bulk_record(producer_id: int, bucket: int) -> tuple[str, Value]:
    """Key and value of the record of a bulk id."""
    return f"{BULK_PRODUCER_ID}{producer_id}", {"bucket": bucket}


def on_record(values: Mapping[str, Any]) -> tuple[int, ...]:
    """Every producer id that a flow's state names; empty for a flow that never ran."""
    live = values.get(PRODUCER_IDS, {}).get("all", ())
    return (*live, *_bulk(values))


def _bulk(values: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(
        sorted(int(k.removeprefix(BULK_PRODUCER_ID)) for k in values if k.startswith(BULK_PRODUCER_ID))
    )


def own_ids(target: ClusterSettings, flow: FlowSettings, state: StateTopic) -> ProducerIds:
    """The flow's producer ids; those that are missing are asked for and stored.

    :param state: loaded
    :raises DrkitError: the target gives none, or it cannot be stored
    """
    known = state.values.get(PRODUCER_IDS)
    owners = {value["bucket"] for key, value in state.values.items() if key.startswith(BULK_PRODUCER_ID)}
    missing = [b for b in range(flow.buckets) if b not in owners]
    if known is None or missing:
        live, bulk = _ask(target, flow, missing, live=known is None)
        for bucket, identity in bulk.items():
            state.put(*bulk_record(identity.id, bucket))
        if live is not None:
            state.put(PRODUCER_IDS, {"current": list(live), "all": [live.id]})
    known = state.values[PRODUCER_IDS]
    return ProducerIds(ProducerIdentity(*known["current"]), tuple(known["all"]), _bulk(state.values))


def _ask(
    target: ClusterSettings, flow: FlowSettings, buckets: Iterable[int], *, live: bool
) -> tuple[ProducerIdentity | None, dict[int, ProducerIdentity]]:
    """A new live id, and the ids that some buckets' transactional ids have."""

    async def ask(cluster: RawCluster) -> tuple[ProducerIdentity | None, dict[int, ProducerIdentity]]:
        spawn = cluster.loop.spawn
        first = await new_producer_id(cluster) if live else None
        asked = {b: spawn(Transactions(cluster, transactional_id(flow, b)).begin_epoch) for b in buckets}
        return first, {bucket: await future for bucket, future in asked.items()}

    return ask_once(target, "driver", ask, what="ask for producer ids")
