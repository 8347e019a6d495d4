"""Takes back checkpoints whose group or topic is gone, so that a failover plans neither.

A source that lost its data, that is another cluster now, or that hides a group must never look like
a deletion: a failover needs these checkpoints most of all then.
"""

from __future__ import annotations

from drkit.checkpoints.shard import Shard
from drkit.kafka import codes
from drkit.kafka.groups.requests import DEAD, Groups
from drkit.kafka.raw import RawCluster
from drkit.kafka.requests import metadata, metadata_of_all
from drkit.mm2_topics.checkpoint_topic import CheckpointTopic
from drkit.offsets.mm2_records import ForgottenCheckpoint


async def take_back(
    shard: Shard, topic: CheckpointTopic, source: RawCluster, groups: Groups, target: RawCluster
) -> list[str]:
    """Take back the recorded checkpoints that are void; return their groups.

    :param groups: the source's
    :raises Failed: the topic does not take them
    """
    if not shard.recorded:
        return []
    copies = shard.known.upstream
    kept = await _same_on_source(shard, source)
    no_topics = await _unknown(target, {name for _, name, _ in shard.recorded if name not in copies})
    # Only the topic's own cluster proves that a group is gone.
    asked = {group for group, name, _ in shard.recorded if copies.get(name) in kept}
    states = await groups.describe(sorted(asked))
    dead = {group for group, state in states.items() if state.value is not None and state.value.state == DEAD}
    void = [
        ForgottenCheckpoint(group, name, partition)
        for group, name, partition in shard.recorded
        if name in no_topics or (group in dead and copies.get(name) in kept)
    ]
    topic.write(void)
    return sorted({each.group for each in void})


async def _same_on_source(shard: Shard, source: RawCluster) -> set[str]:
    """Return the topics of the source that are the ones that were copied, by their ids."""
    topics, copies = shard.known.topics, shard.known.upstream
    wanted = sorted({copies[name] for _, name, _ in shard.recorded if name in copies})
    found = await metadata(source, wanted) if wanted else {}
    return {name for name, topic in found.items() if topic.topic_id == topics[name][1]}


async def _unknown(target: RawCluster, names: set[str]) -> set[str]:
    """Return the topics that no broker of the target knows."""
    found = await metadata_of_all(target, names) if names else {}
    return {
        name for name, told in found.items() if told and all(t.error in codes.NO_SUCH_TOPIC for t in told)
    }
