"""What a person reads of a copy: progress and answer, with what open transactions hold back. Pure."""

from __future__ import annotations

import json

import pytest

from drkit import observe
from drkit.cli.actions import replicate
from drkit.model import TopicPartition
from drkit.replicate.flow_thread import Glance
from drkit.replicate.run import Stop
from drkit.status.lag.held_back import OpenTransaction
from drkit.status.lag.source import NOTHING_HELD, HeldBack
from drkit.status.sums import HeldPartition, held_partitions

NOW_MS = 1_800_000_000_000
ORDERS, PAYMENTS, CALM = (TopicPartition(name, 0) for name in ("orders", "payments", "calm"))


def opened(producer_id: int, age_seconds: float | None) -> OpenTransaction:
    return OpenTransaction(
        "a", "orders", 0, producer_id, 1, 2, 100, "shop", "Ongoing", 900.0, age_seconds, 52, "END IT"
    )


HELD = held_partitions(
    {CALM: NOTHING_HELD, PAYMENTS: HeldBack(3, 3), ORDERS: HeldBack(1052, 50)},
    [opened(7, 61.0), opened(8, None)],
    NOW_MS,
)
LINES = [
    "orders-0: up to 1,052 records by producer id 7 since 2027-01-15T07:58:59Z, and producer id 8",
    "payments-0: up to 3 records",
]


def test_the_largest_come_first_and_what_is_not_known_is_left_out():
    assert [each.text() for each in HELD] == LINES
    assert (HELD[0].acknowledged, HELD[1].transactions) == (50, ())


def test_a_terminal_shows_the_largest_and_the_number_of_others(capsys: pytest.CaptureFixture[str]):
    replicate._show(Glance("a->b", 12.0, 0, 5, HELD))
    assert capsys.readouterr().err.endswith(
        f"a->b  5 records copied  12 records/s  lag 0  held back {LINES[0]}, and in 1 more partitions"
    )
    replicate._show(Glance("a->b", 12.0, None, 5))
    assert capsys.readouterr().err.endswith("a->b  5 records copied  12 records/s"), (
        "no lag that is not known"
    )


def test_what_is_waited_for_is_said_instead_of_zeros(capsys: pytest.CaptureFixture[str]):
    observe.setup("json", "info")
    waiting = Glance("a->b", 0.0, None, 0, phase="starting Spark")
    replicate._show(waiting)
    assert capsys.readouterr().err.endswith("a->b  starting Spark")
    replicate._log(waiting)
    said = json.loads(capsys.readouterr().err)
    assert (said["event"], said["phase"]) == ("progress", "starting Spark")
    assert not {"lag", "records", "records_per_second"} & set(said)
    replicate._log(Glance("a->b", 2673.0, None, 26730))
    said = json.loads(capsys.readouterr().err)
    assert (said["records"], said["records_per_second"]) == (26730, 2673)
    assert "lag" not in said


def test_a_stop_says_what_it_waits_for(capsys: pytest.CaptureFixture[str]):
    observe.setup("json", "info")
    replicate._show_stop(Stop.DRAINS)
    assert capsys.readouterr().err.endswith("stopping: draining in-flight batches\n")
    replicate._log_stop(Stop.DRAINS)
    said = json.loads(capsys.readouterr().err)
    assert (said["event"], said["doing"]) == ("stopping", "draining in-flight batches")
    replicate._log_stop(Stop.BEFORE_START)
    assert json.loads(capsys.readouterr().err)["event"] == "stopped_before_start"


def test_the_log_names_the_partitions(capsys: pytest.CaptureFixture[str]):
    observe.setup("json", "info")
    many = tuple(HeldPartition("orders", number, 1, 0, ()) for number in range(23))
    for held in ((), HELD, many):
        replicate._log(Glance("a->b", 12.0, 0, 5, held))
    none, some, most = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert "held_back" not in none
    assert some["held_back"] == LINES
    assert (len(most["held_back"]), most["held_back"][-1]) == (21, "and 3 more partitions")


def test_the_answer_has_a_row_for_each_open_transaction():
    view = replicate._view([{"flow": "a->b", "records": 5, "held_back": HELD}])
    assert view["flows"] == [{"flow": "a->b", "records": 5}]
    rows = view["held back by open transactions"]
    assert [(r["topic"], r["records"], r["producer id"], r["open since"]) for r in rows] == [
        ("orders", "up to 1,052", 7, "2027-01-15T07:58:59Z"),
        ("orders", "up to 1,052", 8, None),
        ("payments", "up to 3", None, None),
    ]
    assert replicate._view([{"flow": "a->b", "held_back": ()}]) == {"flows": [{"flow": "a->b"}]}


def test_texts_of_the_answer_are_tables_of_their_own():
    """A dictionary in a column of seven letters is unreadable at 80 columns."""
    error = {"error": "it has ended", "where": "host x", "hint": "stop it", "exit_code": 3}
    flow = {
        "flow": "a->b",
        "ended": "failed",
        "left_out": {"t": "promoted"},
        "stopped_partitions": {"u-0": "x"},
    }
    view = replicate._view([flow | {"error": error}])
    assert view == {
        "flows": [{"flow": "a->b", "ended": "failed"}],
        "left out": [{"topic": "t", "why": "promoted"}],
        "stopped partitions": [{"partition": "u-0", "why": "x"}],
        "errors": [{"flow": "a->b", **error}],
    }
