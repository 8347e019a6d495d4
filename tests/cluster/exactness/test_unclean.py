"""An unclean election on either side: only what it destroyed on the source is gone, and an event names it."""

from __future__ import annotations

import pytest

from tests.support.exactness.recorded_load import KINDS
from tests.support.exactness.schedule import Step
from tests.support.exactness.unclean import PLAIN, THREE, UncleanWalker
from tests.support.flows.fixtures import FlowFactory
from tests.support.shared_clusters import ModuleClusters

STEPS = {
    "source": Step("unclean, killed after a claim", 0.7, 0.7, 0.4),
    "target": Step("unclean", 0.7, 0.7, 0.4),
}


@pytest.mark.soak
@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.timeout(600)
def test_an_unclean_election(
    module_cluster: ModuleClusters, flow_factory: FlowFactory, topic_name: str, side: str
) -> None:
    """Under load: the source's while a claim was not appended yet, the target's while a task lives."""
    three, one = module_cluster.ready({"three": {"brokers": 3, "properties": THREE}, "one": {}})
    source, target = (three, one) if side == "source" else (one, three)
    flow = flow_factory(source, target, role="PROBE", bulk_commit_seconds=0.3)
    kinds = PLAIN if side == "source" else KINDS
    on_source = side == "source"
    walker = UncleanWalker(flow, source, target, topic_name[-8:], on_source=on_source, seed=1, kinds=kinds)
    counted = walker.walk([STEPS[side]])
    assert counted["records"] > 500
