"""Committed offsets that consumer groups left on the old primary, against what the failover translated."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping

from drkit.checkpoints.other_groups import is_consumer
from drkit.failover.core.context import Context
from drkit.failover.core.machine import StepName
from drkit.failover.journal.topic import JournalTopic
from drkit.failover.loss.findings import CommitKind, OldCommit, PartitionDivergence
from drkit.kafka.groups.requests import Groups, failure
from drkit.kafka.raw import RawCluster
from drkit.model import TopicPartition

GroupAt = tuple[str, TopicPartition]
"""A group, and a partition of the old primary."""
Commits = dict[GroupAt, int]


async def commits_in(source: RawCluster, topics: Collection[str]) -> Commits:
    """Return the committed offsets of all consumer groups in some topics.

    :raises DrkitError: the cluster refuses, or a broker does not answer
    :raises RawError: the cluster stopped answering
    """
    asked = Groups(source)
    names = sorted(g for g, listed in (await asked.listed()).items() if is_consumer(listed))
    found: Commits = {}
    for group, answer in (await asked.committed(names)).items():
        if answer.value is None:
            raise failure(answer.error, f"read the offsets of the group {group}", source.alias)
        found |= {(group, at): c.offset for at, c in answer.value.items() if at.topic in topics}
    return found


def translated_by(context: Context, runs: Mapping[str, str]) -> Commits:
    """Return the offsets on the old primary that the failovers of topics have translated.

    :param runs: topic on the old primary → id of the run that promoted it
    :raises DrkitError: the journal cannot be read
    """
    journal = JournalTopic(context.target, context.flow.source, context.flow.target)
    if context.run(journal.exists):
        context.run(journal.read)
    found: Commits = {}
    for run_id in sorted(set(runs.values())):
        run = journal.history.runs.get(run_id)
        if run is None:
            continue
        evidence = run.results.get(StepName.TRANSLATE, {}).get("evidence", {})
        names = {to: name for name, to in run.opening.get("scope", {}).get("topics", {}).items()}
        for group, positions in evidence.get("positions", {}).items():
            for target, (upstream, *_) in positions.items():
                topic, _, number = target.rpartition("-")
                name = names.get(topic, "")
                if runs.get(name) == run_id:
                    found[group, TopicPartition(name, int(number))] = upstream
    return found


class BeyondCounter:
    """Counts the records of the tail before each committed offset, as the tail is read."""

    def __init__(self, commits: Commits) -> None:
        offsets: dict[TopicPartition, set[int]] = {}
        for (_, at), offset in commits.items():
            offsets.setdefault(at, set()).add(offset)
        self._commits = commits
        self._offsets = {at: sorted(some) for at, some in offsets.items()}
        self._counts = {at: [0] * (len(some) + 1) for at, some in self._offsets.items()}

    def take(self, at: TopicPartition, offset: int) -> None:
        """Count a record of the tail."""
        if (offsets := self._offsets.get(at)) is not None:
            self._counts[at][bisect_right(offsets, offset)] += 1

    def judged(self, translated: Commits, tails: Iterable[PartitionDivergence]) -> tuple[OldCommit, ...]:
        """Return what each committed offset says.

        :param translated: by the failovers
        """
        by_place = {TopicPartition(t.topic, t.partition): t for t in tails}
        found = []
        for (group, at), offset in sorted(self._commits.items()):
            index = bisect_right(self._offsets[at], offset)
            beyond, tail = sum(self._counts[at][:index]), by_place.get(at)
            gone = tail is not None and tail.removed + tail.emptied > 0 and offset > tail.lost_from
            known = translated.get((group, at))
            kind = CommitKind.SUPERSEDED if known == offset else CommitKind.OTHER
            kind = CommitKind.BEYOND if beyond or gone else kind
            found.append(OldCommit(group, *at, offset, kind, known, beyond))
        return tuple(found)
