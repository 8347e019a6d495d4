"""``drkit watch``: detection and, as configured, failover."""

from __future__ import annotations

from dataclasses import asdict
import getpass

from drkit import observe
from drkit.cli.configuration import configuration
from drkit.cli.layout import with_times
from drkit.cli.loading import work
from drkit.cli.render import emit
from drkit.cli.screens.watch import in_short, screen
from drkit.cli.session import session
from drkit.cli.signals import until_signalled
from drkit.config import FlowSettings, Settings
from drkit.detect.verdict import VerdictKind
from drkit.errors import Refused
from drkit.monitoring.page.server import Listen
from drkit.watch import automatic
from drkit.watch.identity import this_process
from drkit.watch.run import WatchOptions
from drkit.watch.run import watch as run_watch

_EXIT_CODES = {
    VerdictKind.UP: 0,
    VerdictKind.SUSPECT: 1,
    VerdictKind.DEGRADED: 1,
    VerdictKind.HOLD: Refused.exit_code,
    VerdictKind.LOST: 1,
}


def watch(
    names: tuple[str, ...],
    observer: str | None,
    once: float | None,
    metrics_port: int | None,
    metrics_address: str | None,
) -> int:
    """Run ``drkit watch``."""
    observe.setup(session().log_format, session().log_level)
    settings = configuration().settings
    identity = this_process(observer, votes=once is None, watch=settings.watch)
    flows = _chosen(settings, names)
    options = WatchOptions(identity, given=session().given, once=once)
    if metrics_port is not None:
        options = options._replace(listen=Listen(metrics_address or settings.metrics.host, metrics_port))
        if settings.drills:
            monitor = work("drkit.drill.monitor").DrillMonitor(settings, flows)
            options = options._replace(drills=monitor.samples)
    with screen(once=once) as show:
        last = run_watch(settings, flows, options, until_signalled(), show)
    if once is None:
        return 0
    emit([s.moment.as_dict() | {"command": s.command} if session().as_json else in_short(s) for s in last])
    return max(_EXIT_CODES[said.moment.verdict.kind] for said in last)


def pause(names: tuple[str, ...], reason: str) -> None:
    """Run ``drkit watch pause``."""
    settings = configuration().settings
    rows = [automatic.pause(settings, f, getpass.getuser(), reason) for f in _chosen(settings, names)]
    emit(rows, shown=[list(map(with_times, rows))])


def resume(names: tuple[str, ...]) -> None:
    """Run ``drkit watch resume``."""
    settings = configuration().settings
    emit([automatic.resume(settings, f) for f in _chosen(settings, names)])


def acknowledge(names: tuple[str, ...]) -> None:
    """Run ``drkit watch acknowledge``."""
    settings = configuration().settings
    notes = [automatic.acknowledged(settings, f, getpass.getuser()) for f in _chosen(settings, names)]
    emit(notes, shown=[[with_times(asdict(each)) for each in notes]])


def _chosen(settings: Settings, names: tuple[str, ...]) -> list[FlowSettings]:
    return [settings.flow(n) for n in names] or list(settings.flows)
