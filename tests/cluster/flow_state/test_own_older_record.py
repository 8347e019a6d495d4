"""What a process has read stays newer than what it wrote before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
import uuid

import pytest

from drkit.config import ClusterSettings, FlowSettings
from drkit.control_key import ControlKeys
from drkit.flow_state.creation import ensure_state_topic
from drkit.flow_state.records import Role, RoleRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.clients import deliver
from drkit.local.cluster import LocalCluster
from tests.support.flow_state.keys import KEYS

OLDER = RoleRecord(Role.FROZEN, 1, "older", 1)
NEWER = RoleRecord(Role.PROMOTED, 2, "newer", 2)


@pytest.fixture(params=[None, KEYS], ids=["no key", "control key"])
def settings(target: LocalCluster, request: pytest.FixtureRequest) -> ClusterSettings:
    found = ClusterSettings(alias="b", bootstrap_servers=target.bootstrap())
    keys: ControlKeys | None = request.param
    return found if keys is None else found.with_control(keys)


@pytest.fixture
def pair(settings: ClusterSettings) -> Iterator[tuple[StateTopic, StateTopic]]:
    """The state of one flow in two processes."""
    flow = FlowSettings(source=f"a{uuid.uuid4().hex[:8]}", target="b", buckets=1)
    ensure_state_topic(Cluster.connect(settings), flow)
    with StateTopic(settings, flow.source) as one, StateTopic(settings, flow.source) as other:
        yield one, other


@pytest.mark.parametrize("deletes", [False, True])
def test_a_record_that_was_read_meanwhile_stays(
    pair: tuple[StateTopic, StateTopic], monkeypatch: pytest.MonkeyPatch, *, deletes: bool
) -> None:
    """Another process writes the key right after the acknowledgement, and a thread of this one reads it."""
    one, other = pair

    def delivered(*given: Any) -> Any:
        done = deliver(*given)
        monkeypatch.setattr("drkit.kafka.reading.signed_log.deliver", deliver)
        other.put(NEWER, "orders")
        one.load()
        return done

    monkeypatch.setattr("drkit.kafka.reading.signed_log.deliver", delivered)
    if deletes:
        one.delete(RoleRecord, "orders")
    else:
        one.put(OLDER, "orders")
    one.load()
    assert one.get(RoleRecord, "orders") == NEWER
    one.put(OLDER, "orders")
    assert one.get(RoleRecord, "orders") == OLDER
    one.delete(RoleRecord, "orders")
    assert one.get(RoleRecord, "orders") is None
