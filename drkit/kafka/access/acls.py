"""ACLs of a cluster: list, create, delete.

By raw requests: confluent-kafka (2.16) answers "no ACLs" also when the broker refused to list them or has no
authorizer, and code that follows deletions must never take a refusal for an empty list.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from kafka.protocol.admin import DescribeUserScramCredentialsRequest
from kafka.protocol.admin.acl import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest

from drkit.config import ClusterSettings
from drkit.errors import DrkitError, Failed, NotAuthorized
from drkit.kafka import codes
from drkit.kafka.admin import Cluster
from drkit.kafka.raw import RawCluster, ask_once
from drkit.kafka.security.settings import read_security
from drkit.kafka.topics import broker_config
from drkit.topology.acls import Acl, AclOperation, PatternKind, Permission, ResourceKind

_ANY: Final = 1
_AT_ONCE: Final = 5000
"""ACLs in one request: they come into force together. Kafka's controller takes at most 10,000."""
_OPEN: Final = "allow.everyone.if.no.acl.found"
_KAFKAS_OWN: Final = frozenset({
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
})  # fmt: skip
"""Authorizers that are closed unless that setting opens them; other authorizers are unknown."""
_BY_NAME: Final = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})

# Numbers of the protocol (org.apache.kafka.common.resource, .acl).
_RESOURCES: Final = {2: ResourceKind.TOPIC, 3: ResourceKind.GROUP, 5: ResourceKind.TRANSACTIONAL_ID}
"""Those whose ACLs are listed."""
_PATTERNS: Final = {3: PatternKind.LITERAL, 4: PatternKind.PREFIXED}
_PERMISSIONS: Final = {2: Permission.DENY, 3: Permission.ALLOW}
OPERATIONS: Final = {
    2: AclOperation.ALL,
    3: AclOperation.READ,
    4: AclOperation.WRITE,
    5: AclOperation.CREATE,
    6: AclOperation.DELETE,
    7: AclOperation.ALTER,
    8: AclOperation.DESCRIBE,
    10: AclOperation.DESCRIBE_CONFIGS,
    11: AclOperation.ALTER_CONFIGS,
    15: AclOperation.TWO_PHASE_COMMIT,
}
_NUMBERS: Final[dict[str, int]] = {ResourceKind.CLUSTER: 4} | {
    kind: number
    for table in (_RESOURCES, _PATTERNS, _PERMISSIONS, OPERATIONS)
    for number, kind in table.items()
}


class NoAuthorizer(Failed):
    """The cluster's brokers have no authorizer: there are no ACLs."""


class ListedAcls(NamedTuple):
    """The ACLs on topics, groups and transactional ids; ``unknown``: with operations newer than drkit."""

    acls: frozenset[Acl]
    unknown: tuple[str, ...]


def list_acls(settings: ClusterSettings) -> ListedAcls:
    """All ACLs on topics, groups and transactional ids.

    :raises NoAuthorizer: the brokers have none
    :raises NotAuthorized: drkit lacks DESCRIBE on the cluster
    :raises ClusterUnreachable: no answer
    """
    found: ListedAcls = _ask(settings, _list)
    return found


def create_acls(settings: ClusterSettings, acls: Sequence[Acl]) -> dict[Acl, DrkitError]:
    """Create ACLs; one that exists already is no failure. Returns what was refused.

    :raises ClusterUnreachable: no answer
    """
    return _change(settings, acls, _create)


def delete_acls(settings: ClusterSettings, acls: Sequence[Acl]) -> dict[Acl, DrkitError]:
    """Delete exactly these ACLs; one that is gone already is no failure. Returns what was refused.

    :raises ClusterUnreachable: no answer
    """
    return _change(settings, acls, _delete)


def own_principal(settings: ClusterSettings) -> str | None:
    """The principal that the brokers see for drkit; None where the settings do not show it."""
    if settings.own_principal is not None:
        return settings.own_principal
    security = read_security(settings)
    if security.protocol == "PLAINTEXT":
        return "User:ANONYMOUS"
    sasl = security.sasl
    return f"User:{sasl.username}" if sasl and sasl.mechanism in _BY_NAME and sasl.username else None


def own_principals(*settings: ClusterSettings) -> frozenset[str]:
    """The principals of drkit's clients; empty when one of them is unknown."""
    found = {own_principal(s) for s in settings}
    return frozenset(p for p in found if p is not None) if None not in found else frozenset()


def is_open(cluster: Cluster) -> bool | None:
    """Return whether all principals may do everything where no ACL exists; None: unknown.

    Brokers show that the setting exists, but hide its value, as with every name they do not know.
    """
    said = cluster.settings.allow_everyone_if_no_acl_found
    if said is not None:
        return said
    try:
        found = broker_config(cluster)
    except NotAuthorized:
        return None
    authorizer = found.get("authorizer.class.name")
    is_kafkas = authorizer is not None and authorizer.value in _KAFKAS_OWN
    return False if is_kafkas and _OPEN not in found else None


