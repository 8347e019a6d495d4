"""What a watching process serves: everything of the status, and its verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from drkit.detect.seen import WELL
from drkit.detect.verdict import VerdictKind
from drkit.model import FlowAliases
from drkit.monitoring.board import Board
from drkit.status.model import Fault
from drkit.watch.observer import Moment

_FLOW: Final = ("source", "target")
TABLE: Final = {
    "drkit_verdict": ((*_FLOW, "verdict", "reason"), "1 for what the observer makes of the primary now."),
    "drkit_verdict_level": (_FLOW, "The same as a number: 0 UP, 1 SUSPECT, 2 DEGRADED, 3 HOLD, 4 LOST."),
    "drkit_phi": (_FLOW, "Suspicion by the absence of heartbeats."),
    "drkit_replication_quiet_seconds": (_FLOW, "Since replication last moved."),
    "drkit_failover_risk_seconds": (_FLOW, "Upper bound of what a failover now would lose."),
    "drkit_address_well": ((*_FLOW, "listener", "server"), "1: the newest probe of this address succeeded."),
    "drkit_votes": ((*_FLOW, "says"), "Observers whose fresh votes say so."),
    "drkit_target_findings": ((*_FLOW, "finding"), "1 for each finding on the target's readiness."),
}  # fmt: skip
"""Name → labels and meaning."""
Newest = Callable[[], Iterable[tuple[Moment, Mapping[Any, Any]]]]
"""The newest moment of each flow, with the newest probe of each address."""


class VerdictCollector(Collector):
    """Makes the metrics of the verdicts when Prometheus asks."""

    def __init__(self, newest: Newest) -> None:
        self._newest = newest

    def collect(self) -> Iterator[Metric]:
        """Every family of the table."""
        families = {n: GaugeMetricFamily(n, text, labels=labels) for n, (labels, text) in TABLE.items()}
        for moment, probes in self._newest():
            for name, labels, value in _samples(moment, probes):
                if value is not None:
                    families[name].add_metric(labels, float(value))
        yield from families.values()


def _samples(
    moment: Moment, probes: Mapping[Any, Any]
) -> Iterator[tuple[str, tuple[str, ...], float | None]]:
    flow, picture, verdict = moment.aliases, moment.picture, moment.verdict
    yield "drkit_verdict", (*flow, verdict.kind.name, verdict.reason.value), 1
    yield "drkit_verdict_level", flow, verdict.kind.value
    yield "drkit_phi", flow, picture.phi
    yield "drkit_replication_quiet_seconds", flow, picture.moved_ago
    yield "drkit_failover_risk_seconds", flow, picture.risk.seconds
    for address, probe in probes.items():
        if probe is not None:
            yield "drkit_address_well", (*flow, address.listener, address.server), probe.outcome in WELL
    tally = picture.tally
    for says, names in (("gone", tally.gone), ("alive", tally.alive), ("unsure", tally.unsure)):
        yield "drkit_votes", (*flow, says), len(names)
    for code in {f.code for f in moment.sensed.findings}:
        yield "drkit_target_findings", (*flow, code), 1


class WatchBoard(Board):
    """The board of the status, with the verdicts."""

    def __init__(self, newest: Newest, **more: Any) -> None:
        super().__init__(**more)
        self._moments = newest
        self._verdicts = CollectorRegistry()
        self._verdicts.register(VerdictCollector(newest))

    def metrics(self) -> bytes:
        """Everything in Prometheus' text format."""
        return super().metrics() + generate_latest(self._verdicts)

    def faults(self, now: float) -> dict[FlowAliases, tuple[Fault, ...]]:
        """The faults of the status, and a verdict that is worse than a suspicion."""
        found = super().faults(now)
        for moment, _ in self._moments():
            if moment.verdict.kind > VerdictKind.SUSPECT:
                text = "; ".join([f"the primary: {moment.verdict.name}", *moment.verdict.evidence])
                found[moment.aliases] = (*found.get(moment.aliases, ()), Fault("verdict", text))
        return found

    def health(self) -> tuple[bool, dict[str, Any]]:
        """Healthy while every flow is, and no verdict is worse than a suspicion."""
        healthy, told = super().health()
        for moment, _ in self._moments():
            told["flows"].setdefault(moment.flow, {"health": "ok", "faults": []})
            told["flows"][moment.flow]["verdict"] = moment.verdict.name
        return healthy, told
