"""``drkit replay``: the old primary's tail, from an export, into the new primary."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from drkit.cli.configuration import configuration
from drkit.cli.questions import ask
from drkit.cli.render import emit
from drkit.cli.screens.replay import ReplayTicker, answer, show_plan
from drkit.cli.session import session
from drkit.cli.signals import until_signalled
from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.counted import first_of
from drkit.errors import DrkitError, ExportAltered, Failed, Refused, Usage
from drkit.export.check import altered
from drkit.failover.checks.run_opening import person
from drkit.failover.core.reverse import state_of
from drkit.failover.old_primary.altered import only_copy
from drkit.flow_state.names import state_topic
from drkit.flow_state.state import FlowState
from drkit.flow_state.topic import StateTopic
from drkit.flow_state.unreplayed import UnreplayedEnd, recorded_hashes, unreplayed
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import describe_topics
from drkit.replay.compare import Same
from drkit.replay.run import Replayer, ReplayRequest, note_replayed, total
from drkit.replay.run import give_up as given_up
from drkit.replay.tail import Export, export_at

_COMMAND: Final = "drkit replay"


def replay(
    manifest: str,
    flow: str | None,
    topics: tuple[str, ...],
    same: str | None,
    sha256: str | None,
    *,
    give_up: str,
    to_quarantine: bool,
    dry_run: bool,
    yes: bool,
) -> int:
    """Run ``drkit replay``."""
    settings = configuration().settings
    if give_up:
        if dry_run or to_quarantine or same or sha256:
            raise Usage("give_up_excludes", where=_COMMAND)
        return _give_up(settings, flow, manifest, topics, give_up, yes=yes)
    with _way_out(settings, flow, manifest):
        export = export_at(manifest, sha256)
        chosen = _flow(settings, flow, export.flow)
        if topics:
            export = export.of_topics(frozenset(topics))
        target = settings.cluster(chosen.target).with_client(chosen.target_admin)
        request = ReplayRequest(export, Same(same) if same else None, to_quarantine=to_quarantine)
        state = _state(target, chosen)
        is_known = sha256 is not None or _on_record(state, export, manifest)
        with Replayer(target, chosen, request) as replayer:
            plan = replayer.plan(state, dry_run=dry_run)
            if not (dry_run and session().as_json):
                show_plan(plan, target.alias, is_known=is_known)
            if dry_run:
                emit(answer(plan, None, whole=session().as_json))
                plan.decided()
                return 0
            if not plan.is_done:
                plan.decided()
                if not yes:
                    ask(f"Append to {target.alias}?", command=_COMMAND)
            results = replayer.run(plan, ReplayTicker(plan), until_signalled().is_set)
        if unreplayed(state):
            how = UnreplayedEnd.QUARANTINED if to_quarantine else UnreplayedEnd.REPLAYED
            with StateTopic(target, chosen.source) as topic:
                topic.load()
                note_replayed(topic, export, results, how, person())
        emit(answer(plan, results, whole=session().as_json))
        return 0 if total(results).is_done else Failed.exit_code


def _on_record(state: FlowState, export: Export, manifest: str) -> bool:
    """Return whether the manifest's SHA-256 is on record. Who may change the files can correct their hashes.

    :raises Refused: another one is
    """
    paths = {manifest, str(Path(manifest).absolute()), str(Path(manifest).resolve())}
    known = recorded_hashes(state, paths, export.run_id)
    if known and export.sha256 not in known:
        evidence = f"the manifest's SHA-256 is {export.sha256}, {first_of(sorted(known))} is on record"
        raise altered(manifest, evidence)
    return bool(known)


@contextmanager
def _way_out(settings: Settings, flow: str | None, manifest: str) -> Iterator[None]:
    """Say what to do where an export is not what was written, by what is on record of it."""
    try:
        yield
    except ExportAltered as error:
        for each in [settings.one_flow(flow)] if flow is not None else settings.flows:
            with suppress(DrkitError), state_of(settings, each) as state:
                if state is not None and (left := only_copy(state.records, each, manifest)):
                    error.hint = left
        raise


def _give_up(
    settings: Settings, name: str | None, manifest: str, topics: tuple[str, ...], reason: str, *, yes: bool
) -> int:
    """Give up what was to be replayed; the export is not read."""
    chosen = settings.one_flow(name) if name is not None else _waiting(settings, manifest)
    target = settings.cluster(chosen.target).with_client(chosen.target_admin)
    if not yes:
        ask(f"Never replay it to {target.alias}?", command=_COMMAND)
    with StateTopic(target, chosen.source) as state:
        state.load()
        given = given_up(state, manifest, topics, reason, person())
    emit({"given_up": [each.in_words for each in given], "manifest": manifest, "reason": reason})
    return 0


def _waiting(settings: Settings, manifest: str) -> FlowSettings:
    """The flow with a return that was to replay an export; else the only one."""
    for flow in settings.flows:
        with state_of(settings, flow) as state:
            left = unreplayed(state.records) if state is not None else []
        if any(each.record.manifest == manifest for each in left):
            return flow
    return settings.one_flow(None)


def _flow(settings: Settings, name: str | None, exported: str) -> FlowSettings:
    if name is None and any(each.name == exported for each in settings.flows):
        name = exported
    return settings.one_flow(name)


def _state(target: ClusterSettings, flow: FlowSettings) -> FlowState:
    """Return the flow's state on the new primary. Raises Refused if it has none."""
    name = state_topic(flow.source)
    if name not in describe_topics(Cluster.connect(target), [name]):
        raise Refused("flow_never_ran", where=f"{flow.name}: {target.alias}", evidence=f"there is no {name}")
    with StateTopic(target, flow.source) as state:
        state.load()
        return state.records
