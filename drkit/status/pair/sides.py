"""A topic as both directions of a pair have it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from drkit.flow_state.records import RoleRecord
from drkit.status.pair.facts import DirectionFacts, FenceSeen
from drkit.status.pair.journal import RunUnderWay


class OneWay(NamedTuple):
    """A direction of the pair, and the topic's name on its source."""

    flow: DirectionFacts
    name: str
    """On the source of this direction."""
    copy: str
    """On its target."""

    @property
    def role(self) -> RoleRecord | None:
        """Its promotion of the topic."""
        return self.flow.promoted.get(self.name)

    @property
    def fence(self) -> FenceSeen:
        """Its fence for the topic."""
        return self.flow.fences.get(self.name, FenceSeen.NONE)

    @property
    def copies(self) -> bool:
        """Whether it ever copied the topic."""
        return self.flow.copies.get(self.name) == self.copy

    def answers(self, promotion: RoleRecord) -> bool:
        """Whether it copies since a turn that followed this promotion in the other direction."""
        found = self.flow.returns.get(self.name)
        return found is not None and found.promoted_by == promotion.run_id


class TopicSides(NamedTuple):
    """Both directions of a topic."""

    first: OneWay
    second: OneWay

    @property
    def promoted(self) -> OneWay | None:
        """The direction of the newest promotion; None: clients never moved, or are back by a turn.

        Two promotions are ordered by the turn between them; clocks decide only without one.
        """
        first, second = self.first.role, self.second.role
        if first is None or second is None:
            return self.first if first is not None else self.second if second is not None else None
        later = (self.first.answers(second), self.second.answers(first))
        if later == (True, False):
            return self.first
        if later == (False, True):
            return self.second
        return self.first if first.at_ms >= second.at_ms else self.second

    def other(self, side: OneWay) -> OneWay:
        """The opposite direction."""
        return self.second if side is self.first else self.first

    @property
    def names(self) -> tuple[str, str]:
        """The topic's name on the first direction's source, and on its target."""
        return self.first.name, self.first.copy


def runs_of(sides: TopicSides) -> Iterator[tuple[OneWay, RunUnderWay]]:
    """Yield the runs that are under way for a topic, and whose journal has them."""
    for side in sides:
        if side.flow.run is not None and side.flow.run.covers(*sides.names):
            yield side, side.flow.run
