"""``drkit status``: roles, lag, the loss of a failover now, positions of groups, and faults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
import threading

from drkit.cli.configuration import configuration
from drkit.cli.loading import work
from drkit.cli.render import emit
from drkit.cli.screens.status import NO_DRILLS, DrillsView, Shown, as_data, show, show_again
from drkit.cli.session import session
from drkit.cli.signals import until_signalled
from drkit.config import FlowSettings, Settings
from drkit.config.tables.fields import closest
from drkit.counted import counted
from drkit.errors import Usage
from drkit.status.model import FlowStatus
from drkit.status.paired import PairedCollector


def status(
    names: tuple[str, ...],
    groups: tuple[str, ...],
    interval: float,
    *,
    all_groups: bool,
    partitions: bool,
    short: bool,
    watch: bool,
) -> int:
    """Run ``drkit status``."""
    settings = configuration().settings
    flows = settings.chosen_flows(names)
    collectors = [PairedCollector(settings, flow) for flow in flows]
    shown, drills = Shown(partitions, groups, all_groups, short), _drills(settings, flows)
    # An interrupt raised at once could hit an event loop, which would treat it as a failed request.
    stop = until_signalled() if watch else threading.Event()
    if watch:
        for collector in collectors:
            collector.beats.follow()
            collector.groups.follow()
    found = [c.look(measure=not watch) for c in collectors]
    try:
        _refuse_unknown(groups, found)
        while watch and not stop.is_set():
            show_again(found, shown, drills(found))
            if not stop.wait(interval):
                found = [c.look() for c in collectors]
    except KeyboardInterrupt:  # interrupted twice
        stop.set()
    finally:
        for collector in collectors:
            collector.close()
    if watch:
        return int(any(f.faults for f in found))
    if session().as_json:
        emit(as_data(found, shown, drills(found)))
    else:
        show(found, shown, drills(found))
    return int(any(f.faults for f in found))


def _drills(
    settings: Settings, flows: Sequence[FlowSettings]
) -> Callable[[Sequence[FlowStatus]], DrillsView]:
    """Return what shows the drills of flows; its code is loaded only where drills are configured."""
    if not settings.drills:
        return lambda _found: NO_DRILLS
    view: Callable[[Sequence[FlowStatus]], DrillsView] = (
        work("drkit.cli.screens.drill").DrillStates(settings, flows).view
    )
    return view


def _refuse_unknown(groups: Sequence[str], found: Sequence[FlowStatus]) -> None:
    """Refuse a group that does not exist, unless the existing groups are unknown."""
    seen = [f.groups for f in found if f.groups is not None]
    known = {g.group for s in seen for g in s.groups}
    if len(seen) < len(found) or any(s.error for s in seen):
        return
    others = {o.group for s in seen for o in s.others}
    for group in groups:
        if group not in known | others:
            near = closest(group, known)
            raise Usage(
                "group_without_offsets_in_flow",
                where=", ".join(f.flow for f in found),
                evidence=f"{counted(len(known), 'group', 'has')} one",
                hint=f"did you mean '{near}'?" if near else "see all: drkit status --all-groups",
                group=group,
            )
