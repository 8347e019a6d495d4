"""Display of ``drkit reprotect --hold``: which settings of the new primary change, and what ends that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from drkit.cli.render import emit
from drkit.cli.session import to_type
from drkit.cli.talk import say
from drkit.config import FlowSettings
from drkit.counted import counted, first_of
from drkit.failover.new_primary.hold import HeldTopic
from drkit.journal.machine import RETURN
from drkit.visible import visible


def show_held(topics: Sequence[HeldTopic], flow: FlowSettings, *, done: bool, asks: bool = False) -> None:
    """Print what a hold changes, or has changed.

    :param flow: the flow that was failed over
    :param done: it was done; else nothing was changed
    :param asks: somebody is asked next: only the changes, on stderr
    """
    if asks:
        for row in rows_of(topics):
            say(visible(f"{row['topic']}: {row['setting']} = {row['now']}, was {row['before']}"))
        return
    next_ = [to_type(line) for line in next_of(topics, flow, done=done)]
    answer = {"flow": flow.name, "held": done, "topics": [t._asdict() for t in topics], "next": next_}
    steps = (f"{n}. {line}" for n, line in enumerate(next_, start=1))
    emit(answer, shown=[rows_of(topics), *notes_of(topics), *steps])


def show_put_back(topics: Sequence[HeldTopic], flow: FlowSettings) -> None:
    """Print what was put back."""
    answer = {"flow": flow.name, "held": False, "topics": [t._asdict() for t in topics], "next": []}
    end = f"retention of {flow.target} applies again, also to records written since the failover"
    shown = [rows_of(topics), *notes_of(topics), end] if topics else [f"nothing is held on {flow.target}"]
    emit(answer, shown=shown)


def rows_of(topics: Sequence[HeldTopic]) -> list[dict[str, Any]]:
    """A row for each setting."""
    return [
        {"topic": t.topic, "setting": name, "before": _said(t.before.get(name)), "now": _said(value)}
        for t in topics
        for name, value in sorted(t.after.items())
    ]


def notes_of(topics: Sequence[HeldTopic]) -> Iterator[str]:
    """What the rows do not say."""
    if own := [t.topic for t in topics if not t.after and not t.changed]:
        yield f"nothing to change: {first_of(own)}"
    for t in topics:
        for name, value in sorted(t.changed.items()):
            said = f"{name} was set to {_said(value)} outside drkit since it was held"
            yield f"{t.topic}: {said}: it is taken for the topic's own"


def next_of(topics: Sequence[HeldTopic], flow: FlowSettings, *, done: bool) -> list[str]:
    """What to type."""
    command = RETURN.typed("--flow", flow.name)
    if not done:
        changes = sum(bool(t.changes) for t in topics)
        what = f"to suspend retention on {flow.target} for {counted(changes, 'topic')}"
        return [f"{what}: {command.plus('--hold')}"] if changes else []
    return [
        f"when {flow.source} answers: {command.plus('--plan')}",
        f"this needs disk on {flow.target} until it is protected; then it is put back",
        f"to end it before that: {command.plus('--hold', '--abort')}",
    ]


def _said(value: str | None) -> str:
    return "(inherited)" if value is None else value
