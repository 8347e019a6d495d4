"""What ``drkit failover`` shows before it asks. No broker."""

from __future__ import annotations

import pytest

from drkit.cli.screens.failover import show_proposal
from drkit.detect.reasons import FailoverFacts
from drkit.detect.risk import Risk
from drkit.failover.checks.out_of_scope import OutOfScope
from drkit.failover.checks.scope import Chosen
from drkit.failover.checks.survey import ClusterIdentity, Survey
from drkit.failover.core.context import Scope
from drkit.failover.proposal import Proposal

SEEN = Survey(
    at_ms=1, source=ClusterIdentity("a", "1", "1"), target=ClusterIdentity("b", "2", "2"), source_error="",
    partitions=(), positions={}, positions_from="source", positions_age_seconds=0.0, target_groups={},
    facts=FailoverFacts(Risk(0.0, 0, exact=True, basis="exact"), 30.0), replicator=None, promoted=(),
    outside=OutOfScope(), reach=(),
)  # fmt: skip


@pytest.mark.parametrize(("groups", "said"), [(("g-shop", "g-both"), "g-shop, g-both"), ((), "none")])
def test_a_proposal_has_no_empty_line(
    groups: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = Chosen(Scope({"orders": "b.orders"}, groups, whole_flow=False), groups, ("orders",), (), ())
    show_proposal(Proposal("a->b", chosen, SEEN, "b->a"))
    rows = dict(line.rstrip().split(maxsplit=1) for line in capsys.readouterr().err.splitlines()[:3])
    assert rows["groups"] == said


@pytest.mark.parametrize("flow_back", [None, "b->a"])
def test_a_missing_flow_back_is_one_line(flow_back: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = Chosen(Scope({"orders": "orders"}, (), whole_flow=True), (), ("orders",), (), ())
    show_proposal(Proposal("a->b", chosen, SEEN, flow_back))
    warnings = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning")]
    expected = (
        "warning   no flow back is configured: b stays unprotected until you add"
        ' [[flows]] source = "b", target = "a" and restart drkit replicate'
    )
    assert warnings == ([expected] if flow_back is None else [])
