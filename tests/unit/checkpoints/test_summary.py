"""The record of a checkpoint round: drkit reads whatever it writes, and a round without an answer is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st
from kafka import errors
import pytest

from drkit.checkpoints.group_ledger import GroupLedger, RoundTotals, summary
from drkit.checkpoints.other_groups import OtherGroup
from drkit.checkpoints.shard import ShardReport
from drkit.flow_state.records import CheckpointsRecord
from drkit.kafka.codes import COORDINATOR_NOT_AVAILABLE, GROUP_AUTHORIZATION_FAILED
from drkit.kafka.groups.asking import NO_ANSWER, TOO_LATE
from drkit.observe import MOST_GROUPS
from drkit.offsets.group_guard import GuardVerdict

NOW = 1_763_826_448_123
BEFORE = CheckpointsRecord(NOW - 5000, ok_ms=NOW - 5000)
CODES = sorted({e.errno for e in vars(errors).values() if isinstance(getattr(e, "errno", None), int)} - {0})
"""All that a broker or kafka-python may answer."""

names = st.sampled_from(["billing", "cash", "shop", "g-\u00fc"])
counts = st.integers(0, 10**6)


def round_of(reports: Sequence[ShardReport]) -> CheckpointsRecord:
    ledger = GroupLedger()
    for report in reports:
        ledger.take(report, 0.0)
    return summary(reports, NOW, BEFORE, ledger)


def read_groups(unread: Mapping[str, int]) -> ShardReport:
    """A report of a shard in which every group was asked for."""
    return ShardReport(0, 1, 2, positions_of={"billing": 0, "shop": 2}, unread=dict(unread), synced=True)


@st.composite
def shard_reports(draw: st.DrawFn) -> ShardReport:
    groups = draw(st.dictionaries(names, counts, max_size=4))
    verdicts = st.dictionaries(st.sampled_from([v.name for v in GuardVerdict]), counts, max_size=3)
    line = st.tuples(names, st.just("orders-0"), st.sampled_from([v.name for v in GuardVerdict]), st.text())
    return ShardReport(
        draw(st.integers(0, 3)),
        1,
        len(groups),
        emitted=draw(counts),
        synced=draw(st.booleans()),
        positions_of=groups,
        verdicts_of={g: draw(verdicts) for g in groups},
        refused=draw(st.lists(line, max_size=3)),
        unread=draw(st.dictionaries(names, st.sampled_from([NO_ANSWER, TOO_LATE, *CODES]), max_size=4)),
        started_ms=draw(st.integers(0, NOW)),
        seconds=draw(st.floats(0, 1e6)),
        error=draw(st.just("") | st.text()),
    )


@given(st.lists(shard_reports(), max_size=3), st.lists(st.builds(OtherGroup, names, names), max_size=2))
def test_whatever_a_round_writes_is_read_again(reports: list[ShardReport], others: list[OtherGroup]):
    ledger = GroupLedger()
    for report in reports:
        ledger.take(report, 0.0)
    record = summary(reports, NOW, BEFORE, ledger, 0.5, others)
    assert CheckpointsRecord.decode(record.encode()) == record


@pytest.mark.parametrize("code", [NO_ANSWER, COORDINATOR_NOT_AVAILABLE])
def test_a_round_without_an_answer_about_a_group_did_not_end_well(code: int):
    """The primary died in the middle of the round: its record said that all was well at that moment."""
    record = round_of([read_groups({"billing": code})])
    assert (record.at_ms, record.ok_ms) == (NOW, BEFORE.ok_ms)
    assert record.error.startswith("the source did not return the offsets of 1 group (billing): ")
    assert record.unread == {"billing": code}


def test_a_refused_group_does_not_make_the_others_old():
    record = round_of([read_groups({"billing": GROUP_AUTHORIZATION_FAILED})])
    assert (record.ok_ms, record.error) == (NOW, "")
    assert record.unread == {"billing": GROUP_AUTHORIZATION_FAILED}
    whole = round_of([read_groups({})])
    assert (whole.ok_ms, whole.error, whole.unread) == (NOW, "", {})


def test_a_new_group_has_its_latency_after_more_groups_than_are_shown_came_and_went() -> None:
    totals = RoundTotals()
    for number in range(MOST_GROUPS + 10):
        groups = {"stays", f"g{number}"}
        totals.take([ShardReport(0, 1, 2, emitted_groups=sorted(groups), latency_ms=5)], groups)
        assert set(totals.latency_ms) == groups
