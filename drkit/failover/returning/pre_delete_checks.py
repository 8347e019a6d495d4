"""Final checks immediately before records of the old primary are deleted, in the same step."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any, Final
from uuid import UUID

from drkit.counted import first_of
from drkit.errors import Failed, Refused
from drkit.export.check import hash_topic, listed_manifest
from drkit.export.manifest import Manifest
from drkit.failover.core.commands import begin_command, retry_command
from drkit.failover.core.context import Context
from drkit.failover.core.request import Disposition, Method, RunRequest
from drkit.failover.core.reverse import reverse_flow
from drkit.failover.fencing.lift import not_answering
from drkit.failover.groups.offsets import Positions, committed_in
from drkit.failover.old_primary.altered import of_own, way_out
from drkit.failover.old_primary.readers import refuse_readers
from drkit.failover.returning.compare import NeedsMethod, forgotten_deletions, refuse_other_topics
from drkit.failover.returning.contact import ends_now, refuse_open, refuse_unselected
from drkit.failover.returning.exporting import tails_of
from drkit.failover.returning.gates import refuse_lagging_replicas, refuse_lost_history
from drkit.failover.returning.scope import pairs
from drkit.flow_state.records import TailRecord
from drkit.journal.machine import RETURN, StepName
from drkit.model import TopicPartition
from drkit.status.lag.source import Ends

_ABORT: Final = f"begin again: {RETURN.abort}"


class PreDeleteChecks:
    """Checks before the first change of a topic on the old primary; one object for each run of BEGIN."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._manifest: Manifest | None = None
        """The export's manifest, read when all of its files were there."""

    def standing(self, topics: Collection[str]) -> None:
        """Refuse topics of the old primary that are not what COMPARE saw.

        :raises Refused: one takes writes, ends elsewhere, was recreated, or has an open transaction
        """
        refuse_open(self._context, topics)
        self.unchanged(topics)

    def unchanged(self, topics: Collection[str]) -> None:
        """Refuse topics of the old primary that have other records than COMPARE saw, by their ends.

        What is emptied or created for a return ends where it did, or has no record.

        :raises Refused: one ends elsewhere, was recreated, or has an open transaction
        """
        context = self._context
        before = context.result(StepName.COMPARE)
        source = context.source(0.0)
        answer: tuple[dict[Any, Ends], dict[str, UUID]] = (
            context.run(ends_now, source, topics) if source is not None else ({}, {})
        )
        ends, ids = answer
        known = {tp: end for tp, end in before.get("ends", {}).items() if tp.rpartition("-")[0] in topics}
        now = {str(tp): e.end for tp, e in ends.items()}
        silent = [tp for tp in sorted(known.keys() - now) if source is None or tp.rpartition("-")[0] in ids]
        if silent:
            evidence = f"no answer about {first_of(silent)}"
            where = context.flow.source
            raise Failed("old_change_unknown", where=where, evidence=evidence, command=RETURN.command)
        wrong = [f"{tp}: ended at {known.get(tp)}, now at {now.get(tp)}" for tp in sorted({*known, *now})
                 if known.get(tp, 0) != now.get(tp)]  # fmt: skip
        wrong += [f"{tp}: a transaction is open" for tp, e in sorted(ends.items()) if e.held_offsets]
        old_ids = before.get("ids", {})
        wrong += [f"{t}: recreated" for t, i in sorted(ids.items()) if t in old_ids and old_ids[t] != str(i)]
        if wrong:
            raise Refused(
                "old_primary_changed", where=context.flow.source, evidence=first_of(wrong), abort=_ABORT
            )

    def whole(self, kept: Collection[TopicPartition]) -> None:
        """Refuse tails that are to be kept and that the old primary has lost a part of.

        Its log ends where it did (:meth:`standing`), so what begins before the tail has all of it.

        :param kept: partitions of the old primary
        :raises Refused: one begins behind the first record of its tail, or does not answer
        """
        context, source = self._context, self._context.source(0.0)
        if not kept:
            return
        ends: dict[TopicPartition, Ends] = (
            context.run(ends_now, source, {tp.topic for tp in kept})[0] if source is not None else {}
        )
        firsts = {u.at: u.span[0] for u in tails_of(context)}
        if wrong := not_whole({tp: firsts.get(tp) for tp in kept}, {tp: e.start for tp, e in ends.items()}):
            topic = min(kept).topic
            rebuilt = RunRequest(
                methods={topic: Method.REBUILD}, dispositions={topic: Disposition.REPLAY}, same="content"
            )
            raise Refused(
                "keep_tail_lost",
                where=context.flow.source,
                evidence=first_of(wrong),
                command=RETURN.command,
                next_command=begin_command(context, context.request.plus(rebuilt)),
            )

    def wanted(self, topics: Collection[str]) -> None:
        """Refuse topics that the reverse flow excludes, or whose copy was recreated. Raises Refused."""
        refuse_unselected(self._context, topics)
        refuse_other_topics(self._context, topics)

    def unread(self, topics: Collection[str]) -> None:
        """Refuse topics with a consumer, which may be new. Raises Refused, or ClusterUnreachable."""
        context, source = self._context, self._context.source()
        if source is None:
            raise not_answering(context, retry_command(context))
        evict = context.request.evict_readers
        refuse_readers(context, source, topics, evict=evict, step=StepName.BEGIN)

    def tombstones(self, topics: Collection[str], methods: Mapping[TopicPartition, Method]) -> None:
        """Refuse topics that are copied on behind what they have, and whose tombstones may be gone by now.

        COMPARE found that none was; a run may be held, or take long.

        :param methods: of partitions that do not simply continue
        :raises Refused: the new primary keeps them for a shorter time than since the failover
        """
        context = self._context
        continuing = {p.source.topic for p in pairs(context) if p.source not in methods} & set(topics)
        gone = forgotten_deletions(context, continuing) if continuing else {}
        if gone:
            evidence = first_of(f"{topic}: {reason}" for topic, reason in sorted(gone.items()))
            hint = f"{RETURN.abort}; then the next one rebuilds these topics"
            raise Refused("deleted_keys_return", where=context.flow.source, evidence=evidence, hint=hint)

    def destroyable(self, topic: str, methods: Mapping[TopicPartition, Method]) -> None:
        """Refuse to empty partitions of a topic of the old primary; after :meth:`standing`.

        :param methods: of its partitions
        :raises Refused: a consumer works there, the export is not as recorded, a decision is missing,
            the new primary would have fewer replicas than it should, or has lost what would be copied again
        """
        context = self._context
        context.state.load()
        self.unread((topic,))
        _refuse_commits(context, topic)
        self.saved(topic)
        refuse_lagging_replicas(context, (topic,))
        refuse_lost_history(context, tails_of(context), methods)

    def saved(self, topic: str) -> None:
        """Refuse a topic whose records are not all in the export, or without a decision. Raises Refused."""
        context, tails = self._context, [u for u in tails_of(self._context) if u.at.topic == topic]
        record = context.state.get(TailRecord, topic)
        if record is None or record.run_id != context.run_id or (tails and record.disposition is None):
            raise _unsaved(context, f"{topic}: no decision of this run is on record")
        if not tails:
            return
        exported = context.result(StepName.EXPORT)
        path, sha256 = exported.get("manifest"), exported.get("sha256")
        if not path or not sha256 or (record.manifest, record.sha256) != (path, sha256):
            raise _unsaved(
                context, f"{topic}: the journal has the export {path}, the state {record.manifest}"
            )
        with way_out(partial(of_own, context, [topic])):
            if self._manifest is None:
                self._manifest = listed_manifest(path, sha256)
                context.journal.renew()
            hash_topic(path, self._manifest, topic)
        context.journal.renew()
        if missing := not_covered(tails, self._manifest):
            raise _unsaved(context, first_of(missing))


