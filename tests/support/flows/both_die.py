"""A replicator and a primary that die together, for `make test` (a few) and `make soak` (many)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
import random

from drkit.local.cluster import LocalCluster
from tests.support.flows.compare import read
from tests.support.flows.exactness import exact_when_alone, ids_of, places
from tests.support.flows.flow import DAY_MS, LIVE_MAX_AGE_MS, Flow
from tests.support.flows.produce import Load, fill_transactions, now_ms

PARTITIONS = 3
_OLD_MS = 3 * 365 * DAY_MS


def timestamps(mode: str) -> Callable[[int], int]:
    """New records ("live"), of three years ago ("bulk"), or new and two days old in turn ("both")."""
    begin = now_ms()
    if mode == "live":
        return lambda _: now_ms()
    if mode == "bulk":
        return lambda i: begin - _OLD_MS + i
    return lambda i: now_ms() - (2 * DAY_MS if (i // 1500) % 2 else 0)


def die_together_again_and_again(
    flow: Flow, source: LocalCluster, topic: str, mode: str, *, deaths: int, seed: int
) -> Counter[str]:
    """Kill task and primary at once under load; ask the target alone; then prove every offset.

    :returns: how many offsets were proven exact, were never copied, had no answer (by its reason)
    """
    chance = random.Random(seed)
    flow.create_both(topic, PARTITIONS, retention_ms="-1")
    ids, timestamp = ids_of(flow, topic), timestamps(mode)
    fill_transactions(flow.source, [topic], 2000, most=60, timestamp=timestamp)
    counted = Counter[str]()
    with Load(flow.source, [topic], per_second=1500, timestamp=timestamp):
        for _ in range(deaths):
            lease = flow.lease(topic, once=False, live_max_age_ms=LIVE_MAX_AGE_MS)
            task = flow.start(lease=lease)
            if chance.random() < 0.8:  # the others die before they copy, or as they begin
                flow.grown(topic, chance.randint(1, 1500), committed=mode != "bulk")
            task.ended_within(chance.uniform(0.0, 1.0))
            first, then = [task.kill, source.kill][:: chance.choice([1, -1])]
            first()
            then()
            found = places(flow, topic, source_lives=False, ids=ids)
            source.restart()
            counted += exact_when_alone(
                found,
                read(flow.source, topic),
                read(flow.target, topic),
                flow.starts(flow.source, topic),
                flow.offsets(flow.source, topic),
                topic,
            )
    return counted
