"""A switchover was aborted at its source, and its target comes back: clients are not shut out again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from drkit.failover import pending_fences
from drkit.failover.pending_fences import DueFences
from drkit.journal.entries import EntryKind
from drkit.journal.machine import StepName
from drkit.local.cluster import LocalCluster
from drkit.status.faults import ABORTED_AT_SOURCE
from drkit.status.paired import PairedCollector
from tests.support.failover.switchovers import Switchovers, switchovers_between


@pytest.fixture
def stage(
    source: LocalCluster, target: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Switchovers]:
    with switchovers_between(source, target, tmp_path_factory.mktemp("journal"), 2) as found:
        yield found


@pytest.mark.wide
def test_what_the_abort_has_opened_stays_open(stage: Switchovers) -> None:
    """The target has the fence on record, and the source does not have it: the abort has lifted it."""
    stage.killed_at(StepName.OPEN, EntryKind.INTENT, "after", "settings")
    left = stage.abort(statement="its site burnt down")["next"][0]
    assert "where OPEN had begun: drkit failover --resume --accept-data-loss" in left
    assert not stage.is_closed()
    with stage.world.desk() as desk:
        assert (seen := pending_fences.due(desk)) == DueFences()
        [shown] = [t for t in pending_fences.shown(desk).topics if t.topic == stage.topic]
        assert (shown.fence, shown.takes_writes) == ("max.message.bytes", "yes: partitions 0")
        assert pending_fences.planned(desk) == []
        assert pending_fences.apply_pending(desk, seen) is None
    assert not stage.is_closed()
    refused = stage.again("abort")
    assert refused.error is not None
    assert refused.error["code"] == "point_of_no_return", "so status must not print that command"
    assert '--resume --accept-data-loss "REASON"' in _fault(stage)
    request = {"accept_data_loss": "the old primary took test records only"}
    assert stage.orchestrators.run(stage.world.plain(), "resume", request=request).error is None
    assert stage.is_closed(), "whoever continues it says why"


@pytest.mark.wide
def test_what_the_abort_has_opened_stays_open_off_the_record_too(stage: Switchovers) -> None:
    stage.killed_at(StepName.OPEN, EntryKind.INTENT, "after", "settings")
    stage.abort(statement="its site burnt down")
    with stage.world.desk() as desk:
        assert pending_fences.lift(desk, [stage.topic], "the abort has lifted it") == [stage.topic]
        assert (seen := pending_fences.due(desk)) == DueFences()
        assert pending_fences.planned(desk) == []
        assert pending_fences.apply_pending(desk, seen) is None
    assert not stage.is_closed()


def _fault(stage: Switchovers) -> str:
    settings = stage.world.settings
    with closing(PairedCollector(settings, settings.flows[0], groups=False)) as collector:
        [text] = [f.text for f in collector.look().faults if f.code == ABORTED_AT_SOURCE]
    return text
