"""Each role of docs/how-to/acls.md on brokers with an authorizer.

It has exactly its ACLs, and the command's main path works.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
import json
from pathlib import Path
import re
import subprocess
import sys
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
import pytest

from drkit.cli import main as cli
from drkit.config import ClusterSettings, read
from drkit.detect.agents import AgentNote, Hold
from drkit.detect.noticeboard import read_notes
from drkit.detect.seen import Sight
from drkit.detect.votes import Vote
from drkit.kafka.admin import Cluster
from drkit.kafka.clients import confluent_config
from drkit.kafka.groups.requests import listed_groups
from drkit.local.cluster import LocalCluster, start_together
from drkit.local.spec import ADMIN, ClusterSpec
from tests.support.kafka.commits import commit
from tests.support.waiting import eventually

ROOT: Final = Path(__file__).parents[3]
PAGE: Final = ROOT / "docs/how-to/acls.md"
ROLES: Final = ("replicate", "watch", "failover", "agent")
TOPIC, GROUP = "shop-orders", "shop-app"
KINDS: Final = {
    "topic": ResourceType.TOPIC, "group": ResourceType.GROUP,
    "transactional id": ResourceType.TRANSACTIONAL_ID,
}  # fmt: skip


def documented(role: str) -> Iterator[tuple[str, AclBinding]]:
    """The ACLs of a role's table, by cluster."""
    table = PAGE.read_text().split(f"<!-- role: {role} -->\n")[1].split("\n\n")[0]
    for row in table.splitlines()[2:]:
        cluster, resource, operations, _ = (cell.strip() for cell in row.strip("|").split("|"))
        kind, name, pattern = ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL
        if found := re.fullmatch(r"(.+) `(.+)`", resource):
            kind, name = KINDS[found[1]], found[2]
        if name.endswith("*") and name != "*":
            name, pattern = name[:-1], ResourcePatternType.PREFIXED
        for operation in operations.split(", "):
            rights = AclOperation[operation], AclPermissionType.ALLOW
            yield cluster, AclBinding(kind, name, pattern, f"User:{role}", "*", *rights)


class Site:
    """Two locked clusters, a principal for each role, and an application."""

    def __init__(self, folder: Path) -> None:
        users = {name: f"{name}-password" for name in (ADMIN, *ROLES, "app")}
        self.folder = folder
        self.clusters = {
            a: LocalCluster(ClusterSpec(a, sasl=True, authorizer=True, mechanisms=("PLAIN",), users=users))
            for a in ("primary", "standby")
        }

    def settings(self, alias: str, user: str) -> ClusterSettings:
        cluster = self.clusters[alias]
        return ClusterSettings(alias=alias, bootstrap_servers=cluster.bootstrap(),
                               client=cluster.client_properties(user, "PLAIN"))  # fmt: skip

    def grant(self) -> None:
        wanted = [pair for role in ROLES for pair in documented(role)]
        for operation in ("READ", "WRITE"):
            rights = AclOperation[operation], AclPermissionType.ALLOW
            kinds = ((ResourceType.TOPIC, "shop-"), (ResourceType.GROUP, "shop-"))
            wanted += [
                ("primary", AclBinding(k, n, ResourcePatternType.PREFIXED, "User:app", "*", *rights))
                for k, n in kinds
                if operation == "READ" or k is ResourceType.TOPIC
            ]
        for alias in self.clusters:
            admin = AdminClient(confluent_config(self.settings(alias, ADMIN)))
            for done in admin.create_acls([b for a, b in wanted if a == alias]).values():
                done.result(30)

    def fill(self) -> None:
        app = confluent_config(self.settings("primary", "app"))
        admin = AdminClient(confluent_config(self.settings("primary", ADMIN)))
        admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(30)
        producer = Producer(app)
        for number in range(100):
            producer.produce(TOPIC, f"value {number}".encode())
        assert producer.flush(30) == 0
        consumer = Consumer({**app, "group.id": GROUP})
        commit(consumer, TopicPartition(TOPIC, 0, 7))
        consumer.close()

    def config(self, role: str) -> Path:
        """The configuration file of a role."""
        text = ""
        for alias, cluster in self.clusters.items():
            text += f'[clusters.{alias}]\nbootstrap_servers = "{cluster.bootstrap()}"\n'
            text += f"[clusters.{alias}.client]\n"
            text += "".join(f'"{k}" = "{v}"\n' for k, v in cluster.client_properties(role, "PLAIN").items())
        more = {
            "[[flows]]": 'source = "primary"\ntarget = "standby"\ntopics = ["shop-.*"]\n'
            'groups = ["shop-.*"]\n'
            "tasks = 1\nbuckets = 2\nrefresh_topics_interval_seconds = 2\ncheckpoint_interval_seconds = 1\n",
            "[failover]": f'journal_folder = "{self.folder / "journal"}"\nverify_seconds = 0.2\n'
            "rpo_seconds = 1000\n",
            "[failover.fence]": 'means = "acl"\n'
            'canary = { "sasl.username" = "app", "sasl.password" = "app-password" }\n',
            "[watch]": 'observers = ["obs-a"]\nname = "obs-a"\n',
            "[fence_agent]": 'agents = ["p-1"]\nname = "p-1"\ncommand = ["true"]\n'
            f'state_file = "{self.folder / "agent.json"}"\n',
        }
        file = self.folder / f"{role}.toml"
        file.write_text(text + "".join(f"{table}\n{body}" for table, body in more.items()))
        return file

    @contextmanager
    def running(self, role: str, *words: str) -> Iterator[Path]:
        """A process of its own until the end; what it says is in the file."""
        said, file = self.folder / f"{role}.log", self.config(role)
        given = self.folder / f"{role}.settings"
        given.write_text(json.dumps(read(file, {}).settings.model_dump(mode="json")))
        with said.open("w") as out, given.open() as settings:
            process = subprocess.Popen(
                [sys.executable, "-m", *words], stdin=settings, stdout=out, stderr=out, cwd=ROOT
            )
            try:
                yield said
                assert process.poll() is None, said.read_text()
            finally:
                process.kill()
                process.wait(30)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    found = Site(tmp_path_factory.mktemp("roles"))
    start_together(*found.clusters.values())
    try:
        found.grant()
        found.fill()
        yield found
    finally:
        for cluster in found.clusters.values():
            cluster.stop()


