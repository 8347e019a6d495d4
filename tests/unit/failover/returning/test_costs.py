"""What each method sends, and the sentences of the plan about it. No clusters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drkit.cli.screens.outlook import next_of, rate_note, row_of, show_outlook, whole_until
from drkit.config import FlowSettings
from drkit.failover.core.request import Method
from drkit.failover.new_primary.costs import (
    ESTIMATE_BYTES_PER_SECOND,
    CopyRate,
    MethodCost,
    PartitionSize,
    chosen_cost,
    costs_of,
)
from drkit.failover.returning.return_plan import Outlook, TopicOutlook
from drkit.status.pair.model import DeltaBound

MIB = 1 << 20
RATE = CopyRate(2 * MIB, "a->b", 1_700_000_000_000)
SIZES = {0: PartitionSize(100 * MIB, 10 * MIB), 1: PartitionSize(40 * MIB, 0)}
FLOW = FlowSettings(source="a", target="b", topics=(".*",))
HOUR = 3_600_000
TOPIC = TopicOutlook(
    "orders", RATE.measured_ms or 0, planned=False, partitions=2, delta=30, whole=300,
    costs=costs_of(SIZES.values(), RATE), unknown="a does not answer",
    bound=DeltaBound((RATE.measured_ms or 0) + HOUR, "retention.ms", 0.1),
)  # fmt: skip


def test_each_method_has_its_bytes_and_its_seconds():
    assert costs_of(SIZES.values(), RATE) == {
        "delta": MethodCost(10 * MIB, 5.0),
        "rebuild": MethodCost(140 * MIB, 70.0),
        "trim": MethodCost(10 * MIB, 5.0),
        "keep": MethodCost(10 * MIB, 5.0),
    }


def test_what_is_chosen_counts_partition_by_partition():
    assert chosen_cost(SIZES, {1: Method.REBUILD}, RATE) == MethodCost(50 * MIB, 25.0)
    assert chosen_cost(SIZES, {0: Method.TRIM, 1: Method.TRIM}, RATE) == MethodCost(10 * MIB, 5.0)
    assert chosen_cost(SIZES, {}, RATE) == MethodCost(10 * MIB, 5.0)


def test_a_size_that_is_unknown_makes_no_number():
    some = {**SIZES, 2: PartitionSize(None, None)}
    assert set(costs_of(some.values(), RATE).values()) == {MethodCost(None, None)}
    assert chosen_cost(some, {}, RATE) == MethodCost(None, None)


def test_it_is_said_where_the_seconds_come_from():
    assert (
        rate_note(RATE)
        == "seconds by 2.0 MiB/s, which a->b has copied at 2023-11-14T22:13:20Z, in its fastest epoch"
    )
    estimate = CopyRate(ESTIMATE_BYTES_PER_SECOND)
    assert rate_note(estimate).startswith("seconds are an estimate, by 10.0 MiB/s: no epoch of this pair")
    assert estimate.to_json()["is_estimate"]
    assert not RATE.to_json()["is_estimate"]


def test_a_plan_while_the_old_primary_is_away(capsys: pytest.CaptureFixture[str]):
    row = row_of(TOPIC)
    assert (row["delta"], row["whole"], row["copies"]) == (
        "30 (10.0 MiB, 5 s)",
        "300 (140.0 MiB, 1 min)",
        "unknown",
    )
    assert row["delta whole until"] == "2023-11-14T23:13:20Z"
    assert next_of(Outlook([TOPIC], RATE), FLOW) == [
        "when a answers, and can be read: drkit reprotect --flow 'a->b' --plan",
        "to keep the delta whole until a has it: drkit reprotect --flow 'a->b' --hold",
    ]
    show_outlook(Outlook([TOPIC], RATE), FLOW)
    assert "the delta is whole until 2023-11-14T23:13:20Z (orders: retention.ms)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("bound", "said"),
    [
        (DeltaBound(), "not limited"),
        (DeltaBound(held_ms=1), "held"),
        (DeltaBound(unknown="no answer"), "unknown"),
        (None, "unknown"),
        (DeltaBound(None, "retention.bytes", 0.5, 0.5), "by size: 50% used"),
        (DeltaBound(0, "retention.ms", 1.0), "since 1970-01-01T00:00:00Z perhaps not"),
    ],
)
def test_until_when_the_delta_is_whole(bound: DeltaBound | None, said: str):
    assert row_of(replace(TOPIC, bound=bound))["delta whole until"] == said


def test_the_first_that_ends_is_named():
    early = replace(TOPIC, topic="audit", bound=DeltaBound(0, "delete.retention.ms", 1.0))
    [line] = whole_until([TOPIC, early])
    assert line == "the delta may not be whole since 1970-01-01T00:00:00Z (audit: delete.retention.ms)"
