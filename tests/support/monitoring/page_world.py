"""A board with invented figures, served by the live page's server."""

from __future__ import annotations

from http.client import HTTPConnection
import threading
from typing import Any

from drkit.clock import wall_ms
from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.errors import Failed
from drkit.monitoring.board import Board, FlowWatch
from drkit.monitoring.metrics import FlowFigures
from drkit.monitoring.page.server import Listen, PageServer
from drkit.status.model import Fault, FlowStatus, HeartbeatStatus, Loss, PartitionStatus, Runner
from drkit.status.progress import Progress, Totals
from drkit.status.sums import topics_of

EVIL = "orders<img src=x onerror=document.title='hacked'>"


class Job:
    """A flow that is not running."""

    progress: Progress | None = None

    def __init__(self, flow: FlowSettings) -> None:
        self.flow = flow


class World:
    """A board with one flow, and its server."""

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

    def close(self) -> None:
        """Stop the server, without the wait: twice a second it looks whether it is to stop."""
        threading.Thread(target=self.server.close, daemon=True).start()

    def show(self, *faults: Fault, **more: Any) -> None:
        at = wall_ms()
        parts = [
            PartitionStatus(EVIL, EVIL, n, 100, 100 + n * 50, 100, n * 50, n * 5000, n * 0.4) for n in (0, 1)
        ]
        fields: dict[str, Any] = {
            "loss": Loss(50, 5000, 0.4, exact=True, source_seen_seconds=0.0),
            "heartbeat": HeartbeatStatus(0.7, 0.031),
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

    def get(self, path: str, method: str = "GET", **headers: str) -> tuple[int, str, dict[str, str]]:
        connection = HTTPConnection("127.0.0.1", self.server.port, timeout=10)
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        found = answer.status, answer.read().decode(), dict(answer.getheaders())
        connection.close()
        return found
