"""The choice between the two fences of a cluster, by the settings and its authorizer.

An authorizer that hides its ACLs is not the same as none: which fence a return needs is unknown then. Only
what cannot wait for a person is fenced by size, and only where the settings leave the choice to drkit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from drkit.config import ClusterSettings
from drkit.errors import NotAuthorized, Refused
from drkit.failover.fencing.methods import (
    ACL,
    SIZE,
    AclFence,
    FenceMethod,
    SizeFence,
    bare_topics,
    recorded_acls,
)
from drkit.failover.fencing.proof import Rights, Worth, worth_of
from drkit.flow_state.topic import StateTopic
from drkit.kafka.access.acls import NoAuthorizer, is_open, list_acls, own_principals
from drkit.kafka.admin import Cluster

AUTO: Final = "auto"


class Wish(NamedTuple):
    """The rules for the choice of a fence."""

    means: str
    """The value of ``means`` in [failover.fence]."""
    canary: Mapping[str, str]
    """Client properties of the ordinary producer that proves the fence, or empty for drkit's own."""
    guesses: bool = True
    """Whether "auto" may take the size where the ACLs are hidden: at night a fence that drkit cannot copy
    through is worth more than none. "acl" never does: a person has chosen it."""
    again: str = ""
    """The command to suggest after a refusal."""


def choose(
    wish: Wish, settings: ClusterSettings, state: StateTopic, topics: Collection[str] = ()
) -> FenceMethod | None:
    """Return the means that the settings name; None for "none".

    :param topics: the topics to fence: "auto" uses ACLs only if they certainly grant access to no other
        principal and refuse the canary
    :raises Refused: the canary can prove nothing; or the ACLs are hidden, and it may not be guessed
    :raises DrkitError: the cluster does not answer
    """
    means, hidden = wish.means, ""
    try:
        rights = canary_rights(settings, state, wish.canary)
    except NotAuthorized:
        if means == ACL or (means == AUTO and not wish.guesses):
            raise hidden_acls(settings, wish.again) from None
        rights, hidden = None, f"drkit may not list the ACLs of {settings.alias}"
    worth = rights and worth_of(settings, wish.canary, topics, rights._replace(foreign=means == "none"))
    if means == AUTO:
        if hidden:
            return SizeFence(settings, state, hidden)
        means = SIZE
        if worth is Worth.PROOF:
            bare = bare_topics(topics, list_acls(settings).acls)
            means = ACL if not bare or is_open(Cluster.connect(settings)) is not None else SIZE
    if means == ACL:
        return AclFence(settings, state, spare_own=bool(wish.canary))
    return SizeFence(settings, state) if means == SIZE else None


def canary_rights(settings: ClusterSettings, state: StateTopic, canary: Mapping[str, str]) -> Rights | None:
    """Return the input of an authorizer, or None without one. Raises NotAuthorized: it hides its ACLs."""
    try:
        existing = list_acls(settings).acls - recorded_acls(state)
    except NoAuthorizer:
        return None
    as_canary = settings.with_client(canary)
    return Rights(existing, own_principals(as_canary), is_open(Cluster.connect(settings)))


def hidden_acls(settings: ClusterSettings, again: str) -> Refused:
    """Return the refusal where the ACLs that a fence needs are hidden; `again`: the command to suggest."""
    evidence = "it has an authorizer, which refuses drkit's principal DESCRIBE on the cluster"
    return Refused("acls_not_listable", where=settings.alias, evidence=evidence, again=again)
