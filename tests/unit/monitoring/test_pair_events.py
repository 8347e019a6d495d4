"""A change of a pair is reported once."""

from __future__ import annotations

from dataclasses import replace
import json

import pytest

from drkit import observe
from drkit.monitoring.board import PairEvents
from drkit.pair.view import FenceSeen
from drkit.status.model import FlowStatus, Loss
from drkit.status.pair.judge import judge
from drkit.status.pair.model import PairStatus
from tests.support.status.pair_facts import OVER, RPO, TOPIC, back, direction

FENCED = judge(OVER, back(), RPO)
BEFORE = judge(direction(), back(), RPO)
OPEN = judge(replace(OVER, fences={TOPIC: FenceSeen.PENDING}), back(), RPO)


def told(capsys: pytest.CaptureFixture[str], *pairs: PairStatus | None) -> list[tuple[str, str, list[str]]]:
    observe.setup("json", "info")
    events, loss = PairEvents(), Loss(0, 0, 0.0, exact=True, source_seen_seconds=0.0)
    for pair in pairs:
        events.see(FlowStatus("p->s", "p", "s", 0, "promoted", (), loss, None, None, pair=pair))
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines() if line.startswith("{")]
    return [
        (x["was"], x["state"], x["alarms"]) for x in lines if x.get("event", x.get("kind")) == "pair_changed"
    ]


def test_each_change_once(capsys: pytest.CaptureFixture[str]):
    assert told(capsys, BEFORE, BEFORE, FENCED, FENCED, OPEN, BEFORE) == [
        ("protected", "unprotected", []),
        ("unprotected", "unprotected", ["both_open"]),
        ("unprotected", "protected", []),
    ]


def test_at_the_start_only_what_is_wrong(capsys: pytest.CaptureFixture[str]):
    assert told(capsys, None, BEFORE) == []
    assert told(capsys, OPEN) == [("", "unprotected", ["both_open"])]
