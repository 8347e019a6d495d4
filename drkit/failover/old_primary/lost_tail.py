"""Records that were not copied and that the old primary no longer has: in an export, or lost.

Its retention runs whenever no failback holds it, and a disk may fail. What was exported of the same failover
is on record, export by export; it is not forgotten because the old primary has lost it meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from drkit.counted import counted, first_of
from drkit.export.manifest import Manifest
from drkit.export.record import HoleKind
from drkit.failover.core.context import Context
from drkit.failover.core.request import Disposition, RunRequest
from drkit.failover.loss.findings import DivergenceState, PartitionDivergence
from drkit.flow_state.records import RoleRecord, SavedTailRecord, UnreplayedRecord
from drkit.flow_state.unreplayed import Unreplayed, UnreplayedEnd, unreplayed
from drkit.journal.machine import StepName

Spans = Sequence[tuple[int, int]]
_OTHERS: Final = frozenset({DivergenceState.REGROWN, DivergenceState.RECREATED})
"""Classes of partitions whose records need not be those that an export has of the same offsets."""


class Saved(NamedTuple):
    """The records of one topic of the old primary in one export."""

    topic: str
    run: str
    record: SavedTailRecord

    @property
    def name(self) -> str:
        """The record's name in the state, and that of what is decided about it."""
        return UnreplayedRecord.name_of(self.topic, self.run)

    @property
    def records(self) -> int:
        """The number of records in the export."""
        return sum(self.record.records.values())


class Gone(NamedTuple):
    """The records of one topic that the old primary has lost."""

    topic: str
    exported: tuple[Saved, ...]
    """Exports with lost records that are not decided about."""
    records: int
    """The number of lost records that these exports have."""
    lost: Mapping[int, Spans]
    """By partition: offsets that are gone, and in no export."""
    removed: int
    """All offsets that its retention has removed."""

    @property
    def offsets_lost(self) -> int:
        """The number of offsets that are in no export: an upper bound of the records lost for ever."""
        return sum(end - first for spans in self.lost.values() for first, end in spans)

    @property
    def lost_in_words(self) -> str:
        """The offsets that are gone for ever, by partition."""
        spans = ((p, span) for p, ranges in sorted(self.lost.items()) for span in ranges)
        return first_of(f"{self.topic}-{p} from {first} to {end - 1}" for p, (first, end) in spans)

    @property
    def in_words(self) -> str:
        """Describe the lost records and where they are."""
        parts = []
        if self.exported:
            manifests = first_of(s.record.manifest for s in self.exported)
            parts.append(f"{counted(self.records, 'record', 'is')} in an export alone ({manifests})")
        if self.lost:
            offsets = counted(self.offsets_lost, "offset", "is")
            parts.append(f"{offsets} gone, and in no export ({self.lost_in_words})")
        if not parts:
            offsets = counted(self.removed, "offset", "is")
            parts.append(f"{offsets} gone, and in an export about which it was decided")
        return "; ".join(parts)


def gone(
    topic: str, topic_id: str, term: int, tails: Iterable[PartitionDivergence], saved: Iterable[Saved],
    decided: Collection[str],
) -> Gone | None:  # fmt: skip
    """Return what the old primary has lost of one topic, or None without a loss.

    :param topic_id: its current id there
    :param term: of the failover that promoted it
    :param tails: its partitions that diverge
    :param saved: all exports of it
    :param decided: names of those about which it was decided
    """
    now = {t.partition: t for t in tails}
    of_term = [s for s in saved if s.record.term == term]
    settled = [s for s in of_term if s.name in decided]
    needed: list[Saved] = []
    for each in sorted(
        (s for s in of_term if s.name not in decided), key=lambda s: (-s.records, s.record.at_ms)
    ):
        if _lacking(each, topic_id, now) and not any(
            other.record.has_all_of(each.record) for other in (*settled, *needed)
        ):
            needed.append(each)
    same = [s.record for s in of_term if str(s.record.topic_id) == topic_id]
    lost = {p: spans for p, t in sorted(now.items()) if (spans := _lost(t, same))}
    removed = sum(t.removed for t in now.values())
    if not (needed or removed):
        return None
    lacking = {p for each in needed for p in each.record.records}
    records = sum(max(_lacking(each, topic_id, now).get(p, 0) for each in needed) for p in lacking)
    return Gone(topic, tuple(needed), records, lost, removed)


