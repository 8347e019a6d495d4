"""Topics that cannot have a copy, or whose copy could be taken for another: found before creation.

Pure: names in, refusals out. One refused topic stops no other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
import re
from typing import Final

from drkit.errors import Refused
from drkit.topology.filters import may_copy
from drkit.topology.naming import MAX_TOPIC_NAME, Naming

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def metric_name(topic: str) -> str:
    """A topic's name in Kafka's metrics: ``.`` and ``_`` are one (``Topic.hasCollision``).

    Brokers refuse to create a topic whose name differs from another's only in these.
    """
    return topic.replace(".", "_")


def refused_names(
    flow: str,
    source: str,
    naming: Naming,
    topics: Iterable[str],
    on_target: Iterable[str],
) -> dict[str, Refused]:
    """Source topics that are not to be copied because of a name, each with the reason.

    :param flow: for the errors
    :param source: the source's alias
    :param topics: of the source, as the flow's filters choose them
    :param on_target: all topics of the target
    """
    copies = {topic: naming.downstream(topic) for topic in topics}
    refused = {}
    for topic, copy in copies.items():
        found = _own_fault(topic, copy, source, naming)
        if found is not None:
            refused[topic] = found
    # Names that map back are all different, so no two of the rest share a copy.
    refused |= _colliding({t: c for t, c in copies.items() if t not in refused}, set(on_target))
    for topic, error in refused.items():
        error.where = f"topic {topic}, flow {flow}"
    return refused


def _own_fault(topic: str, copy: str, source: str, naming: Naming) -> Refused | None:
    """The errors of one name by itself."""
    if len(copy) > MAX_TOPIC_NAME:
        return Refused(
            "copy_name_long",
            evidence=f"{len(copy)} characters, {MAX_TOPIC_NAME} are allowed: {copy[:40]}…",
            source=source,
        )
    if not _LEGAL.fullmatch(copy) or copy in {".", ".."}:
        return Refused(
            "copy_name_invalid", evidence=f"'{copy}': Kafka takes letters, digits, '.', '_' and '-'"
        )
    if not may_copy(copy, source):
        return Refused("copy_name_reserved", evidence=f"it would be called {copy}")
    if naming.comes_from(topic, source):
        return Refused(
            "copy_name_cycle",
            evidence=f"its copy {copy} would look like a topic that was copied twice",
            source=source,
        )
    if (back := naming.upstream(copy)) != topic:
        return Refused("copy_name_one_way", evidence=f"{copy} would be taken for the copy of {back}")
    return None


def _colliding(copies: Mapping[str, str], on_target: set[str]) -> dict[str, Refused]:
    """Copies not made yet that brokers would refuse for a name that differs in ``.`` and ``_`` only."""
    existing = defaultdict(set)
    for name in on_target:
        existing[metric_name(name)].add(name)
    wanted = defaultdict(set)
    for copy in copies.values():
        wanted[metric_name(copy)].add(copy)
    refused = {}
    for topic, copy in copies.items():
        others = (existing[metric_name(copy)] | wanted[metric_name(copy)]) - {copy}
        if others and copy not in on_target:
            where = "exists on the target" if others & on_target else "is to be created too"
            refused[topic] = Refused(
                "copy_name_clash", evidence=f"{copy}; {', '.join(sorted(others))} {where}"
            )
    return refused
