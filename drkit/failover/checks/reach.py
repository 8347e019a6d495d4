"""The clients that each way of [failover] repoint sends to the target: moving and remaining ones.

A way that is not limited to the scope sends clients of other topics to copies that are still passive.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from drkit.config import RepointSettings
from drkit.counted import first_of
from drkit.failover.checks.outside import Outside
from drkit.failover.core.context import Context, Scope
from drkit.repoint import name_of

_ONLY_SAYS: Final = "print"
"""The kind that redirects no client by itself."""


class Reach(NamedTuple):
    """One way that is used when a scope moves."""

    way: str
    unlimited: bool
    """Whether every client may follow the way."""
    groups: tuple[str, ...]
    """Groups that move and follow the way."""
    other_groups: tuple[str, ...] = ()
    """Groups that remain on the source and follow the way."""
    other_topics: tuple[str, ...] = ()
    """Topics that remain on the source and whose producers may follow the way."""

    @property
    def others(self) -> str:
        """Remaining clients that the way reaches; empty: none."""
        found = []
        if self.other_groups:
            found.append(f"groups that remain: {first_of(self.other_groups)}")
        if self.other_topics:
            found.append(f"producers of topics that remain: {first_of(self.other_topics)}")
        return "; ".join(found)

    def in_words(self) -> str:
        """Return a sentence for the proposal."""
        who = (
            "every client that follows it" if self.unlimited else f"groups {first_of(self.groups) or 'none'}"
        )
        return f"{self.way}: {who}" + (f"; also {self.others}" if self.others else "")


def look_reach(context: Context, outside: Outside) -> tuple[Reach, ...]:
    """Return the clients that the configured ways reach when the scope of a run moves."""
    return reach(context.settings.failover.repoint, context.scope, outside)


def reach(ways: Iterable[RepointSettings], scope: Scope, outside: Outside) -> tuple[Reach, ...]:
    """Return the moving and remaining clients that these ways reach."""
    found = []
    for way in ways:
        if not scope.whole_flow and not way.tells(scope.groups, scope.topics):
            continue
        one = Reach(name_of(way), way.is_unlimited, tuple(filter(way.reaches_group, scope.groups)))
        if way.kind != _ONLY_SAYS:
            one = one._replace(
                other_groups=tuple(filter(way.reaches_group, outside.staying)),
                other_topics=tuple(filter(way.reaches_topic, outside.staying_topics)),
            )
        found.append(one)
    return tuple(found)
