"""Other replicators that write to the same cluster, and their topics, from the state they keep there.

Pure. Records of two writers in one topic cannot be separated, so a second writer is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
import json
from typing import Any, Final, NamedTuple

from drkit.topology.naming import DOT, IdentityNaming, Naming, PrefixNaming

CONNECTOR: Final = "MirrorSourceConnector"
"""The name of the copying connector in a dedicated MM2."""
_POLICY: Final = "replication.policy.class"
_SEPARATOR: Final = "replication.policy.separator"
_IDLE: Final = frozenset({"PAUSED", "STOPPED"})


class Claim(NamedTuple):
    """A topic of the target that another replicator writes; sentences for a refusal."""

    what: str
    evidence: str
    hint: str


class FlowEntry(NamedTuple):
    """Another drkit flow's record of one of its copies."""

    source_topic: str
    target: str
    target_id: str


def flow_claim(entry: FlowEntry, source: str, topics: tuple[str, str]) -> Claim:
    """The claim that another drkit flow copies into a topic.

    :param topics: its internal ones, state and offset map
    """
    state_topic, offset_map = topics
    return Claim(
        "another drkit flow copies into this topic already",
        f"{state_topic} says: topic {entry.source_topic} of {source} goes to {entry.target},"
        f" topic id {entry.target_id}",
        'exclude the topic in one of the two flows, or set naming = "prefix"; if the flow'
        f" from {source} is gone for good, delete {state_topic} and {offset_map}",
    )


class Mm2Source(NamedTuple):
    """Topics that a MirrorMaker 2 currently copies from one source."""

    topics: tuple[str, ...]
    """Of its source."""
    policy: str
    """The Java class that names the copies; empty: MM2's default."""
    separator: str

    def written(self, alias: str) -> dict[str, str]:
        """Topics of the target that it writes → their source topics.

        :param alias: its source's; a custom policy counts as both of Kafka's
        """
        prefix, identity = PrefixNaming(alias, self.separator), IdentityNaming(alias, self.separator)
        known: dict[str, tuple[Naming, ...]] = {
            "": (prefix,),
            "DefaultReplicationPolicy": (prefix,),
            "IdentityReplicationPolicy": (identity,),
        }
        policies = known.get(self.policy.rpartition(".")[2], (prefix, identity))
        return {p.downstream(t): t for p in policies for t in self.topics}


def mm2_source(records: Mapping[bytes, bytes]) -> Mm2Source | None:
    """What its tasks are assigned to copy, from ``mm2-configs.<source>.internal``; None if it copies nothing.

    Only names are taken from there: the same records hold passwords.
    """
    by_name = {k.decode("utf-8", errors="replace"): v for k, v in records.items()}
    connector = _properties(by_name.get(f"connector-{CONNECTOR}"))
    if not connector or _object(by_name.get(f"target-state-{CONNECTOR}")).get("state") in _IDLE:
        return None
    # Records of tasks beyond that number are left over from a time with more of them.
    tasks = _object(by_name.get(f"commit-{CONNECTOR}")).get("tasks", 0)
    assigned = (
        _properties(by_name.get(f"task-{CONNECTOR}-{n}")).get("task.assigned.partitions", "")
        for n in range(int(tasks))
    )
    topics = sorted({t for part in assigned for t in _topics_of(str(part))})
    if not topics:
        return None
    return Mm2Source(tuple(topics), str(connector.get(_POLICY, "")), str(connector.get(_SEPARATOR, DOT)))


def mm2_claim(alias: str, topic: str, copy: str, workers: Iterable[str], group: str) -> Claim:
    """The claim that a running MirrorMaker 2 copies into a topic."""
    return Claim(
        "a running MirrorMaker 2 copies into this topic",
        f"it copies {topic} of {alias} to {copy}; its workers are in group {group}:"
        f" {', '.join(sorted(workers))}",
        f"stop that MirrorMaker 2 first, or set {alias}->….topics.exclude there, or exclude the topic here",
    )


def _topics_of(partitions: str) -> Iterator[str]:
    """``orders-0,orders-1`` as MM2 lists a task's partitions."""
    for part in partitions.split(","):
        topic, _, number = part.strip().rpartition("-")
        if topic and number.isdigit():
            yield topic


def _properties(value: bytes | None) -> dict[str, Any]:
    found = _object(value).get("properties")
    return found if isinstance(found, dict) else {}


def _object(value: bytes | None) -> dict[str, Any]:
    try:
        found = json.loads(value or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
