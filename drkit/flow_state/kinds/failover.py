"""What failovers and the sync of ACLs keep in a flow's state. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

from drkit.counted import counted
from drkit.flow_state.codec.body import record, stored
from drkit.flow_state.codec.fields import (
    Fields,
    Malformed,
    mapping_of,
    name,
    optional,
    prose,
    row,
    text,
    topic_name,
    tuple_of,
    whole,
)
from drkit.flow_state.codec.record import StateRecord
from drkit.topology.acl_record import AclRecord
from drkit.topology.acls import Acl, from_json, to_json

_SHOWN: Final = 3


@record
class PromotionRecord(StateRecord):
    """The failover that promoted the whole flow: from then on the flow does not run."""

    KEY: ClassVar[str] = "promotion"

    term: int = stored(whole())
    run_id: str = stored(name)
    at_ms: int = stored(whole())


@record
class PendingFence(StateRecord):
    """A pending fence: the old primary is to be fenced at the first contact."""

    KEY: ClassVar[str] = "fence-debt"

    run_id: str = stored(name)
    """Of the failover that could not fence."""
    term: int = stored(whole())
    since_ms: int = stored(whole())
    why: str = stored(prose)
    topics: tuple[str, ...] = stored(tuple_of(topic_name))
    """Of the source."""

    @property
    def owed_by(self) -> str:
        """Since which failover the fence is pending, and on which topics, as text."""
        run = f"run {self.run_id} (term {self.term})"
        return f"since {run}, {counted(len(self.topics), 'topic')}: {_some(self.topics)}"

    @property
    def in_words(self) -> str:
        """The pending fence, with what was seen when it was noted: that may have changed since."""
        return f"{self.owed_by}; seen then: {self.why}"


def _some(topics: tuple[str, ...]) -> str:
    return ", ".join(topics[:_SHOWN]) + (" …" if len(topics) > _SHOWN else "")


@record
class PendingLift(StateRecord):
    """A pending lift of a fence: its failover was rolled back while the primary did not answer.

    What exactly is lifted is in :class:`FenceSizesRecord` and :class:`FenceAclsRecord`.
    """

    KEY: ClassVar[str] = "fence-lift"

    run_id: str = stored(name)
    """Of the failover that was rolled back."""
    since_ms: int = stored(whole())
    why: str = stored(prose)
    """Why the fence was not lifted then."""
    topics: tuple[str, ...] = stored(tuple_of(topic_name))
    """Of the source."""

    @property
    def in_words(self) -> str:
        """Which topics are still fenced, and why."""
        some = _some(self.topics)
        fenced = f"{counted(len(self.topics), 'topic', 'is')} fenced"
        return f"run {self.run_id} was rolled back, but {fenced}: {some}"


@record
class FenceSizesRecord(StateRecord):
    """Source topics of which a failover set ``max.message.bytes`` to 0. Never copied.

    `topics` has the value of each topic before; None: the topic had none of its own.
    """

    KEY: ClassVar[str] = "fence-sizes"

    topics: Mapping[str, str | None] = stored(mapping_of(topic_name, optional(text(32))))


@dataclass(frozen=True, slots=True)
class FenceAclsRecord(StateRecord):
    """The ACLs with which a failover fenced the source. Never copied."""

    KEY: ClassVar[str] = "fence-acls"

    acls: frozenset[Acl]

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """See :class:`Body`."""
        return cls(fields.get("acls", acls))

    def to_json(self) -> dict[str, Any]:
        """See :class:`Body`."""
        return {"acls": to_json(self.acls)}


@dataclass(frozen=True, slots=True)
class GuardAclsRecord(FenceAclsRecord):
    """The ACLs that keep clients off the passive target since a turn: the next promotion lifts them."""

    KEY: ClassVar[str] = "guard-acls"


@dataclass(frozen=True, slots=True)
class AclsRecord(StateRecord):
    """What the flow keeps of its newest ACL plan."""

    KEY: ClassVar[str] = "acls"

    plan: AclRecord

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """See :class:`Body`."""
        return cls(AclRecord(**{part: fields.get(part, acls, frozenset()) for part in _PARTS}))

    def to_json(self) -> dict[str, Any]:
        """See :class:`Body`."""
        return {part: to_json(getattr(self.plan, part)) for part in _PARTS}


_acl_texts: Final = row(name, name, text(1024), *[name] * 4)
"""Resource, pattern, empty, principal, host, operation, permission."""
_PARTS: Final = ("made", "held", "left_out", "guard")


def acls(value: Any) -> frozenset[Acl]:
    """ACLs as :func:`drkit.topology.acls.to_json` writes them."""
    entries = tuple_of(_acl_entry)(value)
    try:
        return from_json(entries)
    except ValueError as error:
        raise Malformed(f"an ACL of a kind that does not exist: {error}") from None


def _acl_entry(value: Any) -> dict[str, Any]:
    fields = Fields(value)
    return {
        "acl": fields.get("acl", _acl_texts),
        "names": fields.get("names", tuple_of(name)),
    }
