"""What a failover moves: the topics of a group with everybody who reads them, or all that a flow copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from drkit.config.closest import suggestion
from drkit.errors import ConfigError
from drkit.failover.context import Context, Scope
from drkit.failover.group_look import Positions
from drkit.failover.survey import positions_of


class Chosen(NamedTuple):
    """A scope, and what has to be said about it before anybody agrees."""

    scope: Scope
    asked: tuple[str, ...]
    """The groups that were named."""
    others: tuple[str, ...]
    """Groups that move too, because they read the same topics."""
    torn: dict[str, tuple[str, ...]]
    """Group → topics that it also reads and that stay on the source."""

    def notes(self) -> list[str]:
        """In words."""
        told = []
        if self.others:
            told.append(f"these groups read the same topics and move too: {', '.join(self.others)}")
        told += [
            f"{group} also reads {', '.join(topics)}, which stays where it is: it needs both clusters"
            for group, topics in sorted(self.torn.items())
        ]
        renamed = {a: b for a, b in sorted(self.scope.topics.items()) if a != b}
        told += [
            f"topic {a} is called {b} on the other side; groups keep their names" for a, b in renamed.items()
        ]
        return told


def choose(context: Context, groups: Sequence[str]) -> Chosen:
    """The scope of some groups; of everything that the flow copies when none is named.

    :raises ConfigError: a group is not known, or there is nothing to move
    """
    positions, origin = positions_of(context, context.source())
    return chosen(context, positions, origin, groups)


def chosen(context: Context, positions: Positions, origin: str, groups: Sequence[str]) -> Chosen:
    """See :func:`choose`; with the positions of all groups."""
    copied = _copied(context)
    for group in groups:
        if group not in positions:
            raise ConfigError(
                f"the group '{group}' has no committed offsets in a topic that the flow copies",
                where=f"--group, flow {context.flow.name}",
                evidence=f"{len(positions)} groups have some, as known from {origin}",
                hint=suggestion(group, positions) or "drkit status shows the groups",
            )
    topics = {at.topic for g in groups for at in positions[g]} & copied.keys() if groups else set(copied)
    if not topics:
        raise ConfigError(
            "there is nothing to move: the flow has copied no topic",
            where=f"flow {context.flow.name}",
            hint=f"copy first: drkit replicate --flow '{context.flow.name}'",
        )
    moved = sorted(g for g, p in positions.items() if any(at.topic in topics for at in p))
    scope = Scope({t: copied[t] for t in sorted(topics)}, tuple(moved), whole_flow=not groups)
    others = tuple(g for g in moved if g not in groups) if groups else ()
    return Chosen(scope, tuple(groups), others, _torn(positions, moved, topics, copied))


def _copied(context: Context) -> dict[str, str]:
    """Source topic → target topic; heartbeats are nobody's data."""
    flow = context.flow
    return {
        name: target
        for name, (target, *_) in context.known.topics.items()
        if flow.topic_filter.accepts(name) and not flow.is_heartbeats(name)
    }


def _torn(
    positions: Positions, moved: Sequence[str], topics: set[str], copied: Mapping[str, str]
) -> dict[str, tuple[str, ...]]:
    found = {}
    for group in moved:
        rest = sorted({at.topic for at in positions[group]} & copied.keys() - topics)
        if rest:
            found[group] = tuple(rest)
    return found
