"""Events: each is a log line and a number in a metric.

Logs go to stderr, for people or as one JSON object a line; stdout is for the answer of a command.
"""

from __future__ import annotations

from collections.abc import Container, MutableMapping
import logging
import sys
from typing import Any, Final, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge
import structlog

from drkit.masking import MASK, is_secret, without_secrets
from drkit.visible import visible_lines

LogFormat = Literal["console", "json"]
Level = Literal["debug", "info", "warning", "error"]

REGISTRY: Final = CollectorRegistry()
"""drkit's own metrics, without those of the process around it."""

MOST_PARTITIONS: Final = 2000
"""Maximum number of partitions (or topics) with their own labels."""
MOST_GROUPS: Final = 500
"""Maximum number of consumer groups with their own labels."""
OTHERS: Final = "_others"
"""The label of all topics, or groups, beyond the maximum."""
_partitions: set[tuple[str, ...]] = set()
_identity: Final[dict[str, dict[str, object]]] = {}
"""Flow → fields of its events; empty name: fields of every event."""
_FLOW: Final = ("source", "target")
_TOPIC: Final = (*_FLOW, "topic", "partition")

RECORDS: Final = Counter("drkit_records", "Records copied.", _TOPIC, registry=REGISTRY)
BYTES: Final = Counter("drkit_bytes", "Bytes copied, as stored on the target.", _TOPIC, registry=REGISTRY)
BATCHES: Final = Counter("drkit_batches", "Record batches appended.", _TOPIC, registry=REGISTRY)
FRONTIER: Final = Gauge("drkit_frontier", "First source offset not yet copied.", _TOPIC, registry=REGISTRY)
EPOCHS: Final = Counter("drkit_epochs", "Epochs of the copy task that ended.", _FLOW, registry=REGISTRY)
HEARTBEATS: Final = Counter(
    "drkit_heartbeats", "Heartbeats that the source acknowledged.", _FLOW, registry=REGISTRY
)
LEFT_OUT: Final = Counter(
    "drkit_left_out_records",
    "Records left out because a producer of an opposite flow wrote them.",
    (*_FLOW, "producer"),
    registry=REGISTRY,
)
EVENTS: Final = Counter("drkit_events", "Events by kind.", ("kind",), registry=REGISTRY)
ERRORS: Final = Counter("drkit_errors", "Errors by class.", ("kind",), registry=REGISTRY)

COUNTED: Final[dict[Counter | Gauge, tuple[str, ...]]] = {
    RECORDS: _TOPIC, BYTES: _TOPIC, BATCHES: _TOPIC, FRONTIER: _TOPIC,
    EPOCHS: _FLOW, HEARTBEATS: _FLOW, LEFT_OUT: (*_FLOW, "producer"),
    EVENTS: ("kind",), ERRORS: ("kind",),
}  # fmt: skip
"""Every metric that is counted here, and its labels."""


def setup(log_format: LogFormat = "console", level: Level = "info") -> None:
    """Configure logging for this process; calling it again replaces what was set."""
    number = logging.getLevelNamesMapping()[level.upper()]
    watched = log_format == "console" and sys.stderr.isatty()
    last: list[structlog.typing.Processor] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=str)]
        if log_format == "json"
        else [_shown, structlog.dev.ConsoleRenderer(colors=watched, pad_event_to=0, pad_level=not watched)]
    )
    if watched:
        last = [_in_short, *last, _over_progress]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            _identified,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%H:%M:%S" if watched else "iso", utc=not watched),
            _scrub,
            *last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        # The current stderr: code that replaced it may have closed the previous one.
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
        cache_logger_on_first_use=False,
    )
    # Libraries log through the standard library; only their warnings and errors are logged here.
    logging.basicConfig(level=max(number, logging.WARNING), stream=sys.stderr, force=True)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(_AsEvent())


class _AsEvent(logging.Formatter):
    """Formats a library's message as an event: it may contain names from a cluster, and several lines."""

    def format(self, record: logging.LogRecord) -> str:
        line: Any = {"event": "library_message", "library": record.name, "message": super().format(record)}
        for processor in structlog.get_config()["processors"]:
            line = processor(None, record.levelname.lower(), line)
        return str(line)


