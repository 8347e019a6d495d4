"""The live page in a real browser, and what the server beside it answers; the figures are made by hand."""

from __future__ import annotations

from collections.abc import Iterator
from http.client import HTTPConnection
import json
from pathlib import Path
import re
import shutil
import subprocess
from typing import Any

import pytest

from drkit.clock import wall_ms
from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.errors import Failed
from drkit.replicate.board import Board, FlowWatch
from drkit.replicate.metrics import FlowFigures
from drkit.replicate.page.server import Listen, PageServer
from drkit.replicate.progress import Progress, Totals
from drkit.replicate.status import Beat, Fault, FlowStatus, Loss, PartitionStatus, Runner, topics_of

EVIL = "orders<img src=x onerror=document.title='hacked'>"
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Job:
    """A flow that nobody runs."""

    progress: Progress | None = None

    def __init__(self, flow: FlowSettings) -> None:
        self.flow = flow


class World:
    """A board with one flow, behind a server."""

    def __init__(self) -> None:
        flow = FlowSettings(source="primary", target="standby")
        clusters = {
            a: ClusterSettings(alias=a, bootstrap_servers="127.0.0.1:1") for a in ("primary", "standby")
        }
        self.now = 1000.0
        self.failure: list[Failed] = []
        self.watch = FlowWatch(
            Settings(clusters=clusters, flows=(flow,)), Job(flow), lambda: next(iter(self.failure), None)
        )
        self.watch._began = 0.0
        self.board = Board(lambda: self.now)
        self.board.watches = [self.watch]
        self.server = PageServer(Listen("127.0.0.1", 0), self.board)
        self.show()

    def show(self, *faults: Fault, **more: Any) -> None:
        at = wall_ms()
        parts = [
            PartitionStatus(EVIL, EVIL, n, 100, 100 + n * 50, 100, n * 50, n * 5000, n * 0.4) for n in (0, 1)
        ]
        fields: dict[str, Any] = {
            "loss": Loss(50, 5000, 0.4, exact=True, source_seen_seconds=0.0),
            "heartbeat": Beat(0.7, 0.031),
            "runner": Runner("host-7", 4711, "r", 1.0, alive=True),
            "topics": topics_of(parts),
            "partitions": tuple(parts),
            "events": ({"kind": "source_gap", "topic": "orders", "partition": 3, "at_ms": at - 90_000},),
            **more,
        }
        status = FlowStatus(
            "primary->standby", "primary", "standby", at, "replicating", tuple(faults), **fields
        )
        self.watch.figures = FlowFigures(status, self.now, Totals())
        self.watch.history.extend((at - 5000 * n, n, n / 10, 0.03) for n in range(20, 0, -1))

    def get(self, path: str, method: str = "GET") -> tuple[int, str, dict[str, str]]:
        connection = HTTPConnection("127.0.0.1", self.server.port, timeout=10)
        connection.request(method, path)
        answer = connection.getresponse()
        found = answer.status, answer.read().decode(), dict(answer.getheaders())
        connection.close()
        return found

    def browse(self, folder: Path) -> str:
        """The page after two seconds, as the browser has it."""
        assert BROWSER is not None
        done = subprocess.run(
            [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=4000",
             f"--user-data-dir={folder}", "--dump-dom", f"http://127.0.0.1:{self.server.port}/"],
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        return done.stdout


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.server.close()


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_a_browser_shows_flows_curves_and_faults(world: World, tmp_path: Path):
    shown = world.browse(tmp_path / "one")
    assert 'data-flow="primary-&gt;standby" data-health="ok"' in shown
    assert "1 of 1 flows healthy" in shown
    for words in ("host-7", "records lost if the primary died now", "source_gap", "orders-3", "31 ms",
                  "no checkpoints are written"):  # fmt: skip
        assert words in shown
    curves = re.findall(r'<path d="(M[^"]+)"[^>]*class="curve"', shown)
    assert len(curves) == 3
    assert all(c.count("L") == 19 for c in curves)
    assert "orders&lt;img src=x" in shown  # a name is text, whatever stands in it
    assert "<title>drkit</title>" in shown

    lost = Loss(50, 5000, None, exact=False, source_seen_seconds=31.0)
    world.show(Fault("source_unreachable", "the source does not answer"), loss=lost, source_answers=False)
    shown = world.browse(tmp_path / "two")
    assert 'data-health="fault"' in shown
    assert "1 of 1 flows with a fault" in shown
    assert "The source was last seen 31.0 s ago" in shown
    assert "<title>drkit: fault</title>" in shown


def test_the_page_loads_nothing_from_elsewhere(world: World):
    code, text, headers = world.get("/")
    assert code == 200
    assert set(re.findall(r"https?://[^\"'\s]+", text)) == {"http://www.w3.org/2000/svg"}
    assert not re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=\"(?!data:)", text)
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "Python" not in headers["Server"]


def test_health_turns_red_for_every_reason(world: World):
    assert world.get("/healthz")[0] == 200
    world.show(Fault("heartbeat_stale", "old"))
    code, text, _ = world.get("/healthz")
    assert code == 503
    assert json.loads(text)["flows"]["primary->standby"]["faults"][0]["code"] == "heartbeat_stale"
    world.show()
    assert world.get("/healthz")[0] == 200
    world.now += 100  # nobody looked since
    assert "status_stale" in world.get("/healthz")[1]
    world.show()
    world.failure.append(Failed("the lease is lost"))
    code, text, _ = world.get("/healthz")
    assert (code, "failed" in text) == (503, True)


def test_metrics_of_the_figures(world: World):
    text = world.get("/metrics")[1]
    flow = '{source="primary",target="standby"}'
    for line in (f"drkit_rpo_records{flow} 50.0", f"drkit_heartbeat_delay_seconds{flow} 0.031",
                 f"drkit_flow_healthy{flow} 1.0", f"drkit_appends_total{flow} 0.0"):  # fmt: skip
        assert line in text
    world.show(Fault("rpo_exceeded", "x"))
    text = world.get("/metrics")[1]
    assert 'drkit_fault{fault="rpo_exceeded",source="primary",target="standby"} 1.0' in text
    assert f"drkit_flow_healthy{flow} 0.0" in text


def test_head_and_unknown_pages(world: World):
    code, text, headers = world.get("/metrics", "HEAD")
    assert (code, text) == (200, "")
    assert int(headers["Content-Length"]) > 1000
    code, text, _ = world.get("/../etc/passwd")
    assert (code, "/status.json" in text) == (404, True)
    assert world.get("/", "POST")[0] == 501


def test_a_taken_port_is_said(world: World):
    with pytest.raises(Failed) as found:
        PageServer(Listen("127.0.0.1", world.server.port), world.board)
    assert "--metrics-port" in found.value.hint
