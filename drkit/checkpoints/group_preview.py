"""Which groups of some flows are not synchronised, and why. Needs no Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drkit.checkpoints.other_groups import other_groups
from drkit.checkpoints.summary import wants_checkpoints
from drkit.config import FlowSettings, Settings
from drkit.kafka.groups.requests import listed_groups
from drkit.topic_sync.preview import as_admin


def group_plan(settings: Settings, flows: Sequence[FlowSettings]) -> list[dict[str, Any]]:
    """One row for each group that a flow's filter accepts and that is not a consumer group.

    :raises DrkitError: a source does not answer
    """
    rows: list[dict[str, Any]] = []
    for flow in filter(wants_checkpoints, flows):
        listed = listed_groups(as_admin(settings, [flow])[flow.source])
        rows += [
            {"flow": flow.name, "topic": "", "what": "leave out group", "setting": o.group,
             "from": None, "to": None, "why": o.reason}
            for o in other_groups(listed, flow.group_filter.accepts)
        ]  # fmt: skip
    return rows
