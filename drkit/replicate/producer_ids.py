"""Producer ids of a flow's live mode: the same in every run, on record before they are used."""

from __future__ import annotations

from typing import NamedTuple

from drkit.config import ClusterSettings, FlowSettings
from drkit.kafka.admin import Cluster
from drkit.kafka.raw import EventLoop, RawCluster
from drkit.kafka.topics import describe_topics
from drkit.kafka.transactions import ProducerIdentity, new_producer_id
from drkit.replicate.state_topic import PRODUCER_IDS, StateTopic, topic_name


class ProducerIds(NamedTuple):
    """The id in use and all that ever were."""

    current: ProducerIdentity
    all: tuple[int, ...]


def own_ids(target: ClusterSettings, state: StateTopic) -> ProducerIds:
    """The flow's producer ids; a first one is asked for and stored when there is none.

    :raises DrkitError: the target gives none, or it cannot be stored
    """
    known = state.values.get(PRODUCER_IDS)
    if known is not None:
        return ProducerIds(ProducerIdentity(*known["current"]), tuple(known["all"]))
    loop = EventLoop()
    cluster = RawCluster(loop, target, "driver")

    async def ask() -> ProducerIdentity:
        await cluster.connected()
        return await new_producer_id(cluster)

    try:
        fresh: ProducerIdentity = loop.run(ask)
    finally:
        cluster.close()
        loop.close()
    state.put(PRODUCER_IDS, {"current": list(fresh), "all": [fresh.id]})
    return ProducerIds(fresh, (fresh.id,))


def reverse_ids(source: Cluster, flow: FlowSettings) -> tuple[int, ...]:
    """Producer ids with which the opposite flow writes to our source: its records are not copied back."""
    name = topic_name(flow.target)
    if name not in describe_topics(source, [name]):
        return ()
    with StateTopic(source.settings, flow.target) as state:
        state.load()
        known = state.values.get(PRODUCER_IDS, {})
    return tuple(known.get("all", ()))
