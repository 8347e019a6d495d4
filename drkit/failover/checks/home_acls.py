"""ACLs of a side to which clients return, that the side where they are now does not have."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from drkit.checkpoints.other_groups import is_consumer
from drkit.counted import counted, first_of
from drkit.errors import DrkitError, Refused
from drkit.failover.core.context import Context
from drkit.failover.core.request import RunRequest
from drkit.failover.fencing.methods import recorded_acls
from drkit.flow_state.records import GuardAclsRecord
from drkit.kafka.access.acls import NoAuthorizer, is_open, list_acls, own_principal, scram_users
from drkit.kafka.admin import Cluster
from drkit.kafka.groups.requests import Groups, ListedGroup
from drkit.kafka.topics import topic_names
from drkit.topology.acls import ANY_NAME, Acl, PatternKind, ResourceKind
from drkit.topology.acls_only_home import HomeScope, OnlyHome, only_home

REMOVE: Final = "remove"
KEEP: Final = "keep"
_INTERNAL: Final = ("__", "drkit-", "mm2-drkit-")


class HomeAcls(NamedTuple):
    """The result of the comparison."""

    only_home: tuple[OnlyHome, ...] = ()
    unknown: str = ""
    """The reason why they could not be compared, or empty if they were or there is nothing to compare."""
    own_unknown: bool = False
    """Whether drkit's own principal at home is not known: its ACLs look like those of a client."""
    not_compared: tuple[str, ...] = ()
    """What a person has to check: drkit does not compare it, or only home has it and it stays."""


NOT_COMPARED: Final = HomeAcls()


def refused(found: HomeAcls, request: RunRequest, sides: tuple[str, str]) -> Iterator[Refused]:
    """Yield why a switchover home is refused for its ACLs; `sides`: aliases of source and home. Pure."""
    here, home = sides
    if request.acls_only_home == KEEP:
        return
    if found.unknown:
        yield Refused("home_acls_unknown", where=home, evidence=found.unknown)
    elif found.only_home and request.acls_only_home != REMOVE:
        number = counted(len(found.only_home), "ACL")
        yield Refused(
            "home_acls_wider", where=home, evidence=f"{number}: {first_of(found.only_home)}", here=here
        )
    elif wider := [o for o in found.only_home if o.others]:
        yield Refused("home_acls_shared", where=home, evidence=first_of(wider))
    elif found.only_home and found.own_unknown:
        yield Refused(
            "home_acls_of_drkit", where=home, evidence="drkit's principal there is not known", home=home
        )


def look_home_acls(context: Context, returning: Collection[str]) -> HomeAcls:
    """Compare the ACLs of both sides if topics fail back in a switchover; else return an empty result.

    :param returning: topics of the target whose copying began with a failback
    """
    if not (context.request.planned and returning and context.source() is not None):
        return HomeAcls()
    try:
        return _compared(context, frozenset(returning))
    except NoAuthorizer:
        return HomeAcls()
    except DrkitError as error:
        return HomeAcls(unknown=f"{error.where}: {error.what}: {error.evidence}")


def _compared(context: Context, returning: frozenset[str]) -> HomeAcls:
    home, active = list_acls(context.target_settings).acls, list_acls(context.source_settings).acls
    own, groups = _own(context), _groups(context, home)
    topics = topic_names(context.target_admin())
    listed: dict[str, ListedGroup] = context.run(Groups(context.target).listed)
    known = {g for g, x in listed.items() if is_consumer(x)} | _named(home)
    scope = HomeScope(
        returning,
        groups,
        frozenset(p for p in own if p is not None),
        frozenset(n for n in topics if n not in returning and not n.startswith(_INTERNAL)),
        frozenset(g for g in known if not g.startswith(_INTERNAL)) - groups,
        is_open=bool(is_open(Cluster.connect(context.source_settings))),
        is_whole=context.scope.whole_flow,
    )
    guard, fence = recorded_acls(context.state, GuardAclsRecord), recorded_acls(context.state)
    wider = only_home(home - guard, active - fence, scope)
    return HomeAcls(tuple(wider), own_unknown=None in own, not_compared=tuple(_not_compared(context)))


def _not_compared(context: Context) -> Iterator[str]:
    try:
        users = scram_users(context.target_settings) - scram_users(context.source_settings)
    except DrkitError as error:
        yield f"SCRAM users: {error.what}: {error.evidence}"
    else:
        if users:
            yield f"SCRAM users that only {context.flow.target} has: {first_of(sorted(users))}"
    yield "quotas, delegation tokens and ACLs of the cluster itself"


def _groups(context: Context, home: Collection[Acl]) -> frozenset[str]:
    if not context.scope.whole_flow:
        return frozenset(context.scope.groups)
    accepts = context.flow.group_filter.accepts
    return frozenset(context.scope.groups) | {g for g in _named(home) if accepts(g)}


def _named(acls: Collection[Acl]) -> set[str]:
    return {
        a.name for a in acls
        if a.resource is ResourceKind.GROUP and a.pattern is PatternKind.LITERAL and a.name != ANY_NAME
    }  # fmt: skip


def _own(context: Context) -> set[str | None]:
    cluster, alias = context.settings.cluster(context.flow.target), context.flow.target
    clients = [context.flow.target_admin]
    for flow in context.settings.flows:
        clients += [flow.source_admin, flow.source_consumer] if flow.source == alias else []
        clients += [flow.target_admin, flow.target_producer] if flow.target == alias else []
    return {own_principal(cluster.with_client(properties)) for properties in clients}
