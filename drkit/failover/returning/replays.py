"""Plan the replay of exported records: what it would append, and why it would be refused."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from drkit.counted import counted, first_of, utc
from drkit.errors import Refused
from drkit.failover.core.commands import begin_command, is_held, retry_command
from drkit.failover.core.context import Context, StepProgress
from drkit.failover.core.request import Disposition, Method, RunRequest, choice_for
from drkit.failover.loss.findings import DivergenceState
from drkit.failover.old_primary.altered import of_earlier, of_own, way_out
from drkit.failover.old_primary.emptied import is_emptied
from drkit.failover.old_primary.lost_tail import Gone, Saved, decided_earlier, given_up_of
from drkit.failover.returning.compare import NeedsMethod
from drkit.failover.returning.exporting import EXPORT, tails_of
from drkit.failover.returning.gates import refuse_copied_back, with_rebuild
from drkit.flow_state.records import IncompleteRecord, TailRecord, UnreplayedRecord
from drkit.flow_state.unreplayed import Unreplayed, replay_command
from drkit.journal.machine import StepName
from drkit.next_command import typed
from drkit.replay.compare import Same
from drkit.replay.plan import NotKept, ReplayPlan
from drkit.replay.progress import ReplayProgress
from drkit.replay.run import Replayer, ReplayRequest
from drkit.replay.tail import export_at

APPENDS: Final = (Disposition.REPLAY, Disposition.QUARANTINE)


def of_own_export(context: Context, topics: Collection[str]) -> list[str]:
    """Return the topics whose records are appended from the export of this run.

    The others have no records there, or an earlier export, about which this run decides, has all of them.
    """
    own = context.effects(StepName.EXPORT).get(EXPORT)
    with_tail = {u.at.topic for u in tails_of(context)}
    own_topics = sorted(with_tail & set(topics))
    if own is None:  # in a rehearsal
        return own_topics
    return [t for t in own_topics if not decided_earlier(context, t, own["intent"]["run"])]


@contextmanager
def planned_replay(
    context: Context,
    disposition: Disposition,
    topics: Collection[str],
    *,
    kept: bool = False,
    earlier: Saved | None = None,
) -> Iterator[tuple[Replayer, ReplayPlan]]:
    """Open a replay of the exported records of some topics, with its plan.

    :param kept: the old primary keeps their tails
    :param earlier: an export of records that the old primary has lost since; None for that of this run
    :raises Refused: the records may not be replayed there, the request does not define equal records, or a
        file of the export is not what was written
    :raises DrkitError: the new primary does not answer, or refuses
    """
    if earlier is not None:
        manifest = earlier.record.manifest, earlier.record.sha256
        hint = partial(of_earlier, context, earlier.topic, manifest[0])
    else:
        exported = context.result(StepName.EXPORT)
        manifest = exported["manifest"], exported["sha256"]
        hint = partial(of_own, context, topics, begun=not kept)
    same = Same(context.request.same) if context.request.same else None
    with way_out(hint), _way_out_of_keep(context):
        export = export_at(*manifest).of_topics(frozenset(topics))
        export = export.kept() if kept else export
        request = ReplayRequest(export, same, to_quarantine=disposition is Disposition.QUARANTINE)
        context.state.load()
        with Replayer(context.target_settings, context.flow, request) as replayer:
            plan = replayer.plan(context.state.records)
            plan.decided()
            yield replayer, plan


@contextmanager
def _way_out_of_keep(context: Context) -> Iterator[None]:
    def rebuild(topic: str, same: str = "") -> str:
        return with_rebuild(context, topic, RunRequest(dispositions={topic: Disposition.REPLAY}, same=same))

    try:
        yield
    except NotKept as error:
        error.hint = error.way_out(rebuild)
        raise


def tell_replay(context: Context, step: StepName, progress: ReplayProgress) -> None:
    """Report the progress of a replay, and keep the lock on the run."""
    line = f"{progress.at}: {progress.appended} appended, up to {progress.next} of the old primary"
    context.tell(StepProgress(step, line))
    context.journal.renew()


def refuse_dispositions(context: Context, unsound: Sequence[NeedsMethod], lost: Mapping[str, Gone]) -> None:
    """Refuse to append records that cannot be appended, or were given up. `lost` has lost ones by topic.

    Records of a topic that was recreated under the name of a copied one may have any origin, and there is no
    copy to compare them with: a replay refuses their export. Where all records of a topic were given up, the
    choice would do nothing; one for every topic is for those that have other records.
    """
    dispositions, with_tail = context.request.dispositions, [u for u in unsound if u.has_tail]
    recreated = {u.at.topic for u in with_tail if u.tail.found is DivergenceState.RECREATED}
    if wrong := sorted(t for t in recreated if choice_for(dispositions, t) == Disposition.REPLAY):
        command = retry_command(context, RunRequest(dispositions={wrong[0]: Disposition.QUARANTINE}))
        raise Refused(
            "replay_recreated", where=context.flow.source, evidence=first_of(wrong), command=command
        )
    appended = {t: disposition for t, disposition in dispositions.items() if disposition in APPENDS}
    others = {u.at.topic for u in with_tail} | {t for t, g in lost.items() if g.exported}
    for topic in sorted((appended.keys() & context.scope.topics.keys()) - others):
        if ended := given_up_of(context, topic):
            raise _refused_given_up(context, topic, ended, appended[topic])


def _refused_given_up(context: Context, topic: str, ended: list[Unreplayed], disposition: str) -> Refused:
    commands = (replay_command(e.record.manifest, [topic], disposition, e.record.sha256) for e in ended)
    if is_held(context):  # it keeps its request
        discarded = RunRequest(dispositions={topic: Disposition.DISCARD})
        left_out = f"give them up in this return, too: {retry_command(context, discarded)}"
    else:
        rest = {t: choice for t, choice in context.request.dispositions.items() if t != topic}
        begin = begin_command(context, context.request._replace(dispositions=rest))
        left_out = f"leave out {typed('--disposition', topic)}: {begin}"
    return Refused(
        "given_up",
        where=context.flow.source,
        evidence=first_of(f"{topic}: {_given_up(each.record)}" for each in ended),
        left_out=left_out,
        commands="; ".join(map(str, commands)),
    )


def _given_up(record: UnreplayedRecord) -> str:
    when = "" if record.ended_ms is None else f" at {utc(record.ended_ms)}"
    by, reason = record.by or "an unknown person", record.reason or "no reason is on record"
    return f"{counted(record.records, 'record')} of {record.manifest} given up by {by}{when}: {reason}"


def refuse_replays(
    context: Context, chosen: Mapping[str, Mapping[str, Any]], lost: Mapping[str, Gone]
) -> list[str]:
    """Check that the exports can be replayed, before any change; return cautions.

    :raises Refused: records of a topic may not be appended to the new primary
    """
    kept = [t for t, d in chosen.items() if Method.KEEP in d["methods"].values()]
    notes: list[str] = []
    for disposition in APPENDS:
        topics = [t for t, d in chosen.items() if d["disposition"] == disposition and t not in kept]
        earlier = [s for t in topics if t in lost for s in lost[t].exported]
        for each in earlier:
            with planned_replay(context, disposition, [each.topic], earlier=each) as (_, plan):
                notes += plan.cautions(context.wall())
        if own := of_own_export(context, topics):
            with planned_replay(context, disposition, own) as (_, plan):
                notes += plan.cautions(context.wall())
    if kept:
        refuse_copied_back(context, kept)
        with planned_replay(context, Disposition.REPLAY, kept, kept=True) as (_, plan):
            notes += plan.cautions(context.wall())
    return notes


def is_left(context: Context, topic: str, known: TailRecord) -> bool:
    """Return whether an aborted return has emptied a topic: only that run's export has its records."""
    return bool(known.manifest) and context.state.get(IncompleteRecord, topic) is not None


