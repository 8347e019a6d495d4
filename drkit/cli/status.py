"""``drkit status``: roles, lag, what a failover now would lose, and what is wrong."""

from __future__ import annotations

import threading

import click

from drkit.cli.configuration import configuration
from drkit.cli.render import emit
from drkit.cli.session import session
from drkit.cli.status_screen import show_again
from drkit.cli.status_view import view
from drkit.replicate.status_look import StatusCollector


@click.command()
@click.option("--flow", "names", multiple=True, help="A flow such as 'primary->standby'.  [default: all]")
@click.option("--watch", is_flag=True, help="Look again and again until Ctrl-C.")
@click.option("--interval", type=click.FloatRange(0.2), default=2.0, show_default=True, metavar="SECONDS",
              help="With --watch: time between two looks.")  # fmt: skip
@click.option("--partitions", is_flag=True, help="Each partition, not only sums by topic.")
def status(names: tuple[str, ...], interval: float, *, watch: bool, partitions: bool) -> int:
    """Say of each flow who runs it, how far behind the target is, and what a failover now would lose.

    Everything is asked of the clusters, so it works from any machine, also when the primary is gone: then
    the source's last known ends count, and how old they are is said.

    Exit code: 0 all is well, 1 there is a fault.
    """
    settings = configuration().settings
    flows = [settings.flow(n) for n in names] or list(settings.flows)
    if not flows:
        raise click.UsageError("the configuration has no [[flows]]")
    collectors = [StatusCollector(settings, flow) for flow in flows]
    if watch:
        for collector in collectors:
            collector.beats.follow()
    pause, found = threading.Event(), [c.look() for c in collectors]
    try:
        while watch:
            show_again(found, partitions=partitions)
            pause.wait(interval)
            found = [c.look() for c in collectors]
    except KeyboardInterrupt:
        return int(any(f.faults for f in found))
    finally:
        for collector in collectors:
            collector.close()
    if session().as_json:
        emit({"flows": [f.as_dict() for f in found]})
    else:
        emit({f.flow: view(f, partitions=partitions) for f in found})
    return int(any(f.faults for f in found))
