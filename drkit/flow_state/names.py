"""Names of drkit's internal topics and transactional ids. Pure.

Both sides of a rule use one function: a copy task writes with the transactional id that a failover fences.
"""

from __future__ import annotations

from dataclasses import dataclass
import re
from typing import Final, Literal

from drkit.control_key import NOT_MIRRORED, SignedTopic
from drkit.model import TopicPartition
from drkit.next_command import typed
from drkit.topology import is_drill_alias

CANARY_TOPIC: Final = "drkit-canary.internal"
"""On the source: records that a prober produces and fetches."""
ADOPTED: Final = b"adopted"
"""Key of the two records in a log that enclose all entries signed by `drkit control adopt`."""
BEGUN: Final = b"begun"
"""Value of the first one."""
DONE: Final = b"done"
"""Value of the second one in earlier versions; now the offset of the first one follows (:func:`done_at`)."""
_OWN_TRANSACTIONAL_ID: Final = re.compile(r"drkit\.([\w-]+)\.([\w-]+)\.(replay\.|keep\.|\d).*", re.ASCII)
_ENDED_BY: Final = {"replay.": ("replay", "--from", "MANIFEST"), "keep.": ("reprotect", "--resume")}


def done_at(begun: int) -> bytes:
    """Return the value of the mark that ends the adoption whose first mark is at an offset."""
    return b"%b %d" % (DONE, begun)


@dataclass
class Adoptions:
    """The adoptions in a log: one counts if its last mark names its first one, and none began after that."""

    begun: int | None = None
    """Offset of the first mark of an adoption that did not end, or None."""
    ended: int = -1
    """Offset of the first mark of the newest adoption that counts, or −1."""

    def take(self, offset: int, mark: bytes | None) -> bool:
        """Take the next mark; return whether it ends an adoption, whose entries replace earlier ones."""
        if mark == BEGUN:
            self.begun = offset
        elif self.begun is not None and mark in {DONE, done_at(self.begun)}:
            self.ended, self.begun = self.begun, None
            return True
        return False


def name_of(topic: SignedTopic, source: str, target: str = "") -> str:
    """Return the name of a topic of drkit's, which MirrorMaker 2 never copies if it is a drill's."""
    return (NOT_MIRRORED if is_drill_alias(source) else "") + topic.of(source, target)


def state_topic(source: str) -> str:
    """Topic on the target with the state of the flow from this source."""
    return name_of(SignedTopic.STATE, source)


def source_of_state_topic(name: str) -> str | None:
    """The source alias in the name of a state topic; None for any other topic.

    Also None for the state of a drill: its flow copies topics of drills only, so it concerns no other flow.
    """
    source = name.removeprefix(f"{SignedTopic.STATE}.").removesuffix(".internal")
    return source if source and name == state_topic(source) else None


def drill_alias(source: str) -> str:
    """Return the source alias of all drills of flows from a source.

    It has no drill id: transactional ids contain it, and Kafka cannot delete them.
    """
    return f"drkit-drill-{source}"


def drill_topic(drill_id: str, what: str) -> str:
    """Return a topic of a drill, the same on both clusters."""
    return f"{NOT_MIRRORED}drkit-drill.{drill_id}.{what}.internal"


def drill_group(drill_id: str, what: str) -> str:
    """Return a consumer group of a drill."""
    return f"drkit-drill.{drill_id}.{what}"


def is_of_drill(drill_id: str, name: str) -> bool:
    """Return whether a topic or a group is of a drill, or drkit's own for the alias of drills."""
    is_for_alias = ".drkit-drill-" in f".{name}" and name.endswith(".internal")
    return name.removeprefix(NOT_MIRRORED).startswith(f"drkit-drill.{drill_id}.") or is_for_alias


def drills_topic(source: str, target: str) -> str:
    """Return the topic on the target with the records of a flow's drills."""
    return name_of(SignedTopic.DRILLS, source, target)


def offset_map_topic(source: str) -> str:
    """Topic on the target with the offset map of the flow from this source."""
    return name_of(SignedTopic.MAP, source)


def journal_topic(source: str) -> str:
    """Topic on the target with the journal of failovers from this source."""
    return name_of(SignedTopic.JOURNAL, source)


def fence_topic(source: str, target: str) -> str:
    """Topic on the source with what the planned runs of a flow have fenced there, and how they ended."""
    return name_of(SignedTopic.FENCES, source, target)


def target_of_fence_topic(name: str, source: str) -> str | None:
    """Return the target alias in the name of a source's record of fences; None for any other topic."""
    target = name.removeprefix(f"{SignedTopic.FENCES}.{source}.").removesuffix(".internal")
    return target if target and "." not in target and name == fence_topic(source, target) else None


def watch_topic(source: str, target: str) -> str:
    """Topic with the notes of the observers and fence agents of a flow."""
    return name_of(SignedTopic.NOTES, source, target)


def replay_topic(source: str, target: str) -> str:
    """Topic on the target with what replays of the source's tails have done there."""
    return name_of(SignedTopic.REPLAYS, source, target)


def quarantine_topic(topic: str, term: int) -> str:
    """Topic on the target with the records of the source that a failover's term left out of another topic."""
    return f"{topic}.divergent.{term}"


def bulk_transactional_id(source: str, target: str, bucket: int) -> str:
    """Transactional id that writes a bucket's copies in bulk mode, and that FREEZE fences."""
    return f"drkit.{source}.{target}.{bucket}"


def map_transactional_id(source: str, target: str, bucket: int) -> str:
    """Transactional id that writes a bucket of the offset map."""
    return f"{bulk_transactional_id(source, target, bucket)}.map"


def sole_transactional_id(
    source: str, target: str, purpose: Literal["lease", "failover", "adopt", "drill", "automatic"]
) -> str:
    """Return the transactional id of a flow for a purpose: its newest owner fences all earlier ones."""
    return f"drkit.{source}.{target}.{purpose}"


def replay_transactional_id(source: str, target: str, at: TopicPartition) -> str:
    """Transactional id that replays into a partition of the target; its newest owner fences all others.

    No run is in it: of two runs for one partition only one may write.
    """
    return f"{replay_transactional_ids(source, target)[0]}{at.topic}.{at.partition}"


def keep_transactional_id(source: str, target: str, at: TopicPartition, run_id: str) -> str:
    """Transactional id that appends the tail of one run to a partition of the target, and nothing else.

    The flow back leaves out what its producer id wrote.
    """
    return f"{replay_transactional_ids(source, target)[1]}{at.topic}.{at.partition}.{run_id}"


def replay_transactional_ids(source: str, target: str) -> tuple[str, str]:
    """Return how the transactional ids of all replays begin: the shared ones, and those of kept tails."""
    return f"drkit.{source}.{target}.replay.", f"drkit.{source}.{target}.keep."


def command_that_ends(transactional_id: str) -> str | None:
    """Return the command that ends a hanging transaction of drkit's as decided, or None for one of others."""
    own = _OWN_TRANSACTIONAL_ID.fullmatch(transactional_id)
    if own is None:
        return None
    source, target, kind = own.groups()
    return typed("drkit", *_ENDED_BY.get(kind, ("replicate",)), "--flow", f"{source}->{target}")


def is_transactional_id_of(source: str, name: str) -> bool:
    """Return whether a transactional id is drkit's for flows from a source, or that of a drill's client."""
    return name.startswith((f"drkit.{source}.", f"{source}."))
