"""The plan of a topic that has partitions on the old primary alone: they refuse, nothing empties them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from drkit.failover.core.request import Method
from drkit.failover.loss.findings import DivergenceState, PartitionDivergence
from drkit.failover.returning import return_plan
from drkit.failover.returning.compare import NeedsMethod
from drkit.flow_state.records import RoleRecord
from drkit.model import TopicPartition
from drkit.status.lag.source import Ends


@pytest.mark.parametrize("diverged", [0, 1])
def test_a_partition_that_the_new_primary_lacks_is_not_emptied(
    monkeypatch: pytest.MonkeyPatch, diverged: int
) -> None:
    more = PartitionDivergence("t", 2, DivergenceState.MORE, 0, 4, records=4)
    tail = PartitionDivergence("t", 1, DivergenceState.DIVERGED, 5, 9, records=4)
    wrong = [NeedsMethod(x, "") for x in (more, *[tail] * diverged)]
    monkeypatch.setattr(return_plan, "cuts_of", lambda _: {})
    monkeypatch.setattr(return_plan, "left_notes", lambda *_: [])
    methods = {u.at.partition: Method.REBUILD for u in wrong}
    roles = {RoleRecord: {"t": SimpleNamespace(at_ms=1, planned=False)}}
    context: Any = SimpleNamespace(
        scope=SimpleNamespace(topics={"t": "t"}), state=SimpleNamespace(all=roles.__getitem__)
    )
    ends = {TopicPartition("t", p): Ends(0, 9) for p in (0, 1)}
    topic = return_plan._of(context, "t", ends, wrong, "", lost=None, methods=methods)
    assert topic.emptied == diverged
    assert bool(topic.gives_up) is bool(diverged)
    assert {k: n for k, n in topic.found.items() if n} == {
        kind: n for kind, n in (("clean", 2 - diverged), ("diverged", diverged), ("more", 1)) if n
    }
    assert topic.only_old == 4 + 4 * diverged
