"""Whose exports a flow takes, by its state alone."""

from __future__ import annotations

import pytest

from drkit.flow_state.records import ClustersRecord, FormerSourcesRecord
from drkit.flow_state.state import FlowState
from drkit.replay.destination import formerly


@pytest.mark.parametrize(
    ("sources", "former"),
    [
        (["one"], set()),
        (["one", "two"], {"one"}),
        (["one", "two", "three"], {"one", "two"}),
        (["one", "two", "one"], {"two"}),
        (["one", "two", "one", "two"], {"one"}),
    ],
)
def test_clusters_whose_place_another_one_took(sources: list[str], former: set[str]):
    known = None
    for source in sources[:-1]:
        known = FormerSourcesRecord.after(known, source)
    records = [ClustersRecord(sources[-1], "target"), *([known] if known is not None else [])]
    state = FlowState.of({r.key().encode(): r.encode() for r in records}, "here")
    assert formerly(state) == former


def test_a_flow_without_a_record_has_none():
    assert formerly(FlowState.of({}, "here")) == frozenset()
