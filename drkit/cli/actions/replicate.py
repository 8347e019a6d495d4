"""``drkit replicate``: copy from source to target, exactly once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
import os
from pathlib import Path
import signal
import sys
import threading
from types import FrameType
from typing import Any

from drkit import observe
from drkit.cli.configuration import configuration
from drkit.cli.loading import work
from drkit.cli.render import emit
from drkit.cli.session import session
from drkit.cli.signals import setting
from drkit.cli.talk import say, say_over
from drkit.config import FlowSettings, Settings
from drkit.counted import counted, first_of
from drkit.errors import Usage
from drkit.monitoring.metrics import DrillSamples
from drkit.monitoring.page.server import Listen
from drkit.replicate.flow_thread import Glance
from drkit.replicate.reload import ConfigFile
from drkit.replicate.run import RunOptions, Stop
from drkit.replicate.run import replicate as run_flows
from drkit.spark.conf import given_conf
from drkit.topic_sync import preview

_HARD = 130
_RETURNS_SECONDS = 5.0
_SHOWN = 20
"""Maximum number of partitions in a progress line."""


def replicate(
    names: tuple[str, ...],
    master: str | None,
    conf: tuple[str, ...],
    spark_properties: Path | None,
    metrics_port: int | None,
    metrics_address: str | None,
    *,
    once: bool,
    standby: bool,
    dry_run: bool,
    takeover: bool,
) -> None:
    """Run ``drkit replicate``."""
    if once and standby:
        raise Usage("once_and_standby", where="drkit replicate")
    loaded = configuration()
    settings = loaded.settings
    flows = settings.chosen_flows(names)
    if takeover:
        flows = [f.model_copy(update={"takeover_from_mm2": True}) for f in flows]
    if dry_run:
        rows = preview.dry_run(settings, flows)
        emit(rows, shown=[rows or None, empty_flow_lines(flows, {row["flow"] for row in rows})])
        return
    config = ConfigFile(loaded.path, lambda: configuration().settings)
    terminal = sys.stderr.isatty()
    stop = _stop_on_signals(config, terminal=terminal)
    spark = given_conf(conf, spark_properties)
    seconds = 1.0 if terminal else 10.0
    options = RunOptions(
        once=once, standby=standby, master=master, conf=spark, progress_seconds=seconds, config=config,
        tell=_show if terminal else _log,
        stopping=_show_stop if terminal else _log_stop,
    )  # fmt: skip
    # A copy with an end does not serve the page: the configured port is for the permanent process.
    port = settings.metrics.port if metrics_port is None and not once else metrics_port
    if port is not None:
        listen = Listen(metrics_address or settings.metrics.host, port)
        options = options._replace(listen=listen, drills=_drills(settings, flows))
    if not once:
        _watch_returns(settings, flows, stop)
    answer = run_flows(settings, flows, options, stop)
    if terminal:
        say()
    emit(_view(answer.flows))
    raise SystemExit(answer.exit_code)


def empty_flow_lines(flows: Sequence[FlowSettings], with_topics: Collection[str]) -> list[str]:
    """Return a line for each flow without a topic.

    :param with_topics: the flows with one
    """
    return [
        f"{flow.name}: nothing to copy yet: {flow.source} has no topic that matches {first_of(flow.topics)};"
        " drkit replicate copies one as soon as it is created"
        for flow in flows
        if flow.name not in with_topics
    ]


def _drills(settings: Settings, flows: Sequence[FlowSettings]) -> DrillSamples:
    """Return the samples of drills; their code is loaded only where drills are configured."""
    if not settings.drills:
        return tuple
    samples: DrillSamples = work("drkit.drill.monitor").DrillMonitor(settings, flows).samples
    return samples


def _stop_on_signals(config: ConfigFile, *, terminal: bool) -> threading.Event:
    """An event that the first SIGINT or SIGTERM sets; the second ends the process at once.

    SIGHUP requests a reload of the configuration, unless it means that our terminal is gone.
    """
    stop = threading.Event()
    heard = setting(stop, lambda: os._exit(_HARD))  # Spark's workers end with this process

    def hung_up(number: int, frame: FrameType | None) -> None:
        if terminal and not sys.stderr.isatty():
            heard(number, frame)
        else:
            config.ask()

    signal.signal(signal.SIGHUP, hung_up)
    return stop


def _watch_returns(settings: Settings, flows: Sequence[FlowSettings], stop: threading.Event) -> None:
    """Begin the flows to a standby that was the primary, once they copy; Spark starts first."""
    pairs = [flow for flow in flows if flow.has_opposite_in(settings.flows)]
    if not pairs:
        return

    def watch() -> None:
        if not stop.wait(_RETURNS_SECONDS):
            work("drkit.failover.watches").watch_pairs(settings, pairs, stop)

    threading.Thread(target=watch, name="returns", daemon=True).start()


def _view(flows: list[dict[str, Any]]) -> dict[str, Any]:
    """The answer; for people, each value with a text becomes its own table."""
    if session().as_json:
        return {"flows": flows}
    rows = [
        {
            "flow": f["flow"], "topic": held.topic, "partition": held.partition,
            "records": f"up to {held.records:,}", "producer id": by.producer_id if by else None,
            "transactional id": by.transactional_id if by else None, "open since": by.since if by else None,
        }
        for f in flows
        for held in f.get("held_back", ())
        for by in held.transactions or (None,)
    ]  # fmt: skip
    apart = {
        "left out": [{"topic": t, "why": why} for f in flows for t, why in f.get("left_out", {}).items()],
        "stopped partitions": [
            {"partition": at, "why": why}
            for f in flows
            for at, why in f.get("stopped_partitions", {}).items()
        ],
        "errors": [{"flow": f["flow"], **f["error"]} for f in flows if f.get("error")],
        "held back by open transactions": rows,
    }
    hidden = {"left_out", "stopped_partitions", "error", "held_back"}
    shown = [{k: v for k, v in f.items() if k not in hidden} for f in flows]
    return {"flows": shown, **{name: table for name, table in apart.items() if table}}


def _show(seen: Glance) -> None:
    if seen.phase:
        say_over(f"{seen.flow}  {seen.phase}")
        return
    line = f"{seen.flow}  {counted(seen.records, 'record')} copied  {seen.records_per_second:,.0f} records/s"
    line += "" if seen.lag is None else f"  lag {seen.lag:,}"
    if held := seen.held_back:
        line += f"  held back {held[0].text()}"
        line += f", and in {len(held) - 1} more partitions" if len(held) > 1 else ""
    say_over(line)


def _show_stop(stop: Stop) -> None:
    say_over(stop.value)
    say()


def _log_stop(stop: Stop) -> None:
    if stop is Stop.DRAINS:
        observe.event("stopping", doing="draining in-flight batches")
    else:
        observe.event("stopped_before_start")


def _log(seen: Glance) -> None:
    if seen.phase:
        observe.event("progress", flow=seen.flow, phase=seen.phase)
        return
    held = [each.text() for each in seen.held_back[:_SHOWN]]
    if (more := len(seen.held_back) - _SHOWN) > 0:
        held.append(f"and {more} more partitions")
    fields: dict[str, Any] = {"held_back": held} if held else {}
    if seen.lag is not None:
        fields["lag"] = seen.lag
    observe.event("progress", flow=seen.flow, records_per_second=round(seen.records_per_second),
                  records=seen.records, **fields)  # fmt: skip
