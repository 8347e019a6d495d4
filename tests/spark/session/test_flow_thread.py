"""How the thread of a flow ends after an unforeseen error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
import threading

from py4j.protocol import Py4JNetworkError
import pytest
from structlog.testing import capture_logs

from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.errors import ConfigError
from drkit.replicate import run as run_module
from drkit.replicate.flow_thread import FlowThread
from drkit.replicate.job import FlowJob
from drkit.replicate.run import RunOptions, replicate
from drkit.spark.session import SharedSpark
from drkit.topic_sync.rules import FROZEN, PROMOTED, FlowPromoted
from tests.support.errors import made

CLUSTERS = tuple(ClusterSettings(alias=a, bootstrap_servers="h:1") for a in ("a", "b"))
SECRET = "known-to-nobody-7f3a"


class Broken(FlowJob):
    """A job that ends as told; it never gets as far as a cluster, or Spark."""

    def __init__(self, error: Exception, *, asked_to_stop: bool) -> None:
        flow = FlowSettings(source="a", target="b", emit_heartbeats=False)
        super().__init__((CLUSTERS[0], CLUSTERS[1]), flow, None, "run")  # type: ignore[arg-type]
        self._error, self._asked = error, asked_to_stop

    def run(self, stop: threading.Event) -> None:
        if self._asked:
            stop.set()
        raise self._error


def ended(error: Exception, *, asked_to_stop: bool) -> FlowThread:
    run = FlowThread(Broken(error, asked_to_stop=asked_to_stop), threading.Event(), once=False)
    run.thread.start()
    run.thread.join(10)
    assert not run.thread.is_alive()
    return run


def test_an_error_in_drkit_is_a_failure_and_no_traceback(capfd: pytest.CaptureFixture[str]):
    for asked_to_stop in (False, True):
        with capture_logs() as events:
            run = ended(KeyError(f"password={SECRET}"), asked_to_stop=asked_to_stop)
        assert run.exit_code == 1
        result = run.result()
        assert result["ended"] == "failed"
        assert "test_flow_thread.py" in result["error"]["evidence"]
        assert result["error"]["hint"]
        assert "gives_up" in events[-1]
        assert SECRET not in f"{result}{events}"
        assert "Traceback" not in capfd.readouterr().err


def test_sparks_process_that_ends_with_drkits_is_no_failure():
    """When systemd stops a service, all its processes get the signal at once."""
    for error in (Py4JNetworkError("gone"), ConnectionRefusedError(111, "refused")):
        run = ended(error, asked_to_stop=True)
        assert (run.exit_code, run.result()["ended"]) == (0, "stopped")
        assert ended(error, asked_to_stop=False).exit_code == 1


@pytest.mark.parametrize("error", [made(ConfigError, "no Java"), OSError(28, "No space left on device")])
def test_flows_give_their_leases_back_where_spark_does_not_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception
):
    ended = []

    def start(*_: object, begin: Callable[[Sequence[FlowSettings], SharedSpark], None], run_id: str) -> None:
        assert run_id
        begin(settings.flows, SharedSpark(tmp_path))
        raise error

    def runs(_: FlowJob, stop: threading.Event) -> None:
        ended.append(stop.wait(10))

    monkeypatch.setattr(run_module, "_start", start)
    monkeypatch.setattr(FlowJob, "run", runs)
    flow = FlowSettings(source="a", target="b", emit_heartbeats=False)
    settings = Settings(clusters={c.alias: c for c in CLUSTERS}, flows=(flow,))
    with pytest.raises(type(error)):
        replicate(settings, settings.flows, RunOptions(), threading.Event())
    assert ended == [True]


def test_what_a_failover_held_is_promoted_once_it_took_all_of_the_flow():
    """The last look was before OPEN: at the end the topics are not called frozen any more."""
    job = Broken(made(FlowPromoted, "b was promoted"), asked_to_stop=False)
    why = "source_deleted: no longer listed on the source"
    job.found.left_out = {"orders": FROZEN, "gone": why}
    run = FlowThread(job, threading.Event(), once=False)
    run.thread.start()
    run.thread.join(10)
    assert run.result()["left_out"] == {"orders": PROMOTED, "gone": why}