def _ask(settings: ClusterSettings, question: Callable[..., Awaitable[Any]], *args: object) -> Any:
    what = f"ask {settings.alias} for its ACLs"
    return ask_once(settings, "acls", lambda cluster: question(cluster, settings.alias, *args), what=what)


async def _list(cluster: RawCluster, alias: str) -> ListedAcls:
    acls, unknown = set(), []
    for number, resource in _RESOURCES.items():
        response = await cluster.send(
            DescribeAclsRequest(
                resource_type_filter=number,
                resource_name_filter=None,
                pattern_type_filter=_ANY,
                principal_filter=None,
                host_filter=None,
                operation=_ANY,
                permission_type=_ANY,
            )
        )
        if response.error_code:
            raise _error(alias, "list ACLs", response.error_code, response.error_message, "DESCRIBE")
        for listed in response.resources:
            for acl in listed.acls:
                try:
                    kinds = (
                        _PATTERNS[listed.pattern_type],
                        OPERATIONS[acl.operation],
                        _PERMISSIONS[acl.permission_type],
                    )
                except KeyError:
                    unknown.append(
                        f"operation {acl.operation} on {resource} {listed.resource_name} for {acl.principal}"
                    )
                    continue
                acls.add(Acl(resource, kinds[0], listed.resource_name, acl.principal, acl.host, *kinds[1:]))
    return ListedAcls(frozenset(acls), tuple(sorted(unknown)))


Changed = dict[Acl, DrkitError]


def _change(
    settings: ClusterSettings,
    acls: Sequence[Acl],
    change: Callable[..., Awaitable[Iterable[tuple[int, str]]]],
) -> Changed:
    refused: Changed = {}
    for at in range(0, len(acls), _AT_ONCE):
        some = acls[at : at + _AT_ONCE]
        for acl, (code, message) in zip(some, _ask(settings, change, some), strict=True):
            if code:
                refused[acl] = _error(settings.alias, str(acl), code, message, "ALTER")
    return refused


def _fields(acl: Acl) -> tuple[Any, ...]:
    """Return the fields of an ACL, in the order of each request about one."""
    what, rule = (_NUMBERS[acl.resource], acl.name, _NUMBERS[acl.pattern]), (acl.operation, acl.permission)
    return *what, acl.principal, acl.host, *map(_NUMBERS.__getitem__, rule)


async def _create(cluster: RawCluster, _alias: str, acls: Sequence[Acl]) -> list[tuple[int, str]]:
    creations = [CreateAclsRequest.AclCreation(*_fields(acl)) for acl in acls]
    answer = await cluster.send(CreateAclsRequest(creations=creations))
    return [(r.error_code, r.error_message) for r in answer.results]


async def _delete(cluster: RawCluster, _alias: str, acls: Sequence[Acl]) -> list[tuple[int, str]]:
    filters = [DeleteAclsRequest.DeleteAclsFilter(*_fields(acl)) for acl in acls]
    answer = await cluster.send(DeleteAclsRequest(filters=filters))
    found = []
    for result in answer.filter_results:
        errors = [result, *result.matching_acls]
        worst = next((e for e in errors if e.error_code), result)
        found.append((worst.error_code, worst.error_message))
    return found


def _error(alias: str, what: str, code: int, message: str | None, operation: str) -> DrkitError:
    is_refused = code == codes.CLUSTER_AUTHORIZATION_FAILED
    # The text of such a refusal is a broker's request object, thousands of characters.
    text = "CLUSTER_AUTHORIZATION_FAILED" if is_refused else message or "no text"
    evidence = f"error {code}: {text}"
    if code == codes.SECURITY_DISABLED:
        return NoAuthorizer("no_authorizer", where=alias, evidence=evidence, alias=alias)
    kind = NotAuthorized if is_refused else Failed
    hint = f"grant drkit's principal {operation} on the cluster (ACL), or set sync_topic_acls = false"
    return kind("cluster_request_failed", where=alias, evidence=evidence, hint=hint, what=what)


def scram_users(settings: ClusterSettings) -> frozenset[str]:
    """Return the users with SCRAM credentials on a cluster; no broker reveals the credentials.

    :raises Failed: the brokers refuse: drkit's principal lacks DESCRIBE on the cluster
    :raises ClusterUnreachable: no answer
    """

    async def question(cluster: RawCluster) -> frozenset[str]:
        answer = await cluster.send(DescribeUserScramCredentialsRequest(users=None))
        if answer.error_code:
            evidence = f"error {answer.error_code}: {answer.error_message or 'no text'}"
            raise Failed("scram_users_unknown", where=settings.alias, evidence=evidence)
        return frozenset(result.user for result in answer.results)

    return ask_once(settings, "users", question, what=f"ask {settings.alias} for its users")
