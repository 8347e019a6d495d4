"""Display of a replay: what would be sent, how far it is, and what it has done."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Any, Final

from drkit.cli.talk import say, say_rows
from drkit.clock import monotonic, wall_ms
from drkit.counted import counted, first_of
from drkit.model import TopicPartition
from drkit.replay.compare import Same, TailFate
from drkit.replay.plan import PartitionPlan, ReplayPlan
from drkit.replay.progress import ReplayProgress
from drkit.replay.run import total
from drkit.replay.writer import Results

_EVERY_SECONDS: Final = 5.0
_SHOWN: Final = 5
_UNKNOWN: Final = "no SHA-256 of this export is recorded: compare with the one that its export printed:"


def show_plan(plan: ReplayPlan, alias: str, *, is_known: bool) -> None:
    """Print what a person must confirm, on stderr.

    :param is_known: the hash of the export is on record, or was given
    """
    where = "in quarantine" if plan.to_quarantine else "for clients to read"
    say_rows({
        "replay": [f"export {plan.export.run_id} of {plan.export.flow} to {alias}, {where}"],
        "topics": _topics(plan),
        "note": [*_notes(plan), *([] if is_known else [f"{_UNKNOWN} {plan.export.sha256}"])],
    })  # fmt: skip


def _topics(plan: ReplayPlan) -> Iterator[str]:
    by_topic: dict[tuple[str, str], list[PartitionPlan]] = {}
    for each in plan.partitions:
        by_topic.setdefault((each.tail.source.topic, each.to.at.topic), []).append(each)
    for (source, target), parts in by_topic.items():
        name = source if source == target else f"{source} → {target}"
        left = [p for p in parts if not p.is_done]
        if not left:
            yield f"{name}: done before"
            continue
        records, counts = sum(p.tail.records for p in left), [p.counts for p in left]
        same = plan.same or Same.CONTENT
        sent = sum(p.of(TailFate.SEND, same) for p in left)
        kept_back = sum(p.of(TailFate.KEPT_BACK, same) for p in left)
        some = [
            f"{counted(records, 'record')} in {counted(len(left), 'partition')}", f"{sent:,} to send",
            *_many(sum(c.replayed for c in counts), "replayed before"),
            *_many(sum(c.alike for c in counts), "with equal content there"),
            *_many(sum(c.changed for c in counts), "whose keys clients wrote since"),
            *_many(kept_back, "left out for the sake of newer values"),
        ]  # fmt: skip
        yield f"{name}: {', '.join(some)}"


def _many(number: int, what: str) -> list[str]:
    return [f"{number:,} {what}"] if number else []


def _notes(plan: ReplayPlan) -> Iterator[str]:
    left = [p for p in plan.partitions if not p.is_done]
    found = [(p.tail.source, k) for p in left for k in p.counts.changed_keys]
    if changed := [f"{_key(k.key)} ({at}@{k.offset})" for at, k in found]:
        yield f"keys that clients wrote since: {first_of(changed, _SHOWN)}"
    yield from plan.cautions(wall_ms())
    groups: dict[str, int] = {}
    for p in left:
        for group, number in p.counts.processed.items():
            groups[group] = groups.get(group, 0) + number
    for group, number in sorted(groups.items()):
        yield f"the group {group} has processed {counted(number, 'of these record')} on the old primary"
    if begun := sum(p.progress is not None for p in left):
        yield f"{counted(begun, 'partition', 'was')} begun before: the replay continues"


def _key(key: bytes) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError:
        return f"base64 {b64encode(key).decode()}"


class ReplayTicker:
    """Says from time to time how far a replay is."""

    def __init__(self, plan: ReplayPlan) -> None:
        self._done: dict[TopicPartition, int] = {}
        self._all = sum(p.tail.records for p in plan.partitions if not p.is_done)
        self._said = monotonic()

    def __call__(self, found: ReplayProgress) -> None:
        """Take the progress of a partition."""
        self._done[found.at] = found.appended + found.already + found.kept_back
        if monotonic() - self._said >= _EVERY_SECONDS:
            self._said = monotonic()
            say(f"{sum(self._done.values()):,} of {counted(self._all, 'record')} accounted for")


def answer(plan: ReplayPlan, results: Results | None, *, whole: bool) -> dict[str, Any]:
    """What the command prints.

    :param results: None: nothing was to be changed
    :param whole: every partition
    """
    out: dict[str, Any] = {"replay": _sentence(plan, results)}
    if whole:
        same = plan.same or Same.CONTENT
        out |= {
            "run": plan.export.run_id, "flow": plan.export.flow, "manifest": plan.export.sha256,
            "same": plan.same, "partitions": [_row(p, same, results) for p in plan.partitions],
        }  # fmt: skip
    elif results is not None and not total(results).is_done:
        out["next"] = "run the same command again: what was appended is not appended again"
    return out


def _sentence(plan: ReplayPlan, results: Results | None) -> str:
    if plan.is_done:
        return "done before: nothing was appended"
    if results is None:
        same = plan.same or Same.CONTENT
        sent = sum(p.of(TailFate.SEND, same) for p in plan.partitions if not p.is_done)
        if plan.same is None and plan.alike:
            more = counted(plan.alike, "record")
            return f"{sent:,} to append, and {more} to decide about; nothing was changed"
        return f"would append {counted(sent, 'record')}; nothing was changed"
    found = total(results)
    some = [
        f"{counted(found.appended, 'record')} appended",
        f"{found.already:,} there already",
        *_many(found.skipped_changed_keys, "left out for the sake of newer values"),
    ]
    return f"{'done' if found.is_done else 'stopped'}: {', '.join(some)}"


def _row(p: PartitionPlan, same: Same, results: Results | None) -> dict[str, Any]:
    c, tail = p.counts, p.tail
    row: dict[str, Any] = {
        "partition": str(tail.source), "to": str(p.to.at), "first": tail.first, "end": tail.end,
        "records": tail.records, "done_before": p.is_done,
    }  # fmt: skip
    if not p.is_done:
        row |= {
            "bytes": c.bytes, "oldest_ms": c.oldest_ms, "newest_ms": c.newest_ms, "replayed": c.replayed,
            "alike": c.alike, "keys_changed": c.changed, "to_send": p.of(TailFate.SEND, same),
            "kept_back": p.of(TailFate.KEPT_BACK, same),
            "changed_keys": [
                {"offset": k.offset, "key": b64encode(k.key).decode()} for k in c.changed_keys
            ],
            "processed_by": dict(c.processed),
        }  # fmt: skip
    if results is not None and (found := results.get(tail.source)) is not None:
        row |= {
            "appended": found.appended, "already": found.already,
            "skipped_changed_keys": found.skipped_changed_keys, "done": found.is_done,
        }  # fmt: skip
    return row
