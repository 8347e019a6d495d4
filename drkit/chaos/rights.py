"""The rights of drkit and of applications on a cluster with an authorizer, and how drkit's are taken away."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from drkit.config import ClusterSettings
from drkit.errors import NotAuthorized
from drkit.kafka.access.acls import list_acls
from drkit.kafka.clients import confluent_config

DRKIT, APPLICATION = "drkit", "app"
"""Users of the local clusters."""
_ON_CLUSTER: Final[dict[str, Any]] = {"restype": ResourceType.BROKER, "name": "kafka-cluster"}
_SECONDS: Final = 20.0
Wait = Callable[[Callable[[], bool], str, float], None]
"""Waits until a condition is true: what it waits for, and how long at most."""
Revoked = tuple[str, Callable[[], object]]


def _admin(settings: ClusterSettings) -> AdminClient:
    """Return a client, which must outlive the answers."""
    return AdminClient({**confluent_config(settings), "log_level": 0})


def _allow(user: str, operation: AclOperation = AclOperation.ALL, **resource: Any) -> dict[str, Any]:
    """Return the fields of an ACL; the resource is all of its kind if it has no name."""
    fields = {"name": "*", "resource_pattern_type": ResourcePatternType.LITERAL, **resource}
    permission = {"operation": operation, "permission_type": AclPermissionType.ALLOW}
    return {"principal": f"User:{user}", "host": "*", **permission, **fields}


def grant_rights(admin: ClusterSettings, topics: Sequence[str]) -> None:
    """Give drkit every right on a cluster, and applications those on topics and all groups."""
    kinds = ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
    acls = [_allow(user, restype=kind) for user in (DRKIT, APPLICATION) for kind in kinds]
    acls += [_allow(DRKIT, restype=ResourceType.TOPIC), _allow(DRKIT, **_ON_CLUSTER)]
    for operation in (AclOperation.READ, AclOperation.WRITE):
        acls += [_allow(APPLICATION, operation, restype=ResourceType.TOPIC, name=topic) for topic in topics]
    client = _admin(admin)
    for created in client.create_acls([AclBinding(**fields) for fields in acls]).values():
        created.result(_SECONDS)


def revoke_rights(admin: ClusterSettings, drkit: ClusterSettings, wait_for: Wait) -> Revoked:
    """Take what is a right on the cluster as a whole: to change ACLs, to end transactions of others.

    :return: evidence that it is taken, and what gives it back
    """
    fields = _allow(DRKIT, **_ON_CLUSTER)
    client = _admin(admin)
    [deleted] = client.delete_acls([AclBindingFilter(**fields)]).values()
    deleted.result(_SECONDS)
    wait_for(lambda: _are_revoked(drkit), f"a refusal by {admin.alias}", _SECONDS)

    def restore() -> None:
        [created] = client.create_acls([AclBinding(**fields)]).values()
        created.result(_SECONDS)
        wait_for(lambda: not _are_revoked(drkit), f"rights on {admin.alias}", _SECONDS)

    return f"{admin.alias} refuses drkit to list ACLs", restore


def _are_revoked(drkit: ClusterSettings) -> bool:
    try:
        list_acls(drkit)
    except NotAuthorized:
        return True
    return False
