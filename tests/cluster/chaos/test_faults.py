"""A fault that is not in force is refused, on a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from drkit.chaos.faults import FAULTS
from drkit.errors import Failed
from drkit.exercise.events import PRIMARY
from drkit.local.cluster import LocalCluster
from drkit.local.link import Link
from drkit.local.spec import ClusterSpec
from tests.support.errors import coded


@pytest.fixture(scope="module")
def stage() -> Iterator[Any]:
    """A stage with a primary whose operator has a link."""
    with LocalCluster(
        ClusterSpec(PRIMARY, listeners=("CLIENT", "OPERATOR"), linked=("OPERATOR",))
    ) as cluster:
        yield SimpleNamespace(
            clusters={PRIMARY: cluster}, client=dict, WHERE="chaos",
            bootstrap=lambda _cluster, role: cluster.bootstrap(role),
        )  # fmt: skip


@pytest.mark.parametrize("share", [0, 0.5])
@pytest.mark.parametrize("delay_ms", [5, 50])
def test_a_link_that_is_not_slow_each_way_is_refused(
    stage: Any, share: float, delay_ms: float, monkeypatch: pytest.MonkeyPatch
):
    slow = Link.slow
    monkeypatch.setattr(Link, "slow", lambda link, *, delay_ms=0.0: slow(link, delay_ms=delay_ms * share))
    apply, target, _ = FAULTS["slow operator"]
    with pytest.raises(Failed, check=coded("link_not_slow")):
        next(iter(apply(stage, target, delay_ms=delay_ms)))
    stage.clusters[PRIMARY].link("OPERATOR").restore()


@pytest.mark.parametrize("delay_ms", [5, 50])
def test_a_slow_link_is_measured(stage: Any, delay_ms: float):
    apply, target, _ = FAULTS["slow operator"]
    fault = iter(apply(stage, target, delay_ms=delay_ms))
    assert f"delayed by {delay_ms} ms each way" in next(fault)
    next(fault, None)
    assert stage.clusters[PRIMARY].link("OPERATOR").delay_ms == 0
