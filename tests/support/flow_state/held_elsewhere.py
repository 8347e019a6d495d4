"""A flow's lease that another process holds."""

from __future__ import annotations

import time

from drkit.flow_state.records import LeaseRecord
from drkit.flow_state.topic import StateTopic
from tests.support.stored import put as put_record

TTL = 5.0


def elsewhere(state: StateTopic, run_id: str = "theirs") -> dict[str, object]:
    """A lease record as another host would have written it just now."""
    record = {
        "run_id": run_id,
        "host": "another-host",
        "pid": 1,
        "space": "elsewhere",
        "born": 1,
        "renewed_ms": time.time_ns() // 1_000_000,
        "ttl_ms": int(TTL * 1000),
    }
    put_record(state, LeaseRecord.KEY, record)
    return record
