"""Checks before a copy: two flows that write one topic, rings of flows, and unusable topic names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
import re
from typing import Final, NamedTuple

from drkit.errors import Refused
from drkit.topology.filters import NameFilter, may_copy
from drkit.topology.naming import MAX_TOPIC_NAME, Naming, PrefixNaming

_SMALLEST_RING: Final = 3


class Route(NamedTuple):
    """Source, target, topics and naming of a flow."""

    source: str
    target: str
    topics: NameFilter
    naming: Naming

    def copies(self, topic: str) -> bool:
        """Return whether this flow would copy that topic of its source."""
        return self.topics.accepts(topic) and not self.naming.comes_from(topic, self.target)

    def writes(self, target_topic: str) -> bool:
        """Return whether this flow would write that topic of its target, if the source has it."""
        upstream = self.naming.upstream(target_topic)
        return upstream is not None and self.topics.accepts(upstream)


def collision(one: Route, other: Route) -> str | None:
    """A topic name of the common target that both flows would write; None when no example was found.

    Whether two regular expressions overlap is tried with names made from them: a returned name is
    proof, None is not. A caller that knows the real topics calls :meth:`Route.writes` again.
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


def copied_twice(one: Route, other: Route) -> str | None:
    """A topic of the common source that both flows copy; None when no example was found."""
    if one.source != other.source:
        return None
    names = (n for route in (one, other) for p in route.topics.include for n in _examples(p))
    return next((n for n in names if one.topics.accepts(n) and other.topics.accepts(n)), None)


class Ring(NamedTuple):
    """Clusters in a circle round which a topic would run forever."""

    clusters: tuple[str, ...]
    topic: str
    """A topic of the first cluster that returns there and is copied again."""
    returns_as: str
    """Its name when it returns; a different name grows with every round."""


def rings(routes: Sequence[Route]) -> Iterator[Ring]:
    """Rings in which a topic returns to its first cluster, under its own name or a longer one.

    A pair of opposite flows in which it keeps its name is no such ring: each skips what the other wrote, by
    its producer id. Whether a topic comes back is tried with names made from the filters.
    """
    told = set()
    for first in routes:
        # Built-in prefixes with one separator see their own hops: by themselves they make no ring, and in a
        # mesh of them there are too many ways to try.
        if _sees_hops(first, routes):
            continue
        for ring in _rings_from((first,), routes):
            at = ring.clusters.index(min(ring.clusters))
            key = ring.clusters[at:] + ring.clusters[:at]
            if key not in told:
                told.add(key)
                yield ring


def _sees_hops(route: Route, routes: Sequence[Route]) -> bool:
    separators = {r.naming.separator for r in routes if isinstance(r.naming, PrefixNaming)}
    return type(route.naming) is PrefixNaming and len(separators) == 1


def _rings_from(path: tuple[Route, ...], routes: Sequence[Route]) -> Iterator[Ring]:
    seen = [r.source for r in path]
    for route in routes:
        if route.source != path[-1].target:
            continue
        longer = (*path, route)
        if route.target == seen[0]:
            yield from islice(_endless(longer), 1)
        elif route.target not in seen:
            yield from _rings_from(longer, routes)


def _endless(ring: Sequence[Route]) -> Iterator[Ring]:
    names = sorted({n for r in ring for p in r.topics.include for n in _examples(p)})
    for turn in range(len(ring)):
        turned = (*ring[turn:], *ring[:turn])
        for name in names:
            back = _round(turned, name)
            if back is None or (back == name and len(ring) < _SMALLEST_RING):
                continue
            # A name that a longer one of its kind stops after one round does not run forever.
            if back == name or _round(turned, back) is not None:
                yield Ring(tuple(r.source for r in turned), name, back)


def _round(ring: Sequence[Route], topic: str) -> str | None:
    """A topic's name after one round; None if a flow does not copy it."""
    name = topic
    for route in ring:
        if not route.copies(name):
            return None
        name = route.naming.downstream(name)
    return name


def shared(copied: Iterable[tuple[Route, Iterable[str]]]) -> Iterator[tuple[str, Route, Route]]:
    """Topics of one target that two flows would write, by the existing topics.

    :param copied: each flow with the topics of its source that it copies
    :returns: the target's name and the two flows
    """
    written: dict[tuple[str, str], Route] = {}
    for route, topics in copied:
        for topic in topics:
            name = route.naming.downstream(topic)
            first = written.setdefault((route.target, name), route)
            if first is not route:
                yield name, first, route


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


_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def metric_name(topic: str) -> str:
    """A topic's name in Kafka's metrics: ``.`` and ``_`` are one (``Topic.hasCollision``).

    Brokers refuse to create a topic whose name differs from another's only in these.
    """
    return topic.replace(".", "_")


def refused_names(
    flow: str, source: str, naming: Naming, topics: Iterable[str], on_target: Iterable[str]
) -> dict[str, Refused]:
    """Return source topics that cannot be copied because of a name, each with the reason.

    :param flow: for the errors
    :param source: the source's alias
    :param topics: of the source, as the flow's filters choose them
    :param on_target: all topics of the target
    """
    copies = {topic: naming.downstream(topic) for topic in topics}
    refused = {}
    for topic, copy in copies.items():
        fault = _own_fault(topic, copy, source, naming)
        if fault is not None:
            refused[topic] = fault
    # Names that map back are all different, so no two of the rest share a copy.
    refused |= _colliding({t: c for t, c in copies.items() if t not in refused}, set(on_target))
    for topic, error in refused.items():
        error.where = f"topic {topic}, flow {flow}"
    return refused


def _own_fault(topic: str, copy: str, source: str, naming: Naming) -> Refused | None:
    """Return the error of one name by itself."""
    if len(copy) > MAX_TOPIC_NAME:
        evidence = f"{len(copy)} characters, {MAX_TOPIC_NAME} are allowed: {copy[:40]}…"
        return Refused("copy_name_long", evidence=evidence, source=source)
    if not _LEGAL.fullmatch(copy) or copy in {".", ".."}:
        return Refused(
            "copy_name_invalid", evidence=f"'{copy}': Kafka takes letters, digits, '.', '_' and '-'"
        )
    if not may_copy(copy, source):
        return Refused("copy_name_reserved", evidence=f"it would be called {copy}")
    if naming.comes_from(topic, source):
        evidence = f"its copy {copy} would look like a topic that was copied twice"
        return Refused("copy_name_cycle", evidence=evidence, source=source)
    if (back := naming.upstream(copy)) != topic:
        return Refused("copy_name_one_way", evidence=f"{copy} would be taken for the copy of {back}")
    return None


def _colliding(copies: Mapping[str, str], on_target: set[str]) -> dict[str, Refused]:
    """Return new copies that brokers would refuse: their names differ from others only in ``.`` and ``_``."""
    by_metric = defaultdict(set)
    for name in on_target.union(copies.values()):
        by_metric[metric_name(name)].add(name)
    refused = {}
    for topic, copy in copies.items():
        others = by_metric[metric_name(copy)] - {copy}
        if others and copy not in on_target:
            where = "exists on the target" if others & on_target else "is to be created too"
            refused[topic] = Refused(
                "copy_name_clash", evidence=f"{copy}; {', '.join(sorted(others))} {where}"
            )
    return refused
