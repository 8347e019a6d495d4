"""A journal that does not answer: the error names the command that continues the run."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from drkit.errors import ClusterUnreachable
from drkit.journal import topic
from drkit.journal.entries import EntryKind, JournalEntry, parts_of
from drkit.journal.machine import FAILOVER, RETURN, Table
from drkit.journal.topic import JournalTopic
from drkit.kafka.raw import RawError
from drkit.kafka.reading import log_tail
from drkit.kafka.reading.log_tail import LogEnds, LogTail, NoAnswerYet
from drkit.kafka.requests import PartitionLeader
from drkit.wire import Record
from tests.support.wire.forge import Batch, log


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


def test_a_journal_of_any_length_is_read_as_long_as_records_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client with WRITE alone had filled it with records that take longer to read than 20 s."""
    now, pages = 0.0, 60
    entries = [JournalEntry("r", 0, "t", 1, EntryKind.RUN, None, "", 0, {"holder": {}})]
    entries += [
        JournalEntry("r", n, "t", 1, EntryKind.HOLD, None, "", 0, {"holder": {}}) for n in range(1, pages)
    ]

    async def page(_tail: LogTail, _cluster: object, _node: int, offset: int, **_: object) -> Any:
        nonlocal now
        now += 1.0
        if now % 7 == 0:
            raise NoAnswerYet("a broker was slow")
        found = [Batch(offset, (Record(offset, 1, b"r", value),)) for value in parts_of(entries[offset])]
        return SimpleNamespace(
            records=log(*found), aborted_transactions=None, last_stable_offset=pages, high_watermark=pages
        )

    async def ends(*_: object) -> Any:
        return 0, LogEnds(pages, pages)

    async def leader(*_: object) -> Any:
        return PartitionLeader(0, 0)

    async def nothing(*_: object) -> None:
        return

    for name, answer in (("_fetch", page), ("_ends", ends), ("_leader", leader)):
        monkeypatch.setattr(LogTail, name, answer)
    for module in (topic, log_tail):
        monkeypatch.setattr(module, "monotonic", lambda: now, raising=False)
    loop = SimpleNamespace(sleep=nothing)
    cluster: Any = SimpleNamespace(
        alias="standby", control=None, loop=loop, connected=nothing, cluster_id="c"
    )
    journal = JournalTopic(cluster, "primary", "standby")
    assert asyncio.run(journal.read()) == entries
    assert now > 3 * topic._SECONDS


def test_a_journal_is_read_from_the_leader_that_most_replicas_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker that led before was suspended with this process, and knows of no takeover."""
    opened = JournalEntry("r", 0, "t", 1, EntryKind.RUN, None, "", 0, {"holder": {"token": "t"}})
    taken = JournalEntry("r", 1, "u", 1, EntryKind.HOLD, None, "", 0, {"holder": {"token": "u"}})
    values = [value for entry in (opened, taken) for value in parts_of(entry)]

    async def page(_tail: LogTail, _cluster: object, node: int, offset: int, **_: object) -> Any:
        end = 1 if node == 0 else 2
        found = [Batch(n, (Record(n, 1, b"r", values[n]),)) for n in range(offset, end)]
        return SimpleNamespace(
            records=log(*found), aborted_transactions=None, last_stable_offset=end, high_watermark=end
        )

    async def ends(*_: object) -> Any:
        return 1, LogEnds(2, 2)

    async def nothing(*_: object) -> None:
        return

    monkeypatch.setattr(LogTail, "_fetch", page)
    monkeypatch.setattr(LogTail, "_ends", ends)
    cluster: Any = SimpleNamespace(alias="standby", control=None, connected=nothing, cluster_id="c")
    journal = JournalTopic(cluster, "primary", "standby")
    journal._tail._node = 0
    assert asyncio.run(journal.read()) == [opened, taken]
    assert journal.history.runs["r"].holder == {"token": "u"}
