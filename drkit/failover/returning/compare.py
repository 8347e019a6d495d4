"""COMPARE: what only one side has, by partition, and what follows from it for the partition's log."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from drkit.counted import counted, first_of
from drkit.errors import Failed, Refused
from drkit.failover.core.commands import retry_command
from drkit.failover.core.context import Context
from drkit.failover.core.request import Method, choice_for
from drkit.failover.core.step import Step, StepEffect, StepResult
from drkit.failover.loss.content import DEPTH
from drkit.failover.loss.divergence import divergence
from drkit.failover.loss.findings import ANOTHER_TOPIC, CopyFate, DivergenceState, PartitionDivergence
from drkit.failover.loss.log_cursor import first_record
from drkit.failover.loss.new_primary import topic_fate
from drkit.failover.returning.scope import unplanned
from drkit.flow_state.records import HeldSettingsRecord, IncompleteRecord, RoleRecord
from drkit.journal.machine import RETURN, StepName
from drkit.kafka import codes
from drkit.kafka.requests import all_topics, metadata
from drkit.kafka.topics import topic_configs
from drkit.model import TopicPartition
from drkit.status.pair.delta import DELETE_RETENTION_MS, may_lack_tombstones

_FIELDS: Final = frozenset(PartitionDivergence._fields)


class NeedsMethod(NamedTuple):
    """A partition whose records cannot simply stay where they are, and why."""

    tail: PartitionDivergence
    why: str

    @property
    def at(self) -> TopicPartition:
        """The partition of the old primary."""
        return TopicPartition(self.tail.topic, self.tail.partition)

    @property
    def has_tail(self) -> bool:
        """Return whether the old primary has records there that the new primary lacks."""
        return self.tail.records > 0

    @property
    def span(self) -> tuple[int, int]:
        """The offsets of these records, half open, with those that retention has removed."""
        end = self.tail.end or 0
        return min(self.tail.lost_from, end), end

    @property
    def why_not_kept(self) -> str:
        """Return why there is more than a tail after a proven beginning, or an empty text if there is not."""
        tail = self.tail
        if tail.found is not DivergenceState.DIVERGED or not self.has_tail:
            return self.why
        if tail.copy is not CopyFate.KEPT or tail.only_new or tail.differs_from is not None:
            return tail.in_words
        return "" if tail.proven else tail.why or "that it has what was copied could not be proven"


def to_json(partitions: Iterable[NeedsMethod]) -> list[dict[str, Any]]:
    """Return partitions as plain data, for the journal."""
    return [{**u.tail._asdict(), "unsound": u.why} for u in partitions]


def of_json(raw: Iterable[Mapping[str, Any]]) -> list[NeedsMethod]:
    """Return partitions from the journal's data; fields of later versions are ignored."""
    partitions = []
    for entry in raw:
        fields = {k: v for k, v in entry.items() if k in _FIELDS}
        fields |= {
            "found": DivergenceState(fields["found"]), "copy": CopyFate(fields.get("copy", CopyFate.KEPT)),
        }  # fmt: skip
        partitions.append(NeedsMethod(PartitionDivergence(**fields), str(entry["unsound"])))
    return partitions


def why_unsound(tail: PartitionDivergence, *, proven: bool, copied_back: int | None) -> str:
    """Return why new records may not follow those of the old primary, or an empty text if they may.

    :param proven: a switchover has fenced the old primary, so nothing more needs to be proven
    :param copied_back: offset, after the copied records, of a record of the new primary; None without one
    """
    if tail.found is not DivergenceState.CLEAN:
        return tail.why or tail.found.value
    if tail.copy is not CopyFate.KEPT:
        return f"its copy is {tail.copy}"
    if tail.only_new:
        return f"it does not have {counted(tail.only_new, 'record')} of the new primary"
    if copied_back is not None:
        return f"a record was copied back to it before, at {copied_back}"
    if tail.outlived != 0 or not (proven or tail.proven):
        unproven = "that it has what was copied could not be proven"
        return "; ".join(filter(None, (tail.why, tail.outlived_in_words))) or unproven
    return ""


