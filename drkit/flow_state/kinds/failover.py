"""What failovers and the sync of ACLs keep in a flow's state. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, Self

from pydantic import PlainSerializer, TypeAdapter

from drkit.counted import counted
from drkit.flow_state.codec.fields import (
    Count,
    Malformed,
    Many,
    Map,
    Name,
    Prose,
    ShortText,
    TopicName,
    checked,
    listed,
    text,
)
from drkit.flow_state.codec.record import Body, StateRecord, state_record
from drkit.topology.acls import Acl, AclRecord, from_json, to_json

Sizes = Map[TopicName, Annotated[str, checked(text(32))] | None]
"""Topic → its ``max.message.bytes`` before a fence, or None for the default of the brokers."""
_SHOWN: Final = 3


@state_record("promotion")
class PromotionRecord(StateRecord):
    """The failover that promoted the whole flow: from then on the flow does not run."""

    term: Count
    run_id: Name
    at_ms: Count


@state_record("opened")
class OpenedRecord(StateRecord):
    """The newest failover that opened topics, also if none of them is left: a state without it is older."""

    term: Count


@state_record("fence-debt")
class PendingFence(StateRecord):
    """A pending fence: the old primary is to be fenced at the first contact."""

    run_id: Name
    """Of the failover that could not fence."""
    term: Count
    since_ms: Count
    why: Prose
    topics: Many[TopicName]
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


@state_record("fence-lift")
class PendingLift(StateRecord):
    """A pending lift of a fence: its failover was rolled back while the primary did not answer.

    What exactly is lifted is in :class:`FenceSizesRecord` and :class:`FenceAclsRecord`.
    """

    run_id: Name
    """Of the failover that was rolled back."""
    since_ms: Count
    why: Prose
    """Why the fence was not lifted then."""
    topics: Many[TopicName]
    """Of the source."""

    @property
    def in_words(self) -> str:
        """Which topics are still fenced, and why."""
        some = _some(self.topics)
        fenced = f"{counted(len(self.topics), 'topic', 'is')} fenced"
        return f"run {self.run_id} was rolled back, but {fenced}: {some}"


@state_record("fence-sizes")
class FenceSizesRecord(StateRecord):
    """Source topics of which a failover set ``max.message.bytes`` to 0. Never copied.

    `topics` has the value of each topic before; None: the topic had none of its own.
    """

    topics: Sizes


@dataclass(frozen=True, slots=True)
class _AclEntry(Body):
    acl: Annotated[tuple[Name, Name, ShortText, Name, Name, Name, Name], listed(7)]
    """Resource, pattern, empty, principal, host, operation, permission."""
    names: Many[Name]


_entries: Final = TypeAdapter[tuple[_AclEntry, ...]](Many[_AclEntry])


def _acls(value: Any) -> frozenset[Acl]:
    entries = _entries.validate_python(value)
    try:
        return from_json({"acl": each.acl, "names": each.names} for each in entries)
    except ValueError as error:
        raise Malformed(f"an ACL of a kind that does not exist: {error}") from None


Acls = Annotated[frozenset[Acl], checked(_acls), PlainSerializer(to_json)]
"""As :func:`drkit.topology.acls.to_json` writes them."""


@state_record("fence-acls")
class FenceAclsRecord(StateRecord):
    """The ACLs with which a failover fenced the source. Never copied."""

    acls: Acls


@state_record("guard-acls")
class GuardAclsRecord(FenceAclsRecord):
    """The ACLs that keep clients off the passive target since a turn: the next promotion lifts them."""


@dataclass(frozen=True, slots=True)
class _AclPlan(Body):
    made: Acls = frozenset()
    held: Acls = frozenset()
    left_out: Acls = frozenset()
    guard: Acls = frozenset()


@state_record("acls")
class AclsRecord(StateRecord):
    """What the flow keeps of its newest ACL plan."""

    plan: AclRecord

    @classmethod
    def of(cls, raw: Any) -> Self:
        """Return the record; its parts are among its own fields."""
        plan = _AclPlan.of(raw)
        return cls(AclRecord(plan.made, plan.held, plan.left_out, plan.guard))

    def to_json(self) -> dict[str, Any]:
        """Return the parts of the plan."""
        plan = self.plan
        return _AclPlan(plan.made, plan.held, plan.left_out, plan.guard).to_json()
