"""The screens of `drkit status --watch`, and the status as data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
import sys
from typing import Any, Final, NamedTuple

from drkit.cli.render import emit, emit_line
from drkit.cli.session import session
from drkit.cli.talk import clear_screen
from drkit.counted import counted, size_text
from drkit.status.groups import GroupPartition, GroupsSeen, GroupStatus, worst_first
from drkit.status.lag.held_back import OpenTransaction, held_by
from drkit.status.model import FlowStatus, HeartbeatStatus, Loss, PartitionStatus, Runner, TopicStatus
from drkit.status.pair.text import PairLine, pair_lines
from drkit.status.runners import StandbyStatus

SHOWN: Final = 20
"""Maximum number of groups with a line; those that need a person come first."""
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_SOME_MINUTES, _SOME_HOURS, _SOME_DAYS = 2 * _MINUTE, 2 * _HOUR, 2 * _DAY


def group_lines(status: FlowStatus, *, chosen: tuple[str, ...] = (), every: bool = False) -> dict[str, Any]:
    """The part of the status about groups: a sentence, and a table of groups or of partitions.

    :param chosen: only these, with each of their partitions
    :param every: all groups instead of the first :data:`SHOWN`
    """
    seen = status.groups
    if seen is None:
        return {"groups": "unknown" if not status.target_answers else "not looked after, or not yet"}
    shown: dict[str, Any] = {"groups": summary(seen)}
    groups = worst_first(seen.groups)
    if chosen:
        groups = [g for g in groups if g.group in chosen]
    listed = groups if every or chosen else groups[:SHOWN]
    if listed:
        shown["positions"] = [_group(g, seen) for g in listed]
    if hidden := groups[len(listed) :]:
        ready = sum(g.ready for g in hidden)
        shown["not shown"] = f"{len(hidden):,} groups more, {ready:,} of them ready: --all-groups, or --json"
    if chosen and listed:
        shown["partitions"] = [_group_partition(g, p, seen.at_ms) for g in listed for p in g.partitions]
    if others := [o for o in seen.others if not chosen or o.group in chosen]:
        named = others if every else others[:SHOWN]
        shown["not synchronised"] = [{"group": o.group, "why": o.reason} for o in named]
    return shown


def summary(seen: GroupsSeen) -> str:
    """Number of ready groups, and the age of that figure, in one sentence."""
    if seen.error:
        return f"unknown: {seen.error}"
    text = f"{seen.ready:,} of {len(seen.groups):,} ready" if seen.groups else "none has a committed offset"
    text += f"; last checkpoints {ago(seen.rounds.age_seconds)}"
    if seen.rounds.source_gone_seconds:
        text += f", the source was seen last {ago(seen.rounds.source_gone_seconds)}"
    if seen.others_total:
        text += f"; {counted(seen.others_total, 'other group')} not synchronised"
    if seen.unreadable:
        text += f"; {seen.unreadable:,} records of the checkpoint topic are not checkpoints"
    return text


def ago(seconds: float | None) -> str:
    """A time in the past, in the unit that fits."""
    if seconds is None:
        return "never"
    if seconds < _SOME_MINUTES:
        return f"{seconds:.0f} s ago"
    if seconds < _SOME_HOURS:
        return f"{seconds / _MINUTE:.0f} min ago"
    return f"{seconds / _HOUR:.0f} h ago" if seconds < _SOME_DAYS else f"{seconds / _DAY:.0f} d ago"


def _group(g: GroupStatus, seen: GroupsSeen) -> dict[str, Any]:
    return {
        "group": g.group,
        "state": g.state or "–",
        "protocol": g.protocol or "–",
        "ready": f"{g.ready_partitions}/{len(g.wanted)}",
        "will reprocess": _number(g.repeats),
        "remaining": _number(g.left),
        "checkpoint": ago(seen.rounds.age_seconds),
        "why not": g.reason,
    }


def _group_partition(g: GroupStatus, p: GroupPartition, now_ms: int) -> dict[str, Any]:
    return {
        "group": g.group,
        "topic": p.topic,
        "partition": p.partition,
        "committed": _number(p.committed),
        "position": _number(p.position),
        "stored": _number(p.stored),
        "will reprocess": _number(p.repeats),
        "remaining": _number(p.left),
        "written": ago(None if p.written_ms is None else max(0, now_ms - p.written_ms) / 1000),
        "": p.state.value,
        "why not": p.reason,
    }


def _number(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"


_SHOWN_OPEN: Final = 20


class Shown(NamedTuple):
    """The parts of the status to show."""

    partitions: bool = False
    """Each partition, not only sums by topic."""
    groups: tuple[str, ...] = ()
    """Only these groups, with each of their partitions."""
    every_group: bool = False
    short: bool = False
    """One line for each flow."""


_USUAL: Final = Shown()
UNKNOWN: Final = "unknown"


def view(status: FlowStatus, parts: Shown = _USUAL) -> dict[str, Any]:
    """Name → text, in the order of display."""
    holds = any(p.held_back.records for p in status.partitions)
    rows = (
        [_partition(p, holds=holds) for p in status.partitions]
        if parts.partitions
        else [_topic(t, holds=holds) for t in status.topics]
    )
    known = status.target_answers
    shown: dict[str, Any] = {
        "role": status.role,
        "health": status.health,
        "faults": [{"fault": f.code, "": f.text} for f in status.faults],
        "run_by": _runner(status.runner) if known else UNKNOWN,
        "standbys": [_standby(s, status.at_ms) for s in status.standbys],
        "fence pending": _owed(status),
        "left out": _left_out(status),
        "loss if the primary died now": _loss(status),
        "replication delay": _delay(status.heartbeat) if known else UNKNOWN,
        "heartbeat": _beat(status.heartbeat) if known else UNKNOWN,
        "map segments": status.map_segments if known else UNKNOWN,
        "topics": rows,
        "open transactions": [_open(t) for t in status.open_transactions[:_SHOWN_OPEN]],
        **group_lines(status, chosen=parts.groups, every=parts.every_group),
        "events": [_event(e, status.at_ms) for e in status.events],
    }
    if status.promoted_topics:
        shown["promoted"] = list(status.promoted_topics)
    return {k: v for k, v in shown.items() if v not in ([], (), None)}


def short(status: FlowStatus) -> str:
    """The flow in one line: role, health, lag, the loss of a failover, and the codes of its faults."""
    lags = [t.records for t in status.topics]
    known = status.target_answers and None not in lags
    lag = counted(sum(n or 0 for n in lags), "record") if known else UNKNOWN
    loss = _loss(status)
    parts = [status.flow, status.role, status.health, f"lag {lag}", *([f"loss {loss}"] if loss else [])]
    parts += ["faults " + ", ".join(f.code for f in status.faults)] if status.faults else []
    return "  ".join(parts)


def _loss(status: FlowStatus) -> str | None:
    if (loss := status.loss_now) is None:
        return None
    return loss_text(loss, status.open_transactions) if status.target_answers else UNKNOWN


def loss_text(loss: Loss, transactions: Sequence[OpenTransaction] = ()) -> str:
    """The loss in one sentence."""
    if loss.records is None:
        seconds = loss.source_seen_seconds
        return f"{UNKNOWN} (last counted {seconds:.0f} s ago)" if seconds else UNKNOWN
    some = "" if loss.exact else "up to " if loss.held_back else "about "
    text = f"{some}{counted(loss.records, 'record')}"
    if loss.bytes is not None and loss.records:
        text += f", {size_text(loss.bytes)}"
    if loss.seconds is not None and loss.records:
        text += f", the oldest {loss.seconds:.1f} s old"
    if loss.held_back:
        text += f"; of them up to {loss.held_back:,} held back by {held_by(transactions)}"
        text += f" ({loss.acknowledged:,} acknowledged)"
    if loss.source_seen_seconds:
        text += (
            f"; the source was last seen {loss.source_seen_seconds:.0f} s ago, later records are not counted"
        )
    return text


def _topic(t: TopicStatus, *, holds: bool) -> dict[str, Any]:
    row = {"topic": t.topic, "copy": t.target_topic, "partitions": t.partitions}
    held = {"held back": f"{t.held_back:,}"} if holds else {}
    return row | _lag(t) | held | ({"": t.reason} if t.reason else {})


def _partition(p: PartitionStatus, *, holds: bool) -> dict[str, Any]:
    row = {"topic": p.topic, "partition": p.partition, "frontier": p.frontier, "source end": p.source_end}
    mark = {"high watermark": p.high_watermark} if holds else {}
    held = {"held back": f"{p.held_back.records:,}"} if holds else {}
    ends = row | mark | {"target end": p.target_end}
    return ends | _lag(p) | held | ({"": p.reason} if p.reason else {})


def _open(t: OpenTransaction) -> dict[str, Any]:
    return {
        "cluster": t.cluster, "topic": t.topic, "partition": t.partition, "producer id": t.producer_id,
        "transactional id": t.transactional_id, "state": t.state or "no coordinator",
        "from offset": t.start_offset, "seconds": None if t.age_seconds is None else round(t.age_seconds),
        "held back": t.held_back,
    }  # fmt: skip


def _lag(of: TopicStatus | PartitionStatus) -> dict[str, Any]:
    about = "" if of.exact else "~"
    return {
        "lag": None if of.records is None else f"{about}{of.records:,}",
        "bytes": None if of.bytes is None else f"{about}{size_text(of.bytes)}",
        "seconds": None if of.seconds is None else round(of.seconds, 1),
    }


def _owed(status: FlowStatus) -> str | None:
    pending = status.pending_fence
    if pending is None:
        return None
    minutes = max(0, status.at_ms - pending.since_ms) / 60_000
    return f"on {status.source} for {minutes:,.0f} min, {pending.in_words}"


def _left_out(status: FlowStatus) -> str | None:
    """Whose records are not copied back."""
    ids = status.left_out_producers
    if not ids:
        return None
    return f"excluded: records written by the opposite flow ({counted(len(ids), 'producer')})"


def _runner(runner: Runner | None) -> str:
    if runner is None:
        return "no run holds the lease"
    state = "" if runner.alive else "no longer: "
    return f"{state}{runner.host}, process {runner.process}, lease renewed {runner.renewed_seconds:.0f} s ago"


def _standby(s: StandbyStatus, now_ms: int) -> dict[str, Any]:
    since = max(0, now_ms - s.since_ms) / 1000
    state = "yes" if s.ready else f"no: {s.reason}"
    return {"host": s.host, "process": s.process, "waits": f"{since:,.0f} s", "ready": state}


def _beat(beat: HeartbeatStatus | None) -> str:
    if beat is None:
        return "none"
    return f"{beat.age_seconds:.1f} s old"


def _delay(beat: HeartbeatStatus | None) -> str:
    if beat is None or beat.delay_seconds is None:
        return "unknown: no heartbeat arrives"
    return f"{beat.delay_seconds * 1000:,.0f} ms"


def _event(event: dict[str, Any], now_ms: int) -> dict[str, Any]:
    ago = max(0, now_ms - int(event.get("at_ms", now_ms))) / 1000
    topic, partition = event.get("topic", ""), event.get("partition", -1)
    where = f"{topic}-{partition}" if partition >= 0 else topic
    return {"event": event.get("kind", ""), "where": where, "seconds ago": round(ago)}


class DrillsView(NamedTuple):
    """The drills of the shown flows."""

    line: str
    """Empty: there are none."""
    rows: list[dict[str, Any]]


NO_DRILLS: Final = DrillsView("", [])


def show_again(found: Sequence[FlowStatus], shown: Shown, drills: DrillsView) -> None:
    """Print a line of JSON, or redraw the screen."""
    if session().as_json:
        emit_line(as_data(found, shown, drills))
        return
    if sys.stdout.isatty():
        clear_screen()
    show(found, shown, drills)


def show(found: Sequence[FlowStatus], shown: Shown, drills: DrillsView = NO_DRILLS) -> None:
    """Print the pairs, flows and drills for people: one line for each, or all details of flows."""
    if shown.short:
        lines = (f"{name}  {line.word}  {line.text}" for name, pair in pairs_of(found) for line in pair)
        last = [f"drills  {drills.line}"] if drills.line else []
        emit([*lines, *(short(f) for f in found), *last])
    else:
        more = {"drills": drills.line} if drills.line else {}
        pairs = {
            name: [{"protection": line.word, "": line.text} for line in pair]
            for name, pair in pairs_of(found)
        }
        emit({**pairs, **{f.flow: view(f, shown) for f in found}, **more})


def pairs_of(found: Sequence[FlowStatus]) -> Iterator[tuple[str, list[PairLine]]]:
    """Each pair of clusters once, with what is said of it: from both of its flows the same is seen."""
    known = set()
    for status in found:
        if status.pair is not None and status.pair.clusters not in known:
            known.add(status.pair.clusters)
            yield " and ".join(status.pair.clusters), pair_lines(status.pair)


def as_data(found: Sequence[FlowStatus], shown: Shown, drills: DrillsView = NO_DRILLS) -> dict[str, Any]:
    """The whole status; of groups only those requested by name."""
    more = {"drills": drills.rows} if drills.rows else {}
    if shown.short:
        rows = (f.as_dict(details=False) for f in found)
        names = ("flow", "role", "health", "faults", "loss")
        return {"flows": [{name: row[name] for name in names} for row in rows]} | more
    flows = [f.as_dict() for f in found]
    if shown.groups:
        for flow in flows:
            flow["groups"] = [g for g in flow["groups"] or () if g["group"] in shown.groups]
    return {"flows": flows} | more
