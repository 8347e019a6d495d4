"""Two clusters with authorizers, a flow between them, and grants as the documentation has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
import re
import shlex
import time
from typing import NamedTuple

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
import pytest

from drkit.cli import main as cli
from drkit.config import ClusterSettings
from drkit.kafka.access.acls import list_acls
from drkit.kafka.clients import confluent_config
from drkit.kafka.groups.requests import listed_groups
from drkit.local.cluster import LocalCluster
from drkit.local.spec import ADMIN
from tests.support.kafka.commits import commit
from tests.support.waiting import eventually

PAGE = Path(__file__).parents[3] / "docs/how-to/security.md"
RECORDS = 500
GROUP = "shop-app"


class Grant(NamedTuple):
    """One operation that a documented command grants."""

    cluster: str
    kind: ResourceType
    name: str
    pattern: ResourcePatternType
    operation: str

    def binding(self) -> AclBinding:
        rights = (AclOperation[constant(self.operation)], AclPermissionType.ALLOW)
        return AclBinding(self.kind, self.name, self.pattern, "User:drkit", "*", *rights)

    def only(self) -> AclBindingFilter:
        rights = (AclOperation[constant(self.operation)], AclPermissionType.ALLOW)
        return AclBindingFilter(self.kind, self.name, self.pattern, "User:drkit", "*", *rights)


def constant(operation: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", operation).upper()


def documented() -> list[Grant]:
    """The commands of the page, one grant per operation."""
    return granted_by(PAGE.read_text(), lambda server: server.partition(":")[0])


def granted_by(text: str, alias_of: Callable[[str], str]) -> list[Grant]:
    """The commands in a text, one grant per operation.

    :param alias_of: the cluster of an address
    """
    found = []
    for line in (line[line.index("kafka-acls") :] for line in text.splitlines() if "kafka-acls " in line):
        words = shlex.split(line)
        said = dict(pairwise(words))
        assert said["--allow-principal"] == "User:drkit"
        kind, name = ResourceType.BROKER, "kafka-cluster"
        if "--topic" in said:
            kind, name = ResourceType.TOPIC, said["--topic"]
        elif "--group" in said:
            kind, name = ResourceType.GROUP, said["--group"]
        elif "--transactional-id" in said:
            kind, name = ResourceType.TRANSACTIONAL_ID, ""
        pattern = (
            ResourcePatternType.PREFIXED
            if said.get("--resource-pattern-type") == "prefixed"
            else ResourcePatternType.LITERAL
        )
        assert said["--command-config"] == "admin.properties"
        alias = alias_of(said["--bootstrap-server"])
        operations = [b for a, b in pairwise(words) if a == "--operation"]
        names = [b for a, b in pairwise(words) if a == "--transactional-id"] or [name]
        found += [Grant(alias, kind, each, pattern, o) for each in names for o in operations]
    return found


class Locked:
    """Two locked clusters, a flow between them, and who may what."""

    def __init__(self, clusters: dict[str, LocalCluster], folder: Path) -> None:
        self.clusters = clusters
        self.settings = {a: self._settings(c, ADMIN) for a, c in clusters.items()}
        self.admins = {a: AdminClient(confluent_config(s)) for a, s in self.settings.items()}
        self.config = folder / "drkit.toml"
        text = ""
        for alias, cluster in clusters.items():
            text += f'[clusters.{alias}]\nbootstrap_servers = "{cluster.bootstrap()}"\n'
            text += f"[clusters.{alias}.client]\n"
            client = cluster.client_properties("drkit")
            text += "".join(f'"{k}" = "{v}"\n' for k, v in client.items())
        text += '[[flows]]\nsource = "primary"\ntarget = "standby"\ntasks = 1\n'
        text += 'topics = ["shop-orders", "shop-clicks"]\ngroups = ["shop-.*"]\n'
        text += "refresh_topics_interval_seconds = 2\ncheckpoint_interval_seconds = 1\n"
        self.config.write_text(text)

    @staticmethod
    def _settings(cluster: LocalCluster, user: str) -> ClusterSettings:
        return ClusterSettings(
            alias=cluster.spec.name,
            bootstrap_servers=cluster.bootstrap(),
            client=cluster.client_properties(user),
        )

    def grant(self, *grants: Grant) -> None:
        for alias, admin in self.admins.items():
            wanted = [g.binding() for g in grants if g.cluster == alias]
            for done in admin.create_acls(wanted).values() if wanted else ():
                done.result(30)

    def take(self, grant: Grant) -> None:
        for done in self.admins[grant.cluster].delete_acls([grant.only()]).values():
            assert len(done.result(30)) == 1

    def alias(self, server: str) -> str:
        return next(a for a, c in self.clusters.items() if c.bootstrap() == server)

    def use(self) -> None:
        """An application reads some records of the source; it has an ACL for that."""
        rights = (AclOperation.READ, AclPermissionType.ALLOW)
        at = (ResourceType.TOPIC, "shop-orders", ResourcePatternType.LITERAL)
        for done in self.admins["primary"].create_acls([AclBinding(*at, "User:app", "*", *rights)]).values():
            done.result(30)
        consumer = Consumer({**confluent_config(self.settings["primary"]), "group.id": GROUP})
        commit(consumer, TopicPartition("shop-orders", 0, 7))
        consumer.close()

    def clean(self) -> None:
        """Remove all permissions; `app` keeps its own on the source."""
        anything = AclBindingFilter(
            ResourceType.ANY, None, ResourcePatternType.ANY, "User:drkit", None,  # type: ignore[arg-type]
            AclOperation.ANY, AclPermissionType.ANY,
        )  # fmt: skip  # the library's types do not know that None means any
        for admin in self.admins.values():
            for done in admin.delete_acls([anything]).values():
                done.result(30)

    def topics(self, alias: str) -> set[str]:
        return set(self.admins[alias].list_topics(timeout=30).topics)

    def wait_granted(self, capsys: pytest.CaptureFixture[str]) -> None:
        def fine() -> bool:
            code = cli.run(["config", "check", "--connect", "--config", str(self.config)])
            capsys.readouterr()
            return code == 0

        eventually(fine, 20, "the documented permissions suffice for the check")


class Arrivals:
    """Waits for everything that a run carries to the target."""

    def __init__(self, locked: Locked) -> None:
        self._locked = locked
        self._asked = 0.0
        self.missing = ["all"]

    def all(self) -> bool:
        """Asked at most once a second."""
        if time.monotonic() - self._asked < 1:
            return False
        self._asked = time.monotonic()
        self.missing = [name for name, there in self._look() if not there]
        return not self.missing

    def _look(self) -> Iterator[tuple[str, bool]]:
        settings = self._locked.settings["standby"]
        topics = self._locked.topics("standby")
        yield "heartbeats", "primary.heartbeats" in topics
        yield "checkpoints", "primary.checkpoints.internal" in topics
        yield "ACLs", any(a.principal == "User:app" for a in list_acls(settings).acls)
        yield "group", GROUP in listed_groups(settings)
        consumer = Consumer({**confluent_config(settings), "group.id": "ends"})
        names = [n for n in ("shop-orders", "shop-clicks") if n in topics]
        at = [TopicPartition(n, p) for n in names for p in range(2)]
        ends = [consumer.get_watermark_offsets(p, timeout=30)[1] for p in at]
        consumer.close()
        yield "records", sum(ends) >= RECORDS
