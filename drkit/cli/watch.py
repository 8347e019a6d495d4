"""``drkit watch``: detection and, as configured, failover."""

from __future__ import annotations

import getpass

import click

from drkit import observe
from drkit.cli.configuration import configuration
from drkit.cli.render import emit
from drkit.cli.session import session
from drkit.cli.signals import until_signalled
from drkit.cli.watch_screen import in_short, screen
from drkit.config import FlowSettings, Settings
from drkit.detect.verdict import Kind
from drkit.errors import Refused
from drkit.replicate.page.server import Listen
from drkit.watch import by_hand
from drkit.watch.observer import this_process
from drkit.watch.run import Options
from drkit.watch.run import watch as run_watch

_EXIT_CODES = {Kind.UP: 0, Kind.SUSPECT: 0, Kind.DEGRADED: 1, Kind.HOLD: Refused.exit_code, Kind.LOST: 1}
_flows = click.option("--flow", "names", multiple=True, help="As 'primary->standby'.  [default: all]")


@click.group(invoke_without_command=True)
@_flows
@click.option(
    "--observer", help="The name under which this one votes.  [default: watch.name, else the host's name]"
)
@click.option("--once", type=click.FloatRange(0.1), metavar="SECONDS", help="Look for so long, then end.")
@click.option("--metrics-port", type=click.IntRange(0, 65535), help="Serve /metrics, /healthz and a page.")
@click.option("--metrics-address", default="127.0.0.1", show_default=True, help="On which address.")
@click.pass_context
def watch(
    context: click.Context,
    names: tuple[str, ...],
    observer: str | None,
    once: float | None,
    metrics_port: int | None,
    metrics_address: str,
) -> int:
    """Say whether the primary is up, suspect, degraded, on hold for a reason, or lost.

    Mode approve prints and posts the command to run; mode auto fails over by itself, under conditions of
    its own. With --json: one line for each change. With --once the last word alone: such a look does not
    vote, and neither calls nor acts for anybody.

    Exit code with --once: 0 up or suspect, 1 degraded or lost, 3 on hold.
    """
    if context.invoked_subcommand is not None:
        return 0
    observe.setup(session().log_format, session().log_level)
    settings = configuration().settings
    identity = this_process(observer, votes=once is None, watch=settings.watch)
    options = Options(identity, command=_as_given(), once=once)
    if metrics_port is not None:
        options = options._replace(listen=Listen(metrics_address, metrics_port))
    with screen(once=once is not None) as show:
        last = run_watch(settings, _chosen(settings, names), options, until_signalled(), show)
    if once is None:
        return 0
    emit([s.moment.as_dict() | {"command": s.command} if session().as_json else in_short(s) for s in last])
    return max(_EXIT_CODES[said.moment.verdict.kind] for said in last)


@watch.command()
@_flows
@click.option("--reason", default="", help="Why, for whoever wonders.")
def pause(names: tuple[str, ...], reason: str) -> None:
    """Begin and propose no failover until resumed; everything is still watched."""
    settings = configuration().settings
    emit([by_hand.pause(settings, f, getpass.getuser(), reason) for f in _chosen(settings, names)])


@watch.command()
@_flows
def resume(names: tuple[str, ...]) -> None:
    """Take a pause back."""
    settings = configuration().settings
    emit([by_hand.resume(settings, f) for f in _chosen(settings, names)])


@watch.command()
@_flows
def acknowledge(names: tuple[str, ...]) -> None:
    """Say that somebody has looked at the last automatic failover: only then may there be another."""
    settings = configuration().settings
    emit([by_hand.acknowledged(settings, f, getpass.getuser()) for f in _chosen(settings, names)])


def _chosen(settings: Settings, names: tuple[str, ...]) -> list[FlowSettings]:
    return [settings.flow(n) for n in names] or list(settings.flows)


def _as_given() -> tuple[str, ...]:
    """The options of this run that a failover needs too."""
    said = session()
    config = ("--config", str(said.config)) if said.config else ()
    return (*config, *(word for pair in said.overrides for word in ("--set", pair)))
