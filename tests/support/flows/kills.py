"""The story of a copier that is killed at random moments, for `make test` (a few) and `make soak` (many)."""

from __future__ import annotations

import random

from drkit.copy_task.core.assignment import TaskAssignment
from tests.support.flows.compare import check_copy
from tests.support.flows.flow import DAY_MS, LIVE_MAX_AGE_MS, Flow
from tests.support.flows.produce import Load, fill, now_ms

_OLD_MS = 3 * 365 * DAY_MS


def until_equal(flow: Flow, topic: str, *, uncommitted: bool = True) -> None:
    """Copy the rest here, and compare."""
    flow.copy(topic)
    check_copy(flow, topic, uncommitted=uncommitted)


def kill_again_and_again(flow: Flow, topic: str, mode: str, *, kills: int, seed: int) -> None:
    """Copy under load while the task is killed; every fourth time a second one runs beside it.

    :param mode: "live" (new records), "bulk" (of three years ago) or "both" (the border of two days
        ago is crossed again and again)
    """
    chance = random.Random(seed)
    flow.create_both(topic, 3, retention_ms="-1")
    begin = now_ms()

    def timestamp(i: int) -> int:
        if mode == "live":
            return now_ms()
        if mode == "bulk":
            return begin - _OLD_MS + i
        return now_ms() - (2 * DAY_MS if (i // 3000) % 2 else 0)

    fill(flow.source, topic, 30_000, timestamp=timestamp, compression_type="lz4")
    with Load(flow.source, [topic], per_second=5000, timestamp=timestamp):
        done = 0
        while done < kills:
            lease = flow.lease(topic, once=False, live_max_age_ms=LIVE_MAX_AGE_MS)
            done += _one_life(flow, lease, chance, twice=done % 4 == 3)
    until_equal(flow, topic, uncommitted=mode == "live")


def _one_life(flow: Flow, lease: TaskAssignment, chance: random.Random, *, twice: bool) -> int:
    task = flow.start(lease=lease)
    rival = flow.start(lease=lease) if twice else None
    # A task needs some time until it copies: some are killed before, most in the middle.
    killed = task.kill_after(chance.uniform(0.0, 1.5))
    if rival is None:
        assert killed
        return 1
    # In bulk mode the one that came second has fenced the other, which then ends by itself.
    assert killed or task.report()["ended"] == "fenced"
    if not rival.kill_after(chance.uniform(0.0, 1.0)):
        assert rival.report()["ended"] == "fenced"
    return 2
