"""Which earlier promotion by the opposite flow ends together with one that is forgotten."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from drkit.config import FlowSettings
from drkit.failover import forgetting
from drkit.failover.loss.findings import CopyFate
from drkit.flow_state.records import GenerationRecord, Role, RoleRecord, UnreplayedRecord
from drkit.flow_state.state import FlowState
from drkit.kafka.requests import TopicMetadata

OVER = forgetting.OverTopic("orders", "orders", CopyFate.RECREATED)
FLOW, BACK = (FlowSettings(source=a, target=b, naming="identity") for a, b in (("p", "s"), ("s", "p")))
KNOWN = GenerationRecord("orders", UUID(int=1), UUID(int=2))
PROMOTED = RoleRecord(Role.PROMOTED, 1, "run", 5)
LEFT = UnreplayedRecord("run", 1, 3, "/manifest", "hash", "replay")


def there(number: int) -> TopicMetadata:
    """A broker's answer of the topic with this id."""
    return TopicMetadata(0, UUID(int=number), {})


@pytest.mark.parametrize(
    ("role", "known", "left", "answers", "ends"),
    [
        (PROMOTED, KNOWN, None, [], True),
        (PROMOTED, KNOWN, None, [there(9)], True),
        (PROMOTED, KNOWN, None, [TopicMetadata(3, UUID(int=0), {})], True),
        (PROMOTED, None, None, [], True),
        (PROMOTED, KNOWN, None, [there(9), there(1)], False),
        (PROMOTED, GenerationRecord("other", UUID(int=1), UUID(int=2)), None, [], False),
        (PROMOTED, KNOWN, LEFT, [], False),
        (RoleRecord(Role.FROZEN, 1, "run", 5), KNOWN, None, [], False),
        (None, KNOWN, None, [], False),
    ],
    ids=["gone", "made anew", "no such topic", "of a process that died", "a broker has it as it was",
         "a copy of another name", "a replay is left", "not promoted", "never promoted"],
)  # fmt: skip
def test_only_one_that_has_nothing_to_come_home_to(
    monkeypatch: pytest.MonkeyPatch,
    role: RoleRecord | None,
    known: GenerationRecord | None,
    left: UnreplayedRecord | None,
    answers: list[TopicMetadata],
    *,
    ends: bool,
) -> None:
    state = FlowState()
    for record, name in ((role, "orders"), (known, "orders"), (left, "orders/run")):
        if record is not None:
            state.take(record.key(name).encode(), record.encode())

    def records_of(_settings: Any, flow: FlowSettings) -> FlowState:
        assert flow is BACK
        return state

    monkeypatch.setattr(forgetting, "records_of", records_of)
    context: Any = SimpleNamespace(settings=SimpleNamespace(flows=(FLOW, BACK)), flow=FLOW)
    found = forgetting._promoted_before(context, [OVER], {"orders": answers})
    assert found == ({"orders": BACK.name} if ends else {})
    alone: Any = SimpleNamespace(settings=SimpleNamespace(flows=(FLOW,)), flow=FLOW)
    assert forgetting._promoted_before(alone, [OVER], {"orders": answers}) == {}