def _lacking(each: Saved, topic_id: str, now: Mapping[int, PartitionDivergence]) -> dict[int, int]:
    record, lacking = each.record, {}
    is_same = str(record.topic_id) == topic_id
    for p, records in record.records.items():
        there = _count_present(now[p], record.spans[p], records) if is_same and p in now else 0
        if records > there:
            lacking[p] = records - there
    return lacking


def _count_present(tail: PartitionDivergence, span: tuple[int, ...], records: int) -> int:
    present, end = _present(tail), tail.end
    if tail.found in _OTHERS and ((present, end), tail.records) != (tuple(span), records):
        return 0
    if present <= span[0] or end is None:
        return tail.records
    # Others may have been written behind those that were exported.
    return max(0, tail.records - max(0, end - span[1]))


def _present(tail: PartitionDivergence) -> int:
    return tail.lost_from + tail.emptied + tail.removed


def _lost(tail: PartitionDivergence, saved: Iterable[SavedTailRecord]) -> list[tuple[int, int]]:
    end = _present(tail)
    spans = (record.spans[tail.partition] for record in saved if tail.partition in record.spans)
    return list(uncovered((end - tail.removed, end), spans))


def uncovered(span: tuple[int, int], by: Iterable[Sequence[int]]) -> Iterator[tuple[int, int]]:
    """Yield the parts of a range that no other one covers; all half open."""
    start, last = span
    for first, end in sorted(map(tuple, by)):
        if first > start and start < last:
            yield start, min(first, last)
        start = max(start, end)
    if start < last:
        yield start, last


_APPENDED = frozenset({UnreplayedEnd.REPLAYED.value, UnreplayedEnd.QUARANTINED.value})


def note_saved(context: Context, manifest: Manifest, path: str) -> None:
    """Record the contents of a verified export at `path`, by topic; repeatable. Raises DrkitError."""
    for topic in sorted({p.topic for p in manifest.partitions}):
        name = UnreplayedRecord.name_of(topic, manifest.run)
        partitions = [p for p in manifest.partitions if p.topic == topic]
        if context.state.get(SavedTailRecord, name) is None and any(p.records for p in partitions):
            record = SavedTailRecord(
                run_id=context.run_id,
                at_ms=context.wall(),
                term=max(manifest.term_of(p) for p in partitions),
                topic_id=partitions[0].topic_id,
                # Without the beginning that was lost before the export.
                spans={
                    p.partition: (p.first + sum(x.holes.get(HoleKind.REMOVED, 0) for x in p.parts), p.end)
                    for p in partitions
                },
                records={p.partition: p.records for p in partitions},
                manifest=path,
                sha256=manifest.sha256,
            )
            context.state.put(record, name)


def forget_saved(context: Context) -> None:
    """Forget the exports of topics that are failed back: what was decided about them is done.

    Records that a person has still to append have a record of their own. Repeated, it changes nothing.

    :raises DrkitError: the state cannot be written
    """
    context.state.load()
    names = [s.name for s in _saved(context) if s.topic in context.scope.topics]
    context.state.delete_all(SavedTailRecord, names)


def gone_of(context: Context, tails: Iterable[PartitionDivergence]) -> dict[str, Gone]:
    """Return what the old primary has lost, by topic, as found by COMPARE; from the loaded state.

    After a switchover nothing is lost: it ended when everything was copied. Decisions of an aborted return
    that were not carried out are to be made again.

    :param tails: its partitions that diverge
    """
    ids, roles = context.result(StepName.COMPARE).get("ids", {}), context.state.all(RoleRecord)
    tails = list(tails)
    saved = list(_saved(context))
    decided = {
        name
        for name, record in context.state.all(UnreplayedRecord).items()
        if record.ended in _APPENDED or (record.ended is not None and record.run_id != context.run_id)
    }
    by_topic = {}
    for topic in (t for t in context.scope.topics if not roles[t].planned):
        own_tails = [t for t in tails if t.topic == topic]
        own_exports = [s for s in saved if s.topic == topic]
        lost = gone(topic, ids.get(topic, ""), roles[topic].term, own_tails, own_exports, decided)
        if lost is not None:
            by_topic[topic] = lost
    return by_topic


def _saved(context: Context) -> Iterable[Saved]:
    for name, record in sorted(context.state.all(SavedTailRecord).items()):
        topic, _, run = name.rpartition("/")
        yield Saved(topic, run, record)


