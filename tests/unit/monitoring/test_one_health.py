"""The health check, the metrics, the page and ``drkit status --json`` say the same of one flow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from http.client import HTTPConnection
import json
import re
from typing import Any, NamedTuple

import pytest

from drkit.cli.screens.status import UNKNOWN, Shown, as_data, short, view
from drkit.clock import wall_ms
from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.monitoring.board import Board, FlowWatch
from drkit.monitoring.metrics import FlowFigures
from drkit.monitoring.page.server import Listen, PageServer
from drkit.status.faults import with_pair
from drkit.status.model import Fault, FlowStatus, HeartbeatStatus, Loss, PartitionStatus, Runner
from drkit.status.pair.model import AlarmReason, DeltaBound, PairAlarm, PairState, PairStatus, PairTopic
from drkit.status.progress import Progress, Totals
from drkit.status.sums import topics_of

PARTS = (PartitionStatus("orders", "orders", 0, 100, 150, 100, 50, 5000, 0.4, segments=3),)
KNOWN = Loss(50, 5000, 0.4, exact=True, source_seen_seconds=0.0)
NOTHING = Loss(None, None, None, exact=False, source_seen_seconds=None)
RUNNER = Runner("host-7", 4711, "r", 1.0, alive=True)
LATE = Fault("heartbeat_stale", "the newest heartbeat is 40.0 s old, more than 10 s")
AWAY = Fault("target_unreachable", "no answer: nothing listens")
PENDING = Fault("fence_owed", "the source was never fenced")


def status(role: str, *faults: Fault, **more: Any) -> FlowStatus:
    fields: dict[str, Any] = {
        "loss": KNOWN, "heartbeat": HeartbeatStatus(0.7, 0.031), "runner": RUNNER,
        "topics": topics_of(list(PARTS)), "partitions": PARTS, **more,
    }  # fmt: skip
    return FlowStatus("a->b", "a", "b", wall_ms(), role, tuple(faults), **fields)


NOT_SEEN: dict[str, Any] = {
    "loss": NOTHING, "heartbeat": None, "runner": None, "topics": (), "partitions": (),
    "target_answers": False,
}  # fmt: skip
OVER = PairTopic(
    "orders", "orders", PairState.UNPROTECTED, "b->a", "b", "no flow b->a is configured", 1000, 5, 0.1,
    (AlarmReason(PairAlarm.BOTH_OPEN, "a is not fenced since the failover"),),
    DeltaBound(9_000_000_000_000, "retention.ms", 0.6),
)  # fmt: skip
PAIR = PairStatus(("a", "b"), (OVER,))
GONE = Fault("source_unreachable", "no answer: nothing listens")
NO_SOURCE: dict[str, Any] = {
    "source_answers": False, "heartbeat": HeartbeatStatus(4.1, 0.031), "partitions": (), "topics": (),
    "loss": Loss(0, 0, 0.0, exact=False, source_seen_seconds=10.3),
}  # fmt: skip
"""At the last answer of the source everything was copied."""
STATES = {
    "ok": status("replicating"),
    "fault": status("replicating", LATE),
    "target away": status("unknown", AWAY, **NOT_SEEN),
    "after a failover": status("promoted", PENDING, promoted_topics=("orders",)),
    "source away": status("replicating", GONE, **NO_SOURCE),
    "pair": with_pair(status("promoted", PENDING, promoted_topics=("orders",)), PAIR),
}


class Told(NamedTuple):
    """What one of them says: whether the flow is well, the codes of its faults, and the records at risk."""

    well: bool
    codes: frozenset[str]
    records: float | None


class Job:
    """A flow that another process runs."""

    progress: Progress | None = None

    def __init__(self, flow: FlowSettings) -> None:
        self.flow = flow


class World:
    """A board with one flow, and its server."""

    def __init__(self) -> None:
        flow = FlowSettings(source="a", target="b")
        clusters = {x: ClusterSettings(alias=x, bootstrap_servers="127.0.0.1:1") for x in ("a", "b")}
        self.watch = FlowWatch(Settings(clusters=clusters, flows=(flow,)), Job(flow))
        self.watch._began = 0.0
        self.board = Board(lambda: 1000.0)
        self.board.watches = [self.watch]
        self.server = PageServer(Listen("127.0.0.1", 0), self.board)

    def get(self, path: str) -> tuple[int, str]:
        connection = HTTPConnection("127.0.0.1", self.server.port, timeout=10)
        connection.request("GET", path)
        answer = connection.getresponse()
        found = answer.status, answer.read().decode()
        connection.close()
        return found


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.server.close()


def of_flow(told: dict[str, Any]) -> Told:
    loss = told.get("loss")
    records = None if loss is None else loss["records"]
    return Told(told["health"] == "ok", frozenset(f["code"] for f in told["faults"]), records)


def of_metrics(text: str) -> Told:
    found = dict(re.findall(r"^(drkit_[a-z_]+\{[^}]*\}) (\S+)$", text, re.MULTILINE))
    records = found.get('drkit_rpo_records{source="a",target="b"}')
    codes = re.findall(r'drkit_fault\{fault="([^"]+)"', text)
    well = float(found['drkit_flow_healthy{source="a",target="b"}']) == 1.0
    return Told(well, frozenset(codes), None if records is None else float(records))


@pytest.mark.parametrize("state", STATES)
def test_all_four_agree(world: World, state: str) -> None:
    now = STATES[state]
    world.watch.figures = FlowFigures(now, 1000.0, Totals())
    code, text = world.get("/healthz")
    checked = json.loads(text)["flows"]["a->b"]
    command = of_flow(as_data([now], Shown())["flows"][0])
    page = of_flow(json.loads(world.get("/status.json")[1])["flows"][0])
    metrics = of_metrics(world.get("/metrics")[1])
    assert page == command == metrics
    assert of_flow(checked)._replace(records=command.records) == command
    assert (code == 200) is command.well


def test_command_page_and_metrics_say_the_same_of_a_pair(world: World) -> None:
    now = STATES["pair"]
    world.watch.figures = FlowFigures(now, 1000.0, Totals())
    command = as_data([now], Shown())["flows"][0]["pair"]
    page = json.loads(world.get("/status.json")[1])["flows"][0]["pair"]
    metrics = world.get("/metrics")[1]
    assert command.pop("topics")[0]["why"] == "no flow b->a is configured"
    assert page == json.loads(json.dumps(command))
    assert (page["state"], page["alarms"]) == ("unprotected", ["both_open"])
    assert [line.split(" since")[0] for line in page["lines"]] == [
        "BOTH OPEN 1 topic (orders): a is not fenced", "UNPROTECTED",
    ]  # fmt: skip
    flow = 'source="a",target="b"'
    for line in (
        f'drkit_pair_topics{{{flow[:10]},state="unprotected",{flow[11:]}}} 1.0',
        f'drkit_pair_topics{{{flow[:10]},state="protected",{flow[11:]}}} 0.0',
        f'drkit_pair_alarm_topics{{fault="both_open",{flow}}} 1.0',
        f"drkit_delta_used_ratio{{{flow}}} 0.6",
    ):
        assert line in metrics
    codes = {"both_open", "fence_owed", "unprotected", "delta_ends"}
    assert set(re.findall(r'drkit_fault\{fault="([^"]+)"', metrics)) == codes


def test_figures_of_a_dead_primary_are_as_old_as_they_say(world: World) -> None:
    """For 105 s after a kill the heartbeat stayed 4.1 s old, the loss 0, and the dead source no fault."""
    seen = STATES["source away"]
    copied = replace(seen, copied_ms=seen.at_ms - 10_300)
    world.watch.figures = FlowFigures(copied, 900.0, Totals())
    code, text = world.get("/healthz")
    checked = json.loads(text)["flows"]["a->b"]
    assert (code, checked["age_seconds"]) == (503, 100.0)
    assert [f["code"] for f in checked["faults"]] == ["status_stale", "source_unreachable"]
    metrics = world.get("/metrics")[1]
    flow = '{source="a",target="b"}'
    for name, value in (
        ("status_age", 100.0), ("heartbeat_age", 104.1), ("source_seen_age", 110.3), ("rpo", 110.3),
    ):  # fmt: skip
        assert f"drkit_{name}_seconds{flow} {value}" in metrics
    assert f"drkit_rpo_records{flow}" not in metrics, "none was counted while the primary was dead"
    page = json.loads(world.get("/status.json")[1])["flows"][0]
    assert (page["age_seconds"], page["heartbeat"]["age_seconds"]) == (100.0, 104.1)
    assert (page["loss"]["records"], page["loss"]["source_seen_seconds"]) == (None, 110.3)
    assert short(copied).split("loss ")[1].startswith("unknown (last counted 10 s ago)")


def test_what_is_not_known_of_a_silent_target_is_unknown() -> None:
    shown = view(STATES["target away"])
    names = (
        "run_by",
        "heartbeat",
        "replication delay",
        "map segments",
        "loss if the primary died now",
        "groups",
    )
    assert {name: shown[name] for name in names} == dict.fromkeys(names, UNKNOWN)
    assert STATES["target away"].as_dict()["map_segments"] is None


def test_after_a_failover_nothing_is_said_of_a_loss() -> None:
    now = STATES["after a failover"]
    assert "loss if the primary died now" not in view(now)
    assert now.as_dict()["loss"] is None
    assert "loss" not in short(now)


def test_one_line_has_role_health_lag_loss_and_faults() -> None:
    assert short(STATES["ok"]) == (
        "a->b  replicating  ok  lag 50 records  loss 50 records, 4.9 KiB, the oldest 0.4 s old"
    )
    assert short(STATES["fault"]).endswith("faults heartbeat_stale")
    assert short(STATES["target away"]) == (
        "a->b  unknown  fault  lag unknown  loss unknown  faults target_unreachable"
    )
    told = as_data([STATES["fault"]], Shown(short=True))["flows"][0]
    assert set(told) == {"flow", "role", "health", "faults", "loss"}
