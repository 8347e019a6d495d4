"""Records that a topic would not keep are named before they are appended to it."""

from __future__ import annotations

from uuid import UUID

import pytest

from drkit.flow_state.records import HeldSettingsRecord, Role, RoleRecord
from drkit.kafka.requests import TopicMetadata
from drkit.kafka.topics import ConfigValue
from drkit.model import TopicPartition
from drkit.replay.compare import Origin, TailCounts
from drkit.replay.destination import Destination, Promoted
from drkit.replay.plan import PartitionPlan, ReplayPlan
from drkit.replay.tail import Export, Tail

DAY_MS = 86_400_000
NOW = 30 * DAY_MS
FOREVER = {"retention.ms": "-1", "retention.bytes": "-1"}


def _planned(partition: int, oldest_ms: int | None, retention_ms: int | None) -> PartitionPlan:
    at = TopicPartition("orders", partition)
    tail = Tail(Origin("c", at, "r"), UUID(int=1), 0, 3, 3, lambda _: iter(()), 1)
    to = Destination(at, UUID(int=2), retention_ms=retention_ms)
    return PartitionPlan(tail, to, 0, b"", TailCounts(oldest_ms=oldest_ms), {})


@pytest.mark.parametrize(
    ("oldest_ms", "retention_ms", "named"),
    [
        (NOW - 8 * DAY_MS, 7 * DAY_MS, True),
        (NOW - 6 * DAY_MS, 7 * DAY_MS, False),
        (NOW - 8 * DAY_MS, None, False),
        (None, 7 * DAY_MS, False),
        (-1, 7 * DAY_MS, False),
    ],
)
def test_what_is_older_than_the_topic_keeps_is_named(
    oldest_ms: int | None, retention_ms: int | None, *, named: bool
) -> None:
    export = Export("r", "0" * 64, "c", "p->s", ())
    parts = (_planned(0, NOW, retention_ms), _planned(1, oldest_ms, retention_ms))
    found = ReplayPlan(export, None, to_quarantine=False, partitions=parts).expiring(NOW)
    assert len(found) == named
    assert not named or "orders keeps records for 604,800,000 ms by retention.ms" in found[0]


@pytest.mark.parametrize(
    ("own", "before", "kept"),
    [
        ({"retention.ms": "1000"}, None, 1000),
        ({"retention.ms": "-1"}, None, None),
        ({"retention.ms": "1000", "cleanup.policy": "compact"}, None, None),
        ({"retention.ms": "1000", "cleanup.policy": "compact,delete"}, None, 1000),
        (FOREVER, {"retention.ms": "1000", "retention.bytes": None}, 1000),
        (FOREVER, {"retention.ms": None, "retention.bytes": None}, None),
    ],
)
def test_a_hold_is_put_back_one_day(
    own: dict[str, str], before: dict[str, str | None] | None, kept: int | None
) -> None:
    configs = {n: ConfigValue(v, "DYNAMIC_TOPIC_CONFIG") for n, v in own.items()}
    held = None if before is None else HeldSettingsRecord(1, "a person", before, FOREVER)
    role = RoleRecord(Role.PROMOTED, 1, "f", 1)
    assert Promoted(TopicMetadata(0, UUID(int=2), {}, "orders"), role, configs, held).retention_ms == kept
