"""A journal that does not answer: the error names the command that continues the run."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from drkit.errors import ClusterUnreachable
from drkit.journal import topic
from drkit.journal.entries import EntryKind, JournalEntry
from drkit.journal.machine import FAILOVER, RETURN, Table
from drkit.journal.topic import JournalTopic
from drkit.kafka.raw import RawError


@pytest.mark.parametrize("table", [FAILOVER, RETURN], ids=lambda table: table.name)
def test_the_hint_resumes_the_run_that_is_under_way(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent(*_: object) -> None:
        raise RawError("no broker was ready in time")

    monkeypatch.setattr(topic, "_SECONDS", 0.01)
    cluster: Any = SimpleNamespace(
        alias="standby", control=None, loop=asyncio, connected=silent, signatures=lambda _topic: None
    )
    journal = JournalTopic(cluster, "primary", "standby")
    body = {"holder": {"token": "t"}, "table": table.name}
    journal.history.take(JournalEntry("run", 0, "t", 1, EntryKind.RUN, None, "", 0, body))
    with pytest.raises(ClusterUnreachable) as error:
        asyncio.run(journal.read())
    assert f"then: {table.command} --resume" in error.value.hint
