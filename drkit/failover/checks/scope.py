"""The scope of a failover: topics with every group that reads them, or all that a flow copies.

Topics that an earlier failover opened are not in the scope; they are named.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from drkit.config import FlowSettings
from drkit.config.tables.fields import closest
from drkit.counted import counted, first_of, verb
from drkit.errors import ConfigError, Usage
from drkit.failover.checks.survey import Readings, positions_of
from drkit.failover.core.context import Context, Scope
from drkit.failover.core.reverse import Promotions, pair_roles


class Basis(NamedTuple):
    """The input of a choice."""

    flow: FlowSettings
    copied: Mapping[str, str]
    """Source topic → target topic, with topics opened earlier."""
    readings: Readings
    """With the committed offsets of every group of the flow."""


class Chosen(NamedTuple):
    """A scope, the request, and the notes for the confirmation."""

    scope: Scope
    groups: tuple[str, ...]
    topics: tuple[str, ...]
    others: tuple[str, ...]
    """Groups that move too, because they read the same topics."""
    moved: tuple[str, ...]
    """Requested topics that an earlier failover opened."""
    readings: Readings | None = None
    """What was read for the choice."""

    def notes(self) -> list[str]:
        """Return sentences for the proposal."""
        notes = []
        if self.moved:
            notes.append(f"already moved: {first_of(self.moved)}")
        if self.others:
            notes.append(f"these groups read the same topics and move too: {', '.join(self.others)}")
        renamed = {a: b for a, b in sorted(self.scope.topics.items()) if a != b}
        notes += [
            f"topic {a} is called {b} on the other side; groups keep their names" for a, b in renamed.items()
        ]
        return notes

    def to_json(self) -> dict[str, Any]:
        """Return the request as plain data, for the journal."""
        return {"groups": list(self.groups), "topics": list(self.topics), "moved": list(self.moved)}


def choose(
    context: Context, groups: Sequence[str], topics: Sequence[str] = (), recorded: Promotions | None = None
) -> Chosen:
    """Return the scope of some groups and topics, or of everything that the flow copies without any.

    :param topics: source topics, also those that no group reads
    :param recorded: as for :func:`drkit.failover.core.reverse.pair_roles`
    :raises ConfigError: a group or topic is unknown, or there is nothing to move
    """
    readings = Readings(pair_roles(context, recorded), *positions_of(context, context.source()))
    basis = Basis(context.flow, copied_of(context), readings)
    return chosen(basis, groups, topics, context.request.leave_behind)


def narrowed(context: Context, left: Collection[str]) -> Scope:
    """Return the scope of a run without topics and groups that stay, and groups that read nothing else.

    :raises ConfigError: nothing would move
    """
    scope = context.scope
    topics = {name: target for name, target in scope.topics.items() if name not in left}
    if not topics:
        raise ConfigError("nothing_to_move", where=f"flow {context.flow.name}", flow=context.flow.name)
    positions = positions_of(context, context.source(), scope.groups)[0]
    read = {group: {tp.topic for tp in positions.get(group, ())} or topics.keys() for group in scope.groups}
    groups = tuple(g for g in scope.groups if g not in left and read[g] & topics.keys())
    return scope._replace(topics=topics, groups=groups)


def chosen(
    basis: Basis, groups: Sequence[str], topics: Sequence[str] = (), left: Collection[str] = ()
) -> Chosen:
    """Return the scope by the given input; see :func:`choose`. Pure.

    If an earlier failover opened all requested topics, the scope contains them, and a gate refuses it.

    :param left: topics and groups that stay on the source
    """
    _refuse_unknown(basis, groups, topics)
    copied, positions = basis.copied, basis.readings.positions
    named = {tp.topic for g in groups for tp in positions[g]} | set(topics)
    asked = (named & copied.keys() if groups or topics else set(copied)).difference(left)
    if not asked:
        raise ConfigError("nothing_to_move", where=f"flow {basis.flow.name}", flow=basis.flow.name)
    moving = asked - basis.readings.roles.opened or asked
    readers = sorted(g for g, p in positions.items() if g not in left and any(tp.topic in moving for tp in p))
    scope = Scope({t: copied[t] for t in sorted(moving)}, tuple(readers), whole_flow=not (groups or topics))
    others = () if scope.whole_flow else tuple(g for g in readers if g not in groups)
    return Chosen(scope, tuple(groups), tuple(topics), others, tuple(sorted(asked - moving)), basis.readings)


def copied_of(context: Context) -> dict[str, str]:
    """Return source topic → target topic, without heartbeat topics."""
    flow = context.flow
    return {
        name: target
        for name, (target, *_) in context.known.topics.items()
        if flow.topic_filter.accepts(name) and not flow.is_heartbeats(name)
    }


def _refuse_unknown(basis: Basis, groups: Iterable[str], topics: Iterable[str]) -> None:
    _, positions, origin = basis.readings
    number, flow = len(basis.copied), basis.flow
    readers = f"{counted(len(positions), 'group', 'has')} some, as known from {origin}"
    copied = f"{counted(number, 'topic')} of {flow.source} {verb(number, 'has')} one"
    for code, kind, names, known, evidence in (
        ("group_unknown", "group", groups, positions, readers),
        ("topic_unknown", "topic", topics, basis.copied, copied),
    ):
        if name := next((name for name in names if name not in known), ""):
            where = f"--{kind}, flow {flow.name}"
            hint = _nearest(name, known) or f"drkit status shows the {kind}s"
            raise Usage(code, where=where, evidence=evidence, hint=hint, **{kind: name})


def _nearest(word: str, known: Iterable[str]) -> str:
    near = closest(word, known)
    return f"did you mean '{near}'?" if near else ""
