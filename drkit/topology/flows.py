"""Flows seen together: two that write one topic, and rings in which a record would run for ever."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
import re
from typing import Final, NamedTuple

from drkit.topology.filters import NameFilter
from drkit.topology.naming import IdentityNaming, Naming

_SMALLEST_RING: Final = 3


class Route(NamedTuple):
    """What a flow copies, from where to where, under which names."""

    source: str
    target: str
    topics: NameFilter
    naming: Naming

    def writes(self, target_topic: str) -> bool:
        """Whether this flow would write that topic of its target, if the source has it."""
        upstream = self.naming.upstream(target_topic)
        return upstream is not None and self.topics.accepts(upstream)


def collision(one: Route, other: Route) -> str | None:
    """A topic name of the common target that both flows would write; None when no example was found.

    Whether two regular expressions overlap is tried with names made from them, so a name that comes back is
    proof, None is not: who knows the real topics asks :meth:`Route.writes` again.
    """
    if one.target != other.target:
        return None
    for a, b in ((one, other), (other, one)):
        for pattern in a.topics.include:
            for name in _examples(pattern):
                written = a.naming.downstream(name)
                if a.writes(written) and b.writes(written):
                    return written
    return None


def rings(routes: Sequence[Route]) -> Iterator[tuple[str, ...]]:
    """Rings of three and more clusters in which a topic keeps its name: its records would circle for ever.

    A pair of opposite flows is no such ring: each skips what the other wrote, by its producer id.
    """
    keeping = [r for r in routes if isinstance(r.naming, IdentityNaming)]
    for first in keeping:
        yield from _rings_from((first,), keeping)


def _rings_from(path: tuple[Route, ...], routes: Sequence[Route]) -> Iterator[tuple[str, ...]]:
    seen = [r.source for r in path]
    for route in routes:
        if route.source != path[-1].target:
            continue
        longer = (*path, route)
        if route.target == seen[0]:
            if len(longer) >= _SMALLEST_RING and _share_a_topic(longer):
                yield tuple(r.source for r in longer)
        # Each ring is told once: from its first cluster by name.
        elif route.target > seen[0] and route.target not in seen:
            yield from _rings_from(longer, routes)


def _share_a_topic(routes: Sequence[Route]) -> bool:
    names = {name for r in routes for pattern in r.topics.include for name in _examples(pattern)}
    return any(all(r.topics.accepts(name) for r in routes) for name in names)


def _examples(pattern: str) -> Iterator[str]:
    """Names that might match the pattern: the caller tries them."""
    for wildcard in ("", "x"):
        plain = re.sub(r"\.\*", wildcard, pattern)
        plain = re.sub(r"\.\+", "x", plain)
        plain = re.sub(r"(?<!\\)\.(?![*+?{])", "." if wildcard else "x", plain)
        plain = re.sub(r"\\(.)", r"\1", plain)
        plain = re.sub(r"\(([^()|]*)(?:\|[^()]*)?\)", r"\1", plain)
        yield plain or "x"
        for alternative in plain.split("|"):
            yield alternative or "x"