def is_given_up(request: RunRequest, topic: str) -> bool:
    """Return whether a person has given up by name the lost records of a topic that no export has."""
    named = request.dispositions.get(topic) == Disposition.DISCARD
    return named or topic in request.give_up_history


def given_up_of(context: Context, topic: str) -> list[Unreplayed]:
    """Return the exports of a topic that were given up by an earlier return or ``drkit replay --give-up``.

    Exports of an earlier failover are left out: the topic was failed back since.
    """
    role, ended = context.state.all(RoleRecord)[topic], context.state.all(UnreplayedRecord)
    saved = [s for s in _saved(context) if (s.topic, s.record.term) == (topic, role.term) and s.name in ended]
    return [
        Unreplayed(topic, s.run, ended[s.name]) for s in saved
        if ended[s.name].ended == UnreplayedEnd.GIVEN_UP and ended[s.name].run_id != context.run_id
    ]  # fmt: skip


def note_decided(
    context: Context, found: Mapping[str, Gone], chosen: Mapping[str, Mapping[str, Any]], by: str
) -> None:
    """Note what was decided about records that only an earlier export has. Repeated, it notes the same.

    Records to append raise an alarm until they are appended, even if this run is aborted.

    :raises DrkitError: the state cannot be written
    """
    for topic, each in found.items():
        disposition = chosen.get(topic, {}).get("disposition")
        given_up = disposition == Disposition.DISCARD
        for saved in each.exported if disposition else ():
            record = UnreplayedRecord(
                run_id=context.run_id,
                at_ms=context.wall(),
                records=saved.records,
                manifest=saved.record.manifest,
                sha256=saved.record.sha256,
                disposition=str(disposition),
                ended=UnreplayedEnd.GIVEN_UP.value if given_up else None,
                ended_ms=context.wall() if given_up else None,
                reason=context.request.reason or None if given_up else None,
                by=by if given_up else None,
            )
            context.state.put(record, saved.name)


def forget_covered(context: Context, topics: Iterable[str], run: str) -> None:
    """Forget what aborted returns were to append, where this run decides about all of it by its own export.

    The old primary had it still: such a return had not emptied it yet. Repeated, it changes nothing.

    :param topics: about which it decides, by their names on the old primary
    :param run: of its own export
    :raises DrkitError: the state cannot be written
    """
    saved = {s.name: s.record for s in _saved(context)}
    for each in unreplayed(context.state.records, set(topics)):
        own, earlier = saved.get(UnreplayedRecord.name_of(each.topic, run)), saved.get(each.name)
        is_covered = own is not None and earlier is not None and own.has_all_of(earlier)
        if is_covered and each.record.run_id != context.run_id:
            context.state.delete(UnreplayedRecord, each.name)


def forget_discarded(context: Context, topics: Iterable[str]) -> None:
    """Forget that a run has discarded what only an earlier export has: it is rolled back.

    What a person has given up by ``drkit replay --give-up`` stays so. Repeated, it changes nothing.

    :param topics: those that have not begun, by their names on the old primary
    :raises DrkitError: the state cannot be written
    """
    names = set(topics)
    for name, record in list(context.state.all(UnreplayedRecord).items()):
        of_run = record.run_id == context.run_id and record.disposition == Disposition.DISCARD
        if of_run and name.rpartition("/")[0] in names:
            context.state.delete(UnreplayedRecord, name)


def to_append(context: Context, disposition: Disposition) -> list[Saved]:
    """Return the exports that this run is still to append, as it decided, with a disposition."""
    saved = {s.name: s for s in _saved(context)}
    pending = unreplayed(context.state.records, context.scope.topics)
    return [
        saved[each.name]
        for each in pending
        if each.record.run_id == context.run_id
        and each.record.disposition == disposition
        and each.name in saved
    ]


def decided_earlier(context: Context, topic: str, run: str) -> bool:
    """Return whether an earlier export, decided in this run, has all that the export `run` has of a topic."""
    saved = {s.name: s.record for s in _saved(context)}
    own = saved.get(UnreplayedRecord.name_of(topic, run))
    if own is None:
        return False
    return any(
        record.run_id == context.run_id and name in saved and saved[name].has_all_of(own)
        for name, record in context.state.all(UnreplayedRecord).items()
        if name.rpartition("/")[0] == topic
    )
