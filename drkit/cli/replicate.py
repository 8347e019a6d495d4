"""``drkit replicate``: copy from source to target, exactly once."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType

import click

from drkit import observe
from drkit.cli.configuration import configuration
from drkit.cli.render import emit
from drkit.replicate.page.server import Listen
from drkit.replicate.reload import ConfigFile
from drkit.replicate.run import Options
from drkit.replicate.run import replicate as run_flows
from drkit.replicate.topic_preview import dry_run

_HARD = 130


@click.command()
@click.option("--flow", "names", multiple=True, help="A flow such as 'primary->standby'.  [default: all]")
@click.option("--once", is_flag=True, help="End when everything that stands on the source now is copied.")
@click.option("--master", help="Spark master URL.  [default: in this process]")
@click.option("--dry-run", is_flag=True, help="Show what would be done with each topic; change nothing.")
@click.option("--takeover-from-mm2", "takeover", is_flag=True, help="Go on where MirrorMaker 2 stopped.")
@click.option("--metrics-port", type=click.IntRange(0, 65535),
              help="Serve /metrics, /healthz and a live page.  [default: port of [metrics]]")  # fmt: skip
@click.option("--metrics-address", help="On which address.  [default: host of [metrics], 127.0.0.1]")
def replicate(
    names: tuple[str, ...],
    master: str | None,
    metrics_port: int | None,
    metrics_address: str | None,
    *,
    once: bool,
    dry_run: bool,
    takeover: bool,
) -> None:
    """Copy from source to target, exactly once, until stopped (Ctrl-C; twice to stop at once)."""
    loaded = configuration()
    settings = loaded.settings
    flows = settings.chosen_flows(names)
    if takeover:
        flows = [f.model_copy(update={"takeover_from_mm2": True}) for f in flows]
    if dry_run:
        emit(_plan(settings, flows))
        return
    config = ConfigFile(loaded.path, lambda: configuration().settings)
    terminal = sys.stderr.isatty()
    stop = _stop_on_signals(config, terminal=terminal)
    options = Options(once=once, master=master, progress_seconds=1.0 if terminal else 10.0, config=config)
    # A copy with an end is a visitor: the port of the file belongs to whoever runs all the time.
    port = settings.metrics.port if metrics_port is None and not once else metrics_port
    if port is not None:
        options = options._replace(listen=Listen(metrics_address or settings.metrics.host, port))
    answer = run_flows(settings, flows, options, stop, _show if terminal else _log)
    if terminal:
        click.echo(err=True)
    emit({"flows": answer.flows})
    raise SystemExit(answer.exit_code)


_plan = dry_run


def _stop_on_signals(config: ConfigFile, *, terminal: bool) -> threading.Event:
    """An event that the first SIGINT or SIGTERM sets; the second ends the process where it stands.

    SIGHUP asks to read the configuration again, unless it means that our terminal is gone.
    """
    stop = threading.Event()

    def heard(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            os._exit(_HARD)  # Spark's workers end with this process
        stop.set()

    def hung_up(number: int, frame: FrameType | None) -> None:
        if terminal and not sys.stderr.isatty():
            heard(number, frame)
        else:
            config.ask()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, heard)
    signal.signal(signal.SIGHUP, hung_up)
    return stop


def _show(flow: str, rate: float, lag: int | None, _records: int) -> None:
    behind = "…" if lag is None else f"{lag:,}"
    click.echo(f"\r\x1b[2K{flow}  {rate:,.0f} records/s  lag {behind}", nl=False, err=True)


def _log(flow: str, rate: float, lag: int | None, records: int) -> None:
    observe.event("progress", flow=flow, records_per_second=round(rate), lag=lag, records=records)
