"""A target that lost its tail, and whose log has grown since: by others, or by the markers of transactions.

After an unclean election brokers write abort markers for transactions that were open, before anyone looks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import pytest

from drkit.copy_task.target import resolver
from drkit.flow_state.names import bulk_transactional_id
from drkit.kafka.codes import REQUEST_TIMED_OUT
from drkit.kafka.raw import RawCluster
from drkit.kafka.transactions import Marker, write_markers
from drkit.model import TopicPartition
from tests.support.exactness.fixtures import Pair
from tests.support.exactness.history import BAD
from tests.support.exactness.truth import Truth
from tests.support.flows.compare import FOREIGN
from tests.support.flows.flow import DAY_MS, Flow
from tests.support.flows.kept_folder import KeptFolder
from tests.support.flows.produce import aged, fill, producer, put, wait_for_markers

SOURCE = None
LOST = 400


def a_few_records(flow: Flow, topic: str) -> None:
    foreign_records(flow, topic, 5)


def as_many_as_were_lost(flow: Flow, topic: str) -> None:
    foreign_records(flow, topic, LOST)


def more_than_were_lost(flow: Flow, topic: str) -> None:
    foreign_records(flow, topic, LOST + 50)


def foreign_records(flow: Flow, topic: str, count: int) -> None:
    out = producer(flow.target)
    for i in range(count):
        put(out, topic, b"x%d" % i, FOREIGN + b"%d" % i)
    assert out.flush(30) == 0


def markers(flow: Flow, topic: str) -> None:
    for i in range(3):
        out = producer(flow.target, transactional_id=f"{topic}-{i}")
        out.init_transactions(30)
        out.begin_transaction()
        put(out, topic, b"x", FOREIGN)
        out.flush(30)
        out.abort_transaction(30)
        wait_for_markers(flow.target, f"{topic}-{i}")


def lost_answers(monkeypatch: pytest.MonkeyPatch, topics: Collection[str]) -> None:
    """Some markers are written, and their writer hears of it only when it looks at the log again."""
    heard: set[TopicPartition] = set()

    async def once(
        cluster: RawCluster, node: int, markers: Iterable[Marker]
    ) -> Mapping[tuple[int, TopicPartition], int]:
        codes = dict(await write_markers(cluster, node, markers))
        for who, at in codes:
            if at.topic in topics and at not in heard:
                heard.add(at)
                codes[who, at] = REQUEST_TIMED_OUT
        return codes

    monkeypatch.setattr(resolver, "write_markers", once)


GROWN: dict[str, Callable[[Flow, str], None]] = {
    "few": a_few_records,
    "markers": markers,
    "as-many": as_many_as_were_lost,
    "more": more_than_were_lost,
    "no-answer": a_few_records,
}


@pytest.mark.wide
def test_what_has_grown_since_is_not_taken_for_the_lost_records(
    flow: Flow, pair: Pair, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor where the answer to the fence is lost."""
    ages = {"live": 0, "bulk": 2 * DAY_MS}
    topics = {f"{topic_name}-{how}-{mode}": (how, age) for how in GROWN for mode, age in ages.items()}
    truths = {t: Truth(flow, flow.create_both(t, retention_ms="-1")) for t in topics}
    broker = pair.target.broker(0)
    folders = KeptFolder(broker, *(f"{t}-0" for t in topics))
    written(flow, topics, 0, 300)
    broker.terminate()
    folders.keep()
    pair.target.restart()
    written(flow, topics, 300, LOST)
    for bucket in range(flow.settings.buckets):  # what is lost here was copied: its markers are in the map
        wait_for_markers(flow.target, bulk_transactional_id(flow.source.alias, flow.target.alias, bucket))
    broker.kill()
    folders.put_back()
    pair.target.restart()
    for topic, (how, _) in topics.items():
        GROWN[how](flow, topic)
    lost_answers(monkeypatch, [t for t, (how, _) in topics.items() if how == "no-answer"])
    written(flow, topics, 300 + LOST, 300, once=False, seconds=15)
    found: dict[str, Counter[str]] = {
        "-".join(t.rsplit("-", 2)[1:]): truth.verdict() for t, truth in truths.items()
    }
    bad = {name: dict(count) for name, count in found.items() if any(count[b] for b in BAD)}
    assert not bad, f"{bad}; events: {flow.events()}"
    named = {e["topic"] for e in flow.events("target_truncated")}
    assert named == set(topics), "each loss is named"


def written(flow: Flow, topics: dict[str, tuple[str, int]], first: int, count: int, **more: Any) -> None:
    for topic, (_, age) in topics.items():
        fill(flow.source, topic, count, first=first, timestamp=aged(age))
    flow.copy(*topics, **more)
