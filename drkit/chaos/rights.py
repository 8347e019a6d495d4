"""The rights of drkit and of applications on a cluster with an authorizer, and how drkit's are taken away."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

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
from drkit.kafka.client_config import confluent_config

DRKIT, APPLICATION = "drkit", "app"
"""Users of the local clusters."""
_SECONDS: Final = 20.0
Wait = Callable[[Callable[[], bool], str, float], None]
"""Waits until a condition is true: what it waits for, and how long at most."""


def _allow(
    user: str, resource: ResourceType, name: str = "*", operation: AclOperation = AclOperation.ALL
) -> dict[str, Any]:
    """Return the fields of an ACL; without a name on all resources of the kind."""
    pattern = {"restype": resource, "name": name, "resource_pattern_type": ResourcePatternType.LITERAL}
    right = {"operation": operation, "permission_type": AclPermissionType.ALLOW}
    return {"principal": f"User:{user}", "host": "*", **pattern, **right}


_OF_DRKIT: Final = _allow(DRKIT, ResourceType.BROKER, "kafka-cluster")
"""Its right on a cluster as a whole: to change ACLs, to end transactions of others."""


def _change(admin: ClusterSettings, verb: Literal["create_acls", "delete_acls"], acls: Sequence[Any]) -> None:
    client = AdminClient({**confluent_config(admin), "log_level": 0})
    for changed in getattr(client, verb)(acls).values():
        changed.result(_SECONDS)


def grant_rights(admin: ClusterSettings, topics: Sequence[str]) -> None:
    """Give drkit every right on a cluster, and applications those on topics and all groups."""
    kinds = ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
    acls = [_allow(user, kind) for user in (DRKIT, APPLICATION) for kind in kinds]
    acls += [_allow(DRKIT, ResourceType.TOPIC), _OF_DRKIT]
    for operation in (AclOperation.READ, AclOperation.WRITE):
        acls += [_allow(APPLICATION, ResourceType.TOPIC, topic, operation) for topic in topics]
    _change(admin, "create_acls", [AclBinding(**fields) for fields in acls])


def revoke_rights(
    admin: ClusterSettings, drkit: ClusterSettings, wait_for: Wait
) -> tuple[str, Callable[[], object]]:
    """Take drkit's right on the cluster; return evidence that it is taken, and what gives it back."""
    _change(admin, "delete_acls", [AclBindingFilter(**_OF_DRKIT)])
    wait_for(lambda: _are_revoked(drkit), f"a refusal by {admin.alias}", _SECONDS)

    def restore() -> None:
        _change(admin, "create_acls", [AclBinding(**_OF_DRKIT)])
        wait_for(lambda: not _are_revoked(drkit), f"rights on {admin.alias}", _SECONDS)

    return f"{admin.alias} refuses drkit to list ACLs", restore


def _are_revoked(drkit: ClusterSettings) -> bool:
    try:
        list_acls(drkit)
    except NotAuthorized:
        return True
    return False