def event(kind: str, *, level: Level = "info", **fields: object) -> None:
    """Log an event and count it.

    :param kind: a short name in snake case, such as ``source_gap``
    :param fields: where and with which numbers; secrets are hidden by their names
    """
    EVENTS.labels(kind).inc()
    getattr(structlog.get_logger("drkit"), level)(kind, **fields)


def error(problem: BaseException, **fields: object) -> None:
    """Log a handled error as the event ``error`` and count it by its class."""
    kind = type(problem).__name__
    ERRORS.labels(kind).inc()
    told = {k: v for k in ("where", "evidence", "hint") if (v := getattr(problem, k, ""))}
    structlog.get_logger("drkit").error("error", what=str(problem), kind=kind, **told, **fields)


def copied(
    flow: tuple[str, str], topic: str, partition: int, *, records: int, size: int, batches: int, frontier: int
) -> None:
    """Count what a task has copied of one partition since its last report.

    :param flow: aliases of source and target
    :param size: bytes as stored on the target
    """
    at = _bounded(flow, topic, partition)
    RECORDS.labels(*at).inc(records)
    BYTES.labels(*at).inc(size)
    BATCHES.labels(*at).inc(batches)
    FRONTIER.labels(*at).set(frontier)


def frontier(flow: tuple[str, str], topic: str, partition: int, offset: int) -> None:
    """Set the metric of a partition's first source offset that is not on the target."""
    FRONTIER.labels(*_bounded(flow, topic, partition)).set(offset)


def _bounded(flow: tuple[str, str], topic: str, partition: int) -> tuple[str, ...]:
    """Labels of a partition: beyond the maximum all partitions share one, to bound the size of a scrape."""
    at = (*flow, topic, str(partition))
    if at not in _partitions:
        if len(_partitions) >= MOST_PARTITIONS:
            return (*flow, OTHERS, "")
        _partitions.add(at)
    return at


def keep(flow: tuple[str, str], topics: Container[str]) -> None:
    """Drop the labels of a flow's partitions whose topic is gone: the maximum counts living partitions."""
    for at in [at for at in list(_partitions) if at[:2] == flow and at[2] not in topics]:
        _partitions.discard(at)
        for metric in (RECORDS, BYTES, BATCHES, FRONTIER):
            metric.remove(*at)


def left_out(flow: tuple[str, str], producer: int, records: int) -> None:
    """Count records that a task left out: a producer of an opposite flow wrote them."""
    LEFT_OUT.labels(*flow, str(producer)).inc(records)


def epoch_ended(flow: tuple[str, str]) -> None:
    """Count an epoch whose tasks have all ended."""
    EPOCHS.labels(*flow).inc()


def identify(flow: str = "", **fields: object) -> None:
    """Add fields, such as ``run`` and ``term``, to all later events.

    :param flow: only events of this flow
    """
    _identity.setdefault(flow, {}).update(fields)


def _identified(_logger: object, _method: str, fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    of_flow = _identity.get(str(fields.get("flow", "")), {})
    return {**_identity.get("", {}), **of_flow, **fields}


def _scrub(_logger: object, _method: str, fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for name, value in fields.items():
        fields[name] = MASK if is_secret(name) else without_secrets(value)
    return fields


def _in_short(_logger: object, _method: str, fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Leave out what only a program needs: ids of the run, tables of settings, and empty fields."""
    shown = {k: "; ".join(map(str, v)) if isinstance(v, (list, tuple)) else v for k, v in fields.items()}
    unread = {k for k, v in shown.items() if k in {"run", "term"} or isinstance(v, dict) or v == ""}
    return {k: v for k, v in shown.items() if k not in unread}


def _over_progress(_logger: object, _method: str, line: Any) -> str:
    """Write over the progress line that the terminal shows."""
    return f"\r\x1b[2K{line}"


def _shown(_logger: object, _method: str, fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {k: visible_lines(v) if isinstance(v, str) else v for k, v in fields.items()}