@pytest.mark.wide
@pytest.mark.timeout(600)
def test_each_role_does_its_work_with_exactly_its_permissions(site: Site, capsys: pytest.CaptureFixture[str]):
    """Copy, watch with a fence agent, fail over: no request is refused."""
    admin = Cluster.connect(site.settings("standby", ADMIN))
    flow = read(site.config("watch"), {}).settings.flows[0]

    def copied() -> bool:
        return GROUP in listed_groups(admin.settings)

    def voted() -> bool:
        return any(n.body.sight is Sight.CLEAR for n in read_notes(admin, flow).all(Vote))

    def leased() -> bool:
        return any(n.body.hold is Hold.LEASED for n in read_notes(admin, flow).all(AgentNote))

    def allowed() -> bool:
        code = cli.run(["config", "check", "--connect", "--config", str(site.config("replicate"))])
        return code == 0 or not capsys.readouterr()

    # All that `drkit replicate` needs. That a run needs no more is in tests/spark/replicate.
    eventually(allowed, 60, "the permissions of the role replicate")
    with site.running("replicate", "drkit.replicate.solo") as replicated:
        eventually(copied, 120, "the group's position on the standby")
        watch = [f"--config={site.config('watch')}", "watch"]
        agent_ = [f"--config={site.config('agent')}", "fence-agent"]
        with (
            site.running("watch", "drkit", *watch) as watched,
            site.running("agent", "drkit", *agent_) as agent,
        ):
            eventually(voted, 120, "a vote that sees every broker work")
            eventually(leased, 120, "the agent's lease")
        command = [sys.executable, "-m", "drkit", "--json", "--config", str(site.config("failover"))]
        done = subprocess.run(
            [*command, "failover", "--group", GROUP, "--yes"],
            capture_output=True, text=True, cwd=ROOT, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
    assert report["state"] == "done"
    assert f"ALLOW User:app WRITE on topic {TOPIC}" in report["acls"]["granted"]
    assert report["acls"]["left_out"] == []
    said = "".join(f.read_text() for f in (replicated, watched, agent)) + done.stderr
    for refusal in ("AUTHORIZATION_FAILED", "permissions_missing", "not authorized", "Traceback"):
        assert refusal not in said, [line for line in said.splitlines() if refusal in line][:5]
