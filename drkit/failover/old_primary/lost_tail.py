"""Records that the old primary has no more, in a return: what is found, saved, decided, and left to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from drkit.export.hole import HoleKind
from drkit.export.manifest import Manifest, PartitionExport
from drkit.failover.core.choices import Disposition
from drkit.failover.core.context import Context
from drkit.failover.core.machine import StepName
from drkit.failover.core.request import RunRequest
from drkit.failover.loss.findings import PartitionDivergence
from drkit.failover.old_primary.gone import Gone, Saved, gone
from drkit.flow_state.records import RoleRecord, SavedTailRecord, UnreplayedRecord
from drkit.flow_state.unreplayed import Unreplayed, UnreplayedEnd, unreplayed

_APPENDED = frozenset({UnreplayedEnd.REPLAYED.value, UnreplayedEnd.QUARANTINED.value})


def note_saved(context: Context, manifest: Manifest, path: str) -> None:
    """Keep in the flow's state what an export has, topic by topic. Repeated, it changes nothing.

    :param manifest: of the export, which was read back
    :param path: where it is
    :raises DrkitError: the state cannot be written
    """
    for topic in sorted({p.topic for p in manifest.partitions}):
        name = UnreplayedRecord.name_of(topic, manifest.run)
        mine = [p for p in manifest.partitions if p.topic == topic]
        if context.state.get(SavedTailRecord, name) is None and any(p.records for p in mine):
            record = SavedTailRecord(
                run_id=context.run_id,
                at_ms=context.wall(),
                term=max(manifest.term_of(p) for p in mine),
                topic_id=mine[0].topic_id,
                spans={p.partition: (p.first + _removed(p), p.end) for p in mine},
                records={p.partition: p.records for p in mine},
                manifest=path,
                sha256=manifest.sha256,
            )
            context.state.put(record, name)


def forget_saved(context: Context) -> None:
    """Forget the exports of topics that are home: all that they have is decided about, and done.

    What a person has still to append has a record of its own. Repeated, it changes nothing.

    :raises DrkitError: the state cannot be written
    """
    context.state.load()
    names = [s.name for s in _saved(context) if s.topic in context.scope.topics]
    context.state.delete_all(SavedTailRecord, names)


def _removed(partition: PartitionExport) -> int:
    """How many offsets were gone already when a partition was exported: those of its beginning."""
    return sum(part.holes.get(HoleKind.REMOVED, 0) for part in partition.parts)


def gone_of(context: Context, tails: Iterable[PartitionDivergence]) -> dict[str, Gone]:
    """What the old primary has no more, by topic, as COMPARE has found it; from the loaded state.

    After a switchover nothing is: it ended when everything was copied. What an aborted return had decided and
    not done is to be decided again.

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
    found = {}
    for topic in (t for t in context.scope.topics if not roles[t].planned):
        mine = [t for t in tails if t.topic == topic]
        theirs = [s for s in saved if s.topic == topic]
        some = gone(topic, ids.get(topic, ""), roles[topic].term, mine, theirs, decided)
        if some is not None:
            found[topic] = some
    return found


def _saved(context: Context) -> Iterable[Saved]:
    for name, record in sorted(context.state.all(SavedTailRecord).items()):
        topic, _, run = name.rpartition("/")
        yield Saved(topic, run, record)


def is_given_up(request: RunRequest, topic: str) -> bool:
    """Whether a person has given up by name what is gone of a topic and in no export."""
    named = request.dispositions.get(topic) == Disposition.DISCARD
    return named or topic in request.give_up_history


def given_up_of(context: Context, topic: str) -> list[Unreplayed]:
    """What an earlier return or ``drkit replay --give-up`` has given up of a topic, export by export.

    Exports of an earlier failover are left out: that topic came home since.
    """
    role, ended = context.state.all(RoleRecord)[topic], context.state.all(UnreplayedRecord)
    mine = [s for s in _saved(context) if (s.topic, s.record.term) == (topic, role.term) and s.name in ended]
    found = [Unreplayed(topic, s.run, ended[s.name]) for s in mine]
    return [
        each for each in found
        if each.record.ended == UnreplayedEnd.GIVEN_UP and each.record.run_id != context.run_id
    ]  # fmt: skip


def note_decided(
    context: Context, found: Mapping[str, Gone], chosen: Mapping[str, Mapping[str, Any]], by: str
) -> None:
    """Note what was decided about records that only an earlier export has. Repeated, it notes the same.

    What is to be appended is an alarm from now on, until it is: whatever becomes of this run.

    :raises DrkitError: the state cannot be written
    """
    for topic, each in found.items():
        said = chosen.get(topic, {}).get("disposition")
        given_up = said == Disposition.DISCARD
        for saved in each.exported if said else ():
            record = UnreplayedRecord(
                run_id=context.run_id,
                at_ms=context.wall(),
                records=saved.records,
                manifest=saved.record.manifest,
                sha256=saved.record.sha256,
                disposition=str(said),
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
        own, theirs = saved.get(UnreplayedRecord.name_of(each.topic, run)), saved.get(each.name)
        is_covered = own is not None and theirs is not None and own.has_all_of(theirs)
        if is_covered and each.record.run_id != context.run_id:
            context.state.delete(UnreplayedRecord, each.name)


def forget_discarded(context: Context, topics: Iterable[str]) -> None:
    """Forget that a run has discarded what only an earlier export has: it is rolled back.

    What a person has given up by ``drkit replay --give-up`` stays so. Repeated, it changes nothing.

    :param topics: those that have not begun, by their names on the old primary
    :raises DrkitError: the state cannot be written
    """
    mine = set(topics)
    for name, record in list(context.state.all(UnreplayedRecord).items()):
        of_run = record.run_id == context.run_id and record.disposition == Disposition.DISCARD
        if of_run and name.rpartition("/")[0] in mine:
            context.state.delete(UnreplayedRecord, name)


def to_append(context: Context, disposition: Disposition) -> list[Saved]:
    """Exports of which this run has decided that their records are appended so, and they are not yet."""
    saved = {s.name: s for s in _saved(context)}
    left = unreplayed(context.state.records, context.scope.topics)
    return [
        saved[each.name]
        for each in left
        if each.record.run_id == context.run_id
        and each.record.disposition == disposition
        and each.name in saved
    ]


def decided_earlier(context: Context, topic: str, run: str) -> bool:
    """Whether an earlier export, about which this run has decided, has all that its own has of a topic.

    :param run: of its own export
    """
    saved = {s.name: s.record for s in _saved(context)}
    own = saved.get(UnreplayedRecord.name_of(topic, run))
    if own is None:
        return False
    return any(
        record.run_id == context.run_id and name in saved and saved[name].has_all_of(own)
        for name, record in context.state.all(UnreplayedRecord).items()
        if name.rpartition("/")[0] == topic
    )