def not_whole(firsts: Mapping[TopicPartition, int | None], starts: Mapping[TopicPartition, int]) -> list[str]:
    """Return partitions that do not begin at or before the first record of their tail. Pure.

    :param firsts: offset of that record, or None if no tail is known
    :param starts: where the partitions begin now
    """
    return [
        f"{tp}: its tail begins at {first}, the log at {starts.get(tp)}"
        for tp, first in sorted(firsts.items())
        if first is None or tp not in starts or starts[tp] > first
    ]


def not_covered(tails: Collection[NeedsMethod], manifest: Manifest) -> list[str]:
    """Return the tails that an export does not hold in full. Pure."""
    ranges = {(p.topic, p.partition): (p.first, p.end) for p in manifest.partitions}
    compared = ((u, ranges.get((u.at.topic, u.at.partition))) for u in tails)
    return [
        f"{u.at}: {list(u.span)}, the export has {held and list(held)}"
        for u, held in compared
        if held != u.span
    ]


def _refuse_commits(context: Context, topic: str) -> None:
    """Refuse commits of a group since DEMOTE: a consumer still works there."""
    committed: Positions = context.run(committed_in, context.source(), reverse_flow(context), {topic})
    kept: Mapping[str, Mapping[str, Any]] = context.result(StepName.DEMOTE).get("kept", {})
    commits = [
        f"{group} committed {stored.offset} of {tp}"
        for group, offsets in committed.items()
        for tp, stored in sorted(offsets.items())
        if not stored.is_from(context.flow.target) and kept.get(group, {}).get(str(tp)) != stored.offset
    ]
    if commits:
        raise Refused(
            "group_committed_on_old", where=context.flow.source, evidence=first_of(commits), abort=_ABORT
        )


def _unsaved(context: Context, evidence: str) -> Refused:
    return Refused("export_not_as_recorded", where=context.flow.source, evidence=evidence, abort=_ABORT)