def method_of(chosen: str | None, *, is_sound: bool) -> Method:
    """Return the chosen method, or the default, for a log; `is_sound`: new records may follow it."""
    if chosen is None or (chosen in {Method.TRIM, Method.KEEP} and is_sound):
        return Method.DELTA if is_sound else Method.REBUILD
    return Method(chosen)


_DEPTH: Final = 100
"""Records of each partition that are compared by content after a switchover: it found both sides equal, under
a proven fence, so every later loss or write shows in the last ones."""


class CompareStep(Step):
    """COMPARE: compares both sides, partition by partition."""

    name = StepName.COMPARE

    def plan(self, context: Context) -> list[StepEffect]:
        result = self._compare(context, undecided=True)
        context.journal.found[self.name] = result.evidence
        return [StepEffect("compare both sides", context.flow.name, first_of(result.notes))]

    def run(self, context: Context) -> StepResult:
        return self._compare(context, undecided=False)

    def _compare(self, context: Context, *, undecided: bool) -> StepResult:
        context.state.load()
        tails = compared(context, undecided=undecided)
        cuts_of(context)
        wrong = unsound(context, tails)
        ends = {str(tp): t.end for tp, t in sorted(tails.items()) if t.end is not None}
        source = context.source()
        topics = context.run(all_topics, source) if source is not None else {}
        ids = {name: str(topics[name].topic_id) for name in sorted(context.scope.topics) if name in topics}
        evidence = {"ends": ends, "ids": ids, "unsound": to_json(wrong)}
        return StepResult(evidence, tuple(_notes(context, tails, wrong)))


def cuts_of(context: Context) -> dict[TopicPartition, int]:
    """Return where producers of the new primary began. Raises Failed if a failover did not record it."""
    roles = context.state.all(RoleRecord)
    cuts: dict[TopicPartition, int] = {}
    for name in context.scope.topics:
        for number, end in (roles[name].ends or {}).items():
            if end is None:
                raise Failed(
                    "copy_end_unrecorded",
                    where=f"{name}-{number} of {context.flow.name}",
                    evidence=f"the switchover {roles[name].run_id} has not recorded the end of its copy",
                )
            cuts[TopicPartition(name, number)] = end
    return cuts


def compared(context: Context, *, undecided: bool = False) -> dict[TopicPartition, PartitionDivergence]:
    """Compare every partition of the scope on the old primary with its copy.

    :param undecided: also while transactions are open there, as before a run has decided them; after a
        switchover contents are not compared then: the run does it
    :raises Refused: a transaction is not decided there
    :raises Failed: it is unknown
    """
    depth = DEPTH if unplanned(context) else 0 if undecided else _DEPTH
    # Keys need no comparison where the partitions are emptied anyway.
    methods = context.request.methods
    settled = {t for t in context.scope.topics if choice_for(methods, t) == Method.REBUILD}
    settled |= forgotten_deletions(context, context.scope.topics).keys()
    found = divergence(context, topics=context.scope.topics, depth=depth, commits=False, settled=settled)
    if found.unanswered:
        hint = retry_command(context)
        raise Failed("compare_interrupted", where=context.flow.source, evidence=found.unanswered, hint=hint)
    if wrong := [t for t in found.tails if t.copy in ANOTHER_TOPIC]:
        names = context.scope.topics
        raise _recreated(context, [f"{names[t.topic]}-{t.partition} {ANOTHER_TOPIC[t.copy]}" for t in wrong])
    unclear = [
        t for t in found.tails if t.found is DivergenceState.UNKNOWN or (t.open_transaction and not undecided)
    ]
    if unclear:
        partitions = (f"{t.topic}-{t.partition}: {t.in_words}" for t in unclear)
        raise Refused(
            "not_comparable",
            where=context.flow.source,
            evidence=first_of(partitions),
            partitions=counted(len(unclear), "partition"),
            command=retry_command(context),
        )
    return {TopicPartition(t.topic, t.partition): t for t in found.tails}


