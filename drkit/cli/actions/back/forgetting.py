"""``drkit reprotect --forget``: end the promotion of topics that neither side has, after a question."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from drkit.cli.questions import ask
from drkit.cli.render import emit
from drkit.cli.session import session
from drkit.cli.talk import say
from drkit.config import FlowSettings
from drkit.counted import counted
from drkit.failover.checks.run_opening import person
from drkit.failover.core.machine import RETURN
from drkit.failover.forgetting import OverTopic, forget, forgettable
from drkit.failover.loss.findings import CopyFate
from drkit.failover.service import FailoverService
from drkit.visible import visible

_FORGET: Final = f"{RETURN.command} --forget"


def forget_topics(service: FailoverService, topics: Sequence[str], *, dry_run: bool, yes: bool) -> None:
    """End the promotion of topics, and show it.

    :raises DrkitError: a side has one of them, or a cluster does not answer
    """
    planned = forgettable(service, topics)
    if dry_run or not planned:
        _show(planned, service.flow, done=False)
        return
    if not yes:
        for each in planned:
            say(visible(each.in_words))
        ask(f"Forget the promotion of {counted(len(planned), 'topic')}?", command=_FORGET)
    _show(forget(service, topics, by=person()), service.flow, done=True)


def _show(topics: Sequence[OverTopic], flow: FlowSettings, *, done: bool) -> None:
    if session().as_json:
        emit({"flow": flow.name, "forgotten": done, "topics": [t._asdict() for t in topics]})
        return
    for line in _lines(topics, flow, done=done):
        emit(line)


def _lines(topics: Sequence[OverTopic], flow: FlowSettings, *, done: bool) -> Iterator[str]:
    if not topics:
        yield f"nothing to forget: {flow.source} or {flow.target} has every promoted topic of {flow.name}"
        return
    number, back = counted(len(topics), "topic"), f"{flow.target}->{flow.source}"
    yield (
        f"the promotion of {number} is forgotten" if done else f"the promotion of {number} would be forgotten"
    )
    for each in topics:
        anew = f"; {back} copies it as a new topic" if each.fate is CopyFate.RECREATED else ""
        yield f"  {each.in_words}{anew}"