def left_notes(context: Context, topics: Iterable[str]) -> list[str]:
    """Return where records are that an aborted return has deleted, and the command that appends them.

    Records that were given up are named as such: a disposition of this return does not restore them.
    """
    notes: list[str] = []
    own = context.result(StepName.EXPORT).get("manifest")
    for topic in sorted(topics):
        ended = given_up_of(context, topic)
        notes += [
            f"given up ({each.record.reason}), no disposition of this return appends it:"
            f" {to_replay(each.record.manifest, each.record.sha256, [topic])}"
            for each in ended
        ]
        known = context.state.get(TailRecord, topic)
        if known is None or not is_left(context, topic, known):
            continue
        if known.manifest not in {own, *(each.record.manifest for each in ended)}:
            notes.append(to_replay(str(known.manifest), str(known.sha256), [topic]))
    return notes


def note_unreplayed(context: Context, topics: Collection[str]) -> list[str]:
    """Note the records of some topics that a run has destroyed, and will not append. Repeatable.

    Those that it has discarded are in its export: the next return decides about them, too.

    :returns: the commands that are left to do
    :raises DrkitError: the state cannot be written
    """
    replayed, commands = context.effects(StepName.REPLAY), []
    chosen: dict[str, dict[str, str]] = context.result(StepName.DECIDE).get("topics", {})
    own = of_own_export(context, chosen)
    for disposition in APPENDS:
        if (replayed.get(disposition.value) or {}).get("result") is not None:
            continue
        names = [
            t
            for t, d in sorted(chosen.items())
            if t in topics and d["disposition"] == disposition and is_emptied(context, t) and t in own
        ]
        exported = context.result(StepName.EXPORT)
        for topic in names:
            tail = context.state.get(TailRecord, topic)
            run = context.effects(StepName.EXPORT)[EXPORT]["intent"]["run"]
            if context.state.get(UnreplayedRecord, name := UnreplayedRecord.name_of(topic, run)) is None:
                record = UnreplayedRecord(
                    run_id=context.run_id,
                    at_ms=context.wall(),
                    records=tail.records if tail is not None else 0,
                    manifest=exported["manifest"],
                    sha256=exported["sha256"],
                    disposition=disposition.value,
                )
                context.state.put(record, name)
        if names:
            commands.append(to_replay(exported["manifest"], exported["sha256"], names, disposition))
    return commands


def to_replay(manifest: str, sha256: str, topics: Collection[str], disposition: str = "") -> str:
    """Describe records of old topics that only an export has, with the command that replays them.

    :param sha256: of the manifest
    :param disposition: how they are appended, or an empty text for their own topics
    """
    return (
        f"what only the old primary had of {first_of(sorted(topics))} is in the export alone, not replayed:"
        f" {replay_command(manifest, topics, disposition, sha256)}"
    )
