"""Topics in quarantine: a tail's records on the new primary, beside the topic that clients use.

Such a topic is an ordinary one of the new primary: whether the reverse flow copies it, its filter says.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final
from uuid import UUID

from drkit.errors import Refused
from drkit.flow_state.names import quarantine_topic
from drkit.kafka.requests import TopicMetadata
from drkit.kafka.topics import (
    appeared,
    create_own_topic,
    create_partitions,
    describe_topics,
    list_offsets,
    topic_configs,
    topic_names,
)
from drkit.model import TopicPartition
from drkit.replay.destination import CLEANUP_POLICY, MAX_MESSAGE_BYTES, Destination, TopicCopy, setting
from drkit.replay.log import ReplayLog
from drkit.replay.progress import QuarantineRecord, ReplayBook
from drkit.replay.tail import Export
from drkit.topology.topic_configs import PASSIVE

_HEADER_ROOM: Final = 4096
"""Bytes that drkit's header may add to a record that just fitted its topic."""
MISSING: Final = UUID(int=0)
_LONGEST_NAME: Final = 249
_SETTINGS: Final = {**PASSIVE, CLEANUP_POLICY: "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""Records keep their times, whatever they are, and stay."""


class Quarantine:
    """The quarantine of one export.

    :param topics: topic of the export → the topic on the new primary
    """

    def __init__(self, log: ReplayLog, export: Export, topics: Mapping[str, TopicCopy]) -> None:
        self._log, self._export, self._topics = log, export, topics
        self._alias = log.cluster.alias

    def names(self) -> dict[str, str]:
        """Topic of the export → its topic in quarantine.

        :raises Refused: a name would be too long
        """
        terms = {tail.source.topic: tail.term for tail in self._export.tails}
        found = {n: quarantine_topic(p.name, terms[n]) for n, p in self._topics.items()}
        for name in found.values():
            if len(name) > _LONGEST_NAME:
                raise Refused(
                    "quarantine_name_long",
                    where=self._alias,
                    evidence=f"{name} has {len(name)} characters, Kafka takes {_LONGEST_NAME}",
                )
        return found

    def look(self, book: ReplayBook) -> dict[str, TopicMetadata]:
        """The topics in quarantine that are drkit's and may get these records, by name.

        Another run's is taken, too: of a tail that the old primary lost in parts, each part may be in another
        export. Records that are there already are known by their header.

        :raises Refused: a topic of such a name is not drkit's, or Kafka takes no topic of this name
        :raises DrkitError: the new primary does not answer
        """
        names = self.names()
        found = describe_topics(self._log.cluster, names.values())
        for name, topic in found.items():
            known = book.quarantines.get(name)
            if known is None or not self._is_own(known, topic):
                raise self._not_own(name, "no run of drkit" if known is None else f"run {known.run_id}")
        self._refuse_alike(set(names.values()) - found.keys())
        return found

    def _not_own(self, name: str, whose: str) -> Refused:
        return Refused(
            "quarantine_topic_foreign",
            where=f"{name} on {self._alias}",
            evidence=f"on record for it: {whose}; this is run {self._export.run_id}",
        )

    def _refuse_alike(self, missing: Collection[str]) -> None:
        """Refuse names that Kafka refuses: its metrics would take them for those of another topic."""
        wanted = {name.replace(".", "_"): name for name in missing}
        for other in topic_names(self._log.cluster) if wanted else ():
            if name := wanted.get(other.replace(".", "_")):
                raise Refused(
                    "quarantine_name_clash", where=f"{name} on {self._alias}", evidence=f"{other} is there"
                )

    def _is_own(self, known: QuarantineRecord, topic: TopicMetadata) -> bool:
        """Whether a topic is the one on record; one that was about to be created is still empty."""
        if known.topic_id is not None:
            return known.topic_id == topic.topic_id
        partitions = [TopicPartition(topic.name, number) for number in topic.leaders]
        return not any(list_offsets(self._log.cluster, partitions, "latest").values())

    def create(
        self, name: str, source: str, known: QuarantineRecord | None,
        put: Callable[[QuarantineRecord], None],
    ) -> TopicMetadata:  # fmt: skip
        """Create a topic in quarantine where it is missing, as after its owner has deleted it.

        :param source: the export's topic
        :param known: what is on record for it
        :param put: puts on record what is about to be created, then its id
        :raises Refused: a topic of this name is there since, and is not drkit's
        :raises DrkitError: it cannot be created
        """
        there = describe_topics(self._log.cluster, [name]).get(name)
        if there is not None and (known is None or not self._is_own(known, there)):
            raise self._not_own(name, "no run of drkit" if known is None else f"run {known.run_id}")
        if there is None:
            known = QuarantineRecord(self._export.run_id, name)
            put(known)
        like = self._topics[source]
        most = 1 + max(t.source.partition for t in self._export.tails if t.source.topic == source)
        configs = {**_SETTINGS, MAX_MESSAGE_BYTES: str(like.max_bytes + _HEADER_ROOM)}
        create_own_topic(self._log.cluster, name, configs, max(like.partitions, most))
        topic = appeared(self._log.cluster, name)
        if len(topic.leaders) < most:  # an earlier export was of fewer
            for error in create_partitions(self._log.cluster, {name: most}).values():
                raise error
        if known is not None and known.topic_id is None:
            put(QuarantineRecord(known.run_id, name, topic.topic_id))
        return topic

    def destinations(self, there: Mapping[str, TopicMetadata]) -> dict[TopicPartition, Destination]:
        """Partition of the old primary → where its records go; a topic that is missing has the id 0.

        :param there: the topics that this run has created, by name
        :raises DrkitError: the new primary does not answer
        """
        names, configs = self.names(), topic_configs(self._log.cluster, there)
        found = {}
        for tail in self._export.tails:
            name = names[tail.source.topic]
            at = TopicPartition(name, tail.source.partition)
            if (topic := there.get(name)) is None:
                limit = self._topics[tail.source.topic].max_bytes + _HEADER_ROOM
                found[tail.source] = Destination(at, MISSING, max_bytes=limit)
            else:
                limit = int(setting(configs[name], MAX_MESSAGE_BYTES, "0"))
                found[tail.source] = Destination(at, topic.topic_id, max_bytes=limit)
        return found
