"""Metrics of checkpoint rounds and consumer groups; MirrorMaker 2's name for the delay of checkpoints too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from drkit.checkpoints.group_ledger import RoundTotals
from drkit.observe import MOST_GROUPS, OTHERS
from drkit.status.groups import GroupsSeen, GroupStatus, total

_FLOW: Final = ("source", "target")
_GROUP: Final = (*_FLOW, "group")
MM2_CHECKPOINT: Final = "kafka_connect_mirror_mirrorcheckpointconnector_checkpoint_latency_ms"
_SPREADS: Final = (("", "mean"), ("_min", "least"), ("_max", "most"), ("_avg", "mean"))
_LATENCY: Final = "From reading a group's offsets until its checkpoint was durable"

GROUP_ROWS: Final = (
    ("drkit_checkpoint_age_seconds", "gauge", _FLOW, "Since a round of checkpoints ended well."),
    ("drkit_checkpoint_round_seconds", "gauge", _FLOW, "How long the newest round took."),
    ("drkit_checkpoint_rounds_total", "counter", _FLOW, "Rounds of checkpoints."),
    ("drkit_checkpoint_rounds_failed_total", "counter", _FLOW, "Rounds that broke off for some groups."),
    ("drkit_groups", "gauge", (*_FLOW, "state"), "Groups that are ready, waiting, or not_ready."),
    ("drkit_group_ready", "gauge", _GROUP, "1: the group could move to the target now."),
    ("drkit_group_repeats", "gauge", _GROUP, "Offsets the group would reprocess."),
    ("drkit_group_left", "gauge", _GROUP, "Offsets the group would still have to read."),
    ("drkit_group_positions", "gauge", (*_FLOW, "verdict"), "Positions by what the newest round did."),
    ("drkit_group_writes_refused_total", "counter", (*_FLOW, "reason"), "Positions not written, per round."),
    *((MM2_CHECKPOINT + suffix, "gauge", _GROUP, f"{_LATENCY}: {which}, ms.") for suffix, which in _SPREADS),
)  # fmt: skip
Sample = tuple[str, tuple[str, ...], float | None]
STATES: Final = ("ready", "waiting", "not_ready")


def group_samples(
    flow: tuple[str, str], seen: GroupsSeen | None, totals: RoundTotals | None
) -> Iterator[Sample]:
    """Every value for one flow.

    :param totals: None where this process runs no rounds
    """
    if seen is not None:
        yield from _of_groups(flow, seen)
    if totals is not None:
        yield "drkit_checkpoint_rounds_total", flow, totals.rounds
        yield "drkit_checkpoint_rounds_failed_total", flow, totals.failed
        for reason, count in totals.refused.items():
            yield "drkit_group_writes_refused_total", (*flow, reason.lower()), count
        for group, spread in list(totals.latency_ms.items()):
            labels = (*flow, group)
            yield MM2_CHECKPOINT, labels, spread.mean
            yield MM2_CHECKPOINT + "_avg", labels, spread.mean
            yield MM2_CHECKPOINT + "_min", labels, spread.least
            yield MM2_CHECKPOINT + "_max", labels, spread.most


def _of_groups(flow: tuple[str, str], seen: GroupsSeen) -> Iterator[Sample]:
    yield "drkit_checkpoint_age_seconds", flow, seen.rounds.age_seconds
    yield "drkit_checkpoint_round_seconds", flow, seen.rounds.seconds
    for verdict, count in seen.rounds.verdicts.items():
        yield "drkit_group_positions", (*flow, verdict.lower()), count
    if seen.error:
        return  # the number of ready groups is unknown: no figure is better than an old one
    states = Counter(dict.fromkeys(STATES, 0))
    states.update(_state(g) for g in seen.groups)
    for state, count in states.items():
        yield "drkit_groups", (*flow, state), count
    single, rest = seen.groups[:MOST_GROUPS], seen.groups[MOST_GROUPS:]
    for group in single:
        yield from _one((*flow, group.group), [group])
    if rest:
        yield from _one((*flow, OTHERS), list(rest))


def _state(group: GroupStatus) -> str:
    return "ready" if group.ready else "not_ready" if group.faulty else "waiting"


def _one(labels: tuple[str, ...], groups: list[GroupStatus]) -> Iterator[Sample]:
    yield "drkit_group_ready", labels, all(g.ready for g in groups)
    yield "drkit_group_repeats", labels, total(g.repeats for g in groups)
    yield "drkit_group_left", labels, total(g.left for g in groups)
