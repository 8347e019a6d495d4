"""A topic of drkit's own that exists: settings that lose nothing are set, others are refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from drkit.errors import Failed, NotAuthorized
from drkit.kafka import topics
from drkit.kafka.requests import TopicMetadata
from drkit.kafka.topics import ConfigValue, ensure_own_topic

WANTED = {
    "cleanup.policy": "compact", "delete.retention.ms": "100", "message.timestamp.type": "LogAppendTime",
    "segment.ms": "600",
}  # fmt: skip
OURS = WANTED
DEFAULTS = {**WANTED, "delete.retention.ms": "1", "message.timestamp.type": "CreateTime", "segment.ms": "7"}
DELETING = {**DEFAULTS, "cleanup.policy": "delete"}
EARLIER = {**WANTED, "message.timestamp.type": "CreateTime"}
SET = {"delete.retention.ms": "100", "message.timestamp.type": "LogAppendTime"}


@pytest.mark.parametrize(
    ("existing", "may_alter", "altered", "hint"),
    [
        (OURS, True, None, None),
        (DEFAULTS, True, SET, None),
        (DEFAULTS, False, SET, "delete.retention.ms=100,message.timestamp.type=LogAppendTime,segment.ms=600"),
        (DELETING, True, SET, "cleanup.policy=compact,segment.ms=600"),
        (EARLIER, False, {"message.timestamp.type": "LogAppendTime"}, None),
        (None, False, None, None),
    ],
    ids=["drkit's", "others'", "others', no right", "deletes records", "earlier version", "not described"],
)
def test_settings_of_an_existing_topic(
    monkeypatch: pytest.MonkeyPatch,
    existing: Mapping[str, str] | None,
    may_alter: bool,  # noqa: FBT001  a parameter of the table
    altered: Mapping[str, str] | None,
    hint: str | None,
) -> None:
    changes: list[Any] = []

    def alter(_cluster: object, change: Any) -> dict[str, Any]:
        changes.append(change["t"])
        return {} if may_alter else {"t": NotAuthorized("own_topic_unwritable", where="t")}

    def configs(*_: object) -> dict[str, dict[str, ConfigValue]]:
        if existing is None:
            raise NotAuthorized("own_topic_unreadable", where="t")
        return {"t": {name: ConfigValue(value, "") for name, value in existing.items()}}

    found = TopicMetadata(0, UUID(int=1), {}, "t")
    monkeypatch.setattr(topics, "describe_topics", lambda *_: {"t": found})
    monkeypatch.setattr(topics, "topic_configs", configs)
    monkeypatch.setattr(topics, "alter_topic_configs", alter)
    cluster: Any = SimpleNamespace(alias="b")
    if hint is None:
        assert ensure_own_topic(cluster, "t", WANTED) == found
    else:
        with pytest.raises(Failed) as refused:
            ensure_own_topic(cluster, "t", WANTED)
        assert f"set {hint} on t" in str(refused.value.hint)
    assert changes == ([] if altered is None else [altered])