def refuse_other_topics(context: Context, topics: Iterable[str]) -> None:
    """Refuse recreated copies, by the topics' ids. Raises Refused, or Failed if an id is unknown."""
    known = {target: target_id for target, _, target_id in (context.known.topics[t] for t in topics)}
    wrong = []
    for name, topic in sorted(context.run(metadata, context.target, sorted(known)).items()):
        if topic.error and topic.error not in codes.NO_SUCH_TOPIC:
            where = f"{name} on {context.flow.target}"
            evidence = codes.error_name(topic.error)
            raise Failed("new_topic_unknown", where=where, evidence=evidence, hint=retry_command(context))
        if (fate := topic_fate(topic, known[name])) in ANOTHER_TOPIC:
            wrong.append(f"{name} {ANOTHER_TOPIC[fate]}")
    if wrong:
        raise _recreated(context, wrong)


def _recreated(context: Context, wrong: list[str]) -> Refused:
    return Refused(
        "promoted_topic_recreated",
        where=context.flow.target,
        evidence=first_of(wrong),
        flow=context.flow.name,
        source=context.flow.source,
        command=RETURN.command,
    )


def unsound(context: Context, tails: Mapping[TopicPartition, PartitionDivergence]) -> list[NeedsMethod]:
    """Return the partitions that cannot be resumed by appending. Raises Failed if one is unreadable."""
    roles = context.state.all(RoleRecord)
    forgotten = forgotten_deletions(context, context.scope.topics)
    partitions = []
    for tp, tail in sorted(tails.items()):
        role = roles[tp.topic]
        copied_back = _copied_back(context, tp, tail, role) if tail.found is DivergenceState.CLEAN else None
        reason = why_unsound(tail, proven=bool(role.planned), copied_back=copied_back)
        known = context.state.get(IncompleteRecord, tp.topic)
        if not reason and known is not None and tp.partition in known.emptied:
            reason = f"the return {known.run_id}, which was aborted, has emptied it"
        if reason := reason or forgotten.get(tp.topic, ""):
            partitions.append(NeedsMethod(tail, reason))
    return partitions


def forgotten_deletions(context: Context, topics: Collection[str]) -> dict[str, str]:
    """Return compacted topics that may have lost a tombstone by now, by their settings, and the reason.

    The old primary still has the key.

    :raises DrkitError: the new primary does not answer
    """
    roles, held = context.state.all(RoleRecord), context.state.all(HeldSettingsRecord)
    now, reasons = context.wall(), {}
    names = {context.scope.topics[name]: name for name in topics}
    for target, configs in topic_configs(context.target_admin(), names).items():
        name, since = names[target], roles[names[target]].at_ms
        values = {n: c.value for n, c in configs.items()}
        if may_lack_tombstones(values, since, now, held.get(name)):
            kept_ms, away_ms = int(values[DELETE_RETENTION_MS] or 0), now - since
            reasons[names[target]] = (
                f"it was promoted {away_ms // 1000} s ago, and the new primary keeps tombstones for"
                f" {kept_ms // 1000} s: keys that were deleted there would live on"
            )
    return reasons


def _copied_back(
    context: Context, tp: TopicPartition, tail: PartitionDivergence, role: RoleRecord
) -> int | None:
    """Return the offset of a new primary's record that was copied back before, or None without one."""
    frontier, source = (role.frontiers or {}).get(tp.partition), context.source()
    if frontier is None or tail.end is None or frontier >= tail.end or source is None:
        return None
    offset: int | None = context.run(first_record, source, tp, (frontier, tail.end))
    return offset


def _notes(
    context: Context, tails: Mapping[TopicPartition, PartitionDivergence], wrong: Sequence[NeedsMethod]
) -> Iterator[str]:
    clean, alias = len(tails) - len(wrong), context.flow.source
    if not wrong:
        yield f"{counted(clean, 'partition', 'is')} as copied: nothing is on {alias} only"
        return
    records = sum(u.tail.records for u in wrong)
    yield f"{counted(records, 'record', 'is')} only on {alias}; {counted(clean, 'partition', 'is')} as copied"
    if removed := [f"{u.at}: {counted(u.tail.removed, 'offset')}" for u in wrong if u.tail.removed]:
        yield f"of what was not copied, the retention of {alias} has removed some: {first_of(removed)}"
    yield first_of(f"{u.at}: {u.why}" for u in wrong)
