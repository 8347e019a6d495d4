"""Topic and group filters: lists of whole-match regular expressions, exclude wins (as in MirrorMaker 2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
import re
from typing import Final

from drkit.topology.naming import Mm2Topics

_DOTS: Final = Mm2Topics()

DEFAULT_TOPICS_EXCLUDE: Final = (r".*[\-\.]internal", r".*\.replica", r"__.*", r"drkit-.*")
"""MirrorMaker 2's ``topics.exclude`` and drkit's own topics."""

DEFAULT_GROUPS_EXCLUDE: Final = (r"console-consumer-.*", r"connect-.*", r"__.*")
"""MirrorMaker 2's ``groups.exclude``."""

# Bookkeeping of one cluster is meaningless, or harmful, on another, whatever a filter says.
_INTERNAL: Final = re.compile(
    r"__consumer_offsets|__transaction_state|__share_group_state|__cluster_metadata|__remote_log_metadata"
    r"|drkit-.*\.internal|mm2-.*\.internal|.*\.checkpoints\.internal"
)


_DRILL: Final = r"drkit-drill\."
_DRILL_TOPIC: Final = re.compile(rf"(?:mm2-)?{_DRILL}.*\.internal", re.DOTALL)
_DRILL_ALIAS: Final = "drkit-drill-"


def is_internal_topic(topic: str, mm2: Mm2Topics = _DOTS) -> bool:
    """True for topics in which Kafka, MirrorMaker 2 or drkit keep their own state: never copied.

    :param mm2: names of MM2's topics under the flow's separator; those with dots are always known
    """
    return _INTERNAL.fullmatch(topic) is not None or mm2.is_internal(topic)


def is_drill_alias(alias: str) -> bool:
    """Return whether an alias is reserved for the flow of a drill."""
    return alias.startswith(_DRILL_ALIAS)


def may_copy(topic: str, source: str, mm2: Mm2Topics = _DOTS) -> bool:
    """Return whether a flow may copy a topic, whatever its own filters say.

    The flow of a drill copies reserved topics of drills only; every other flow copies no internal topic.

    :param source: alias of the flow's source
    :param mm2: as for :func:`is_internal_topic`
    """
    if is_drill_alias(source):
        return _DRILL_TOPIC.fullmatch(topic) is not None
    return not is_internal_topic(topic, mm2)


def excluded_groups(source: str) -> tuple[str, ...]:
    """Return the patterns of groups that a flow never carries: a drill those of others, others a drill's.

    :param source: alias of the flow's source
    """
    return (f"(?!{_DRILL}).*",) if is_drill_alias(source) else (f"{_DRILL}.*",)


def split_list(text: str) -> tuple[str, ...]:
    """The items of a comma list as Kafka's configuration writes it; an empty text is an empty list."""
    return tuple(item for part in text.split(",") if (item := part.strip()))


@dataclass(frozen=True)
class NameFilter:
    """Accepts a name that matches one of ``include`` as a whole and none of ``exclude``.

    An empty ``include`` accepts nothing, as in MirrorMaker 2.
    """

    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()

    def accepts(self, name: str) -> bool:
        """Whether this name passes. Raises ``re.error`` for a pattern that is no regular expression."""
        return _matches(self._include, name) and not _matches(self._exclude, name)

    def select(self, names: Iterable[str]) -> list[str]:
        """The names that pass, sorted."""
        return sorted(name for name in names if self.accepts(name))

    @cached_property
    def _include(self) -> tuple[re.Pattern[str], ...]:
        return _compiled(self.include)

    @cached_property
    def _exclude(self) -> tuple[re.Pattern[str], ...]:
        return _compiled(self.exclude)


def _compiled(patterns: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    # A dot is any character: `.*` must not silently leave out a group with a line break in its name.
    return tuple(re.compile(pattern, re.DOTALL) for pattern in patterns)


def _matches(patterns: tuple[re.Pattern[str], ...], name: str) -> bool:
    # One by one: joined by "|", flags and group numbers of one pattern would affect the others.
    return any(pattern.fullmatch(name) for pattern in patterns)
