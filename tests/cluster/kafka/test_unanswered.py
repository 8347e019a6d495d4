"""A request that a frozen broker does not answer, where handlers also catch other errors of drkit."""

from __future__ import annotations

from collections.abc import Iterator
import threading
from typing import Any

import pytest
from structlog.testing import capture_logs

from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.detect.awake import AwakeClock
from drkit.detect.probes import Prober
from drkit.detect.seen import Address, ProbeOutcome, Sight
from drkit.detect.verdict import AutoFacts
from drkit.errors import ClusterUnreachable, DrkitError
from drkit.failover.interpreter import request_errors
from drkit.failover.loss.log_cursor import LogSide
from drkit.failover.watches import HoldWatch, ReturnWatch
from drkit.kafka.admin import Cluster
from drkit.kafka.raw import EventLoop, RawCluster, RawError
from drkit.kafka.reading.record_cursor import Unreadable
from drkit.kafka.requests import metadata
from drkit.kafka.topics import TopicPlan, create_topics
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from drkit.watch import automatic
from drkit.watch.automatic import AGAIN_SECONDS, AutoFailover, PendingFences
from tests.support.errors import coded
from tests.support.shared_clusters import ModuleClusters
from tests.support.watch.moments import moment

TIMED_OUT = "imed out after"
"""Of a request by its own timer, or by that of the caller: the first to run."""
AT = TopicPartition("orders", 0)
FENCED = AutoFacts(agents_armed=("dc1",), agents_fenced=("dc1",))
PAIR = Settings.model_validate({
    "clusters": {"p": {"bootstrap_servers": "p:9092"}, "s": {"bootstrap_servers": "s:9092"}},
    "flows": [{"source": a, "target": b, "topics": [".*"]} for a, b in ("ps", "sp")],
})  # fmt: skip


class Silent(RawCluster):
    """Connections to a frozen broker, whose requests wait for a moment only."""

    async def send(self, request: Any, node_id: int | None = None, *, timeout_ms: int = 300) -> Any:
        return await super().send(request, node_id, timeout_ms=min(timeout_ms, 300))

    def ask(self) -> None:
        self.loop.run(metadata, self, [])


@pytest.fixture
def broker(module_cluster: ModuleClusters) -> Iterator[LocalCluster]:
    cluster = module_cluster("silent")
    yield cluster
    cluster.resume()


@pytest.fixture
def settings(broker: LocalCluster) -> ClusterSettings:
    return ClusterSettings(alias="p", bootstrap_servers=broker.bootstrap())


@pytest.fixture
def silent(broker: LocalCluster, settings: ClusterSettings) -> Iterator[Silent]:
    loop = EventLoop()
    cluster = Silent(loop, settings, "tests")
    loop.run(cluster.connect)
    loop.run(metadata, cluster, [])
    broker.freeze()
    yield cluster
    cluster.close()
    loop.close()


def test_it_is_one_of_drkits_errors_with_the_librarys_as_evidence(silent: Silent) -> None:
    with pytest.raises(RawError, check=coded("cluster_stopped_answering")) as caught:
        silent.ask()
    assert isinstance(caught.value, ClusterUnreachable)
    assert caught.value.where == "p"
    assert TIMED_OUT in caught.value.evidence


def test_a_killed_broker_raises_the_same(broker: LocalCluster, silent: Silent) -> None:
    broker.resume()
    broker.stop(keep_logs=True)
    try:
        with pytest.raises(RawError, check=coded("cluster_stopped_answering")) as caught:
            silent.ask()
    finally:
        broker.start()
    assert caught.value.where == "p"


def test_outside_a_run_it_becomes_an_error_that_a_watch_reports(silent: Silent) -> None:
    with pytest.raises(ClusterUnreachable) as caught, request_errors():
        silent.ask()
    assert not isinstance(caught.value, RawError)
    assert (caught.value.where, caught.value.code) == ("p", "cluster_stopped_answering")


@pytest.mark.parametrize("kind", [HoldWatch, ReturnWatch])
@pytest.mark.parametrize("is_raw", [True, False], ids=["raw", "reported"])
def test_a_watch_leaves_a_silent_request_to_the_copy_and_reports_other_errors(
    silent: Silent, kind: type[HoldWatch | ReturnWatch], *, is_raw: bool
) -> None:
    stop, looks = threading.Event(), []

    class Watch(kind):  # type: ignore[misc, valid-type]
        pause_seconds = again_seconds = 0.01

        def look(self) -> Any:
            looks.append(1)
            if len(looks) == 2:
                stop.set()
            if is_raw:
                silent.ask()
            with request_errors():
                silent.ask()

    with capture_logs() as logs:
        Watch(PAIR, *PAIR.flows).run(stop)
    assert len(looks) == 2, "the watch continues"
    assert bool(logs) is not is_raw, logs


def test_a_pending_fence_is_reported_and_tried_again(silent: Silent) -> None:
    def pay() -> bool:
        silent.ask()
        return True

    fences = PendingFences(FlowSettings(source="p", target="s"), pay)
    with capture_logs() as logs:
        for now in (0.0, AGAIN_SECONDS / 2, AGAIN_SECONDS):
            fences.see(moment(Sight.CLEAR), now, owed=True)
            fences.wait()
    assert [e["event"] for e in logs] == 2 * ["fence_not_paid"]
    assert TIMED_OUT in logs[0]["evidence"]
    assert fences.paid == 0


def test_an_automatic_failover_is_reported_as_stopped(
    silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(automatic, "claim", lambda *_: "")

    def act(_: Any) -> str:
        silent.ask()
        return "done"

    failover = AutoFailover(PAIR, PAIR.flows[0], act)
    with capture_logs() as logs:
        failover.see(moment(Sight.GONE, phi=20.0, gone_for=9.0, beat_silence=9.0, auto=FENCED), 0.0)
        failover.wait()
    (stopped,) = (e for e in logs if e["event"] == "automatic_failover_stopped")
    assert "drkit failover --resume or --abort" in stopped["hint"]
    assert TIMED_OUT in failover.outcome
    assert not failover.is_acting


def test_a_probe_calls_the_broker_silent_and_not_closed_to_drkit(
    silent: Silent, settings: ClusterSettings
) -> None:
    prober = Prober(
        Address("own", settings.bootstrap_servers), settings, PAIR.detection, AwakeClock(), lambda: None,
        lambda *_: None,
    )  # fmt: skip
    prober._raw = silent
    outcome, evidence, met = prober._deeper(silent.loop)
    assert (outcome, met) == (ProbeOutcome.SILENT, None)
    assert evidence.startswith("ApiVersions is answered, then: ")
    assert TIMED_OUT in evidence


@pytest.mark.parametrize("is_old", [True, False], ids=["old-primary", "new-primary"])
def test_a_comparison_ends_without_the_old_primary_and_reads_the_rest_without_a_leader_of_the_new_one(
    broker: LocalCluster, silent: Silent, settings: ClusterSettings, *, is_old: bool
) -> None:
    broker.resume()
    create_topics(Cluster.connect(settings), [TopicPlan(AT.topic, 1)])
    topics = silent.loop.run(metadata, silent, [AT.topic])
    broker.freeze()
    fetch = LogSide(silent, topics, is_old=is_old).fetch(AT)
    with pytest.raises(DrkitError) as caught:
        silent.loop.run(fetch, 0, 1000)
    assert isinstance(caught.value, RawError if is_old else Unreadable)
