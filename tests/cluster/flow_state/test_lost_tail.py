"""One of drkit's topics lost its tail, which a process had read."""

from __future__ import annotations

from contextlib import closing
import uuid

import pytest

from drkit.config import ClusterSettings
from drkit.kafka.reading.signed_log import SignedLog
from drkit.wire import Record
from tests.support.exactness.unclean import THREE, Elections
from tests.support.flow_state.keys import KEYS
from tests.support.flows.fixtures import FlowFactory
from tests.support.shared_clusters import ModuleClusters


class Values(dict[bytes, bytes | None]):
    """The newest values of a log."""

    def take(self, record: Record, why: str) -> None:
        assert not why
        assert record.key is not None
        self[record.key] = record.value


def write(settings: ClusterSettings, topic: str, **values: bytes) -> None:
    """Write as another process of drkit."""
    with closing(SignedLog(settings, topic, lambda _record, _why: None)) as log:
        log.append(*((key.encode(), value) for key, value in values.items()))


@pytest.mark.wide
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "since",
    [{"e": b"5"}, {"e": b"5", "f": b"6"}, {"e": b"5", "f": b"6", "g": b"7"}],
    ids=["fewer", "as many", "more"],
)
def test_what_was_written_since_the_tail_was_lost_is_read(
    module_cluster: ModuleClusters, flow_factory: FlowFactory, since: dict[str, bytes]
):
    """An unclean election: the reader was beyond the records that the new leader has."""
    three, one = module_cluster.ready({"three": {"brokers": 3, "properties": THREE}, "one": {}})
    flow = flow_factory(one, three, role="PROBE", control=KEYS)
    settings, name = flow.target, f"drkit-state.x{uuid.uuid4().hex[:8]}.internal"
    elections = Elections(flow, settings, three)
    elections.create(name, 1, {"cleanup.policy": "compact"})
    values = Values()
    with closing(SignedLog(settings, name, values.take, on_restart=values.clear)) as log:
        write(settings, name, a=b"1", b=b"2")
        log.read()
        elections.leave_alone()
        write(settings, name, c=b"3", d=b"4")
        log.read()
        assert values.keys() == {b"a", b"b", b"c", b"d"}
        elections.elect()
        write(settings, name, **since)
        log.read()
        elections.heal()
        assert values.keys() == {b"a", b"b", *(key.encode() for key in since)}
