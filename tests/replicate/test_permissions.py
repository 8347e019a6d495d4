"""The permissions in docs/security.md are enough, each of them is asked for, and secrets stay secret."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
import json
import os
from pathlib import Path
import re
import shlex
import subprocess
import sys
from typing import NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
import pytest

from drkit.cli import main as cli
from drkit.config import ClusterSettings
from drkit.kafka.client_config import confluent_config
from drkit.local.cluster import LocalCluster, start_together
from drkit.local.spec import ADMIN, ClusterSpec
from drkit.replicate.preflight import documentation
from tests.replicate.process import eventually

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
SECRET = "known-to-nobody-7f3a"
RECORDS = 500


class Grant(NamedTuple):
    """One operation that a documented command grants."""

    cluster: str
    kind: ResourceType
    name: str
    pattern: ResourcePatternType
    operation: str

    def binding(self) -> AclBinding:
        rights = (AclOperation[_constant(self.operation)], AclPermissionType.ALLOW)
        return AclBinding(self.kind, self.name, self.pattern, "User:drkit", "*", *rights)

    def only(self) -> AclBindingFilter:
        rights = (AclOperation[_constant(self.operation)], AclPermissionType.ALLOW)
        return AclBindingFilter(self.kind, self.name, self.pattern, "User:drkit", "*", *rights)


def _constant(operation: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", operation).upper()


def documented() -> list[Grant]:
    """The commands of the page, one grant per operation."""
    found = []
    for line in PAGE.read_text().splitlines():
        if not line.startswith("kafka-acls"):
            continue
        words = shlex.split(line)
        said = dict(pairwise(words))
        assert said["--allow-principal"] == "User:drkit"
        kind, name = ResourceType.BROKER, "kafka-cluster"
        if "--topic" in said:
            kind, name = ResourceType.TOPIC, said["--topic"]
        elif "--transactional-id" in said:
            kind, name = ResourceType.TRANSACTIONAL_ID, said["--transactional-id"]
        pattern = (
            ResourcePatternType.PREFIXED
            if said.get("--resource-pattern-type") == "prefixed"
            else ResourcePatternType.LITERAL
        )
        alias = said["--bootstrap-server"].partition(":")[0]
        operations = [b for a, b in pairwise(words) if a == "--operation"]
        found += [Grant(alias, kind, name, pattern, o) for o in operations]
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
        text += 'topics = ["shop-orders", "shop-clicks"]\n'
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

    def topics(self, alias: str) -> set[str]:
        return set(self.admins[alias].list_topics(timeout=30).topics)

    def wait_granted(self, capsys: pytest.CaptureFixture[str]) -> None:
        def fine() -> bool:
            code = cli.run(["config", "check", "--connect", "--config", str(self.config)])
            capsys.readouterr()
            return code == 0

        eventually(fine, 20, "the documented permissions suffice for the check")


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Locked]:
    users = {ADMIN: "admin-password", "drkit": SECRET}
    with ExitStack() as stack:
        clusters = {
            a: LocalCluster(ClusterSpec(a, sasl=True, authorizer=True, users=users))
            for a in ("primary", "standby")
        }
        for each in clusters.values():
            stack.callback(each.stop)
        start_together(*clusters.values())
        found = Locked(clusters, tmp_path_factory.mktemp("locked"))
        names = ["shop-orders", "shop-clicks"]
        for done in found.admins["primary"].create_topics([NewTopic(n, 2) for n in names]).values():
            done.result(30)
        producer = Producer(confluent_config(found.settings["primary"]))
        for number in range(RECORDS):
            producer.produce(names[number % 2], f"value {number}".encode(), partition=number % 4 // 2)
        assert producer.flush(30) == 0
        yield found


def test_the_table_is_the_one_that_is_asked_for():
    assert documentation() in PAGE.read_text()


def test_everything_that_is_missing_is_named_at_once(locked: Locked, capsys: pytest.CaptureFixture[str]):
    locked.grant(*(g for g in documented() if g.cluster == "primary"))

    def said() -> str:
        assert cli.run(["replicate", "--once", "--config", str(locked.config)]) == 1
        error = capsys.readouterr().err
        return error if "primary:" not in error else ""

    error = eventually(said, 20)
    assert "lacks 18 permissions" in error
    assert "standby as User:drkit" in error
    for line in (
        "TOPIC shop-clicks: WRITE",
        "CLUSTER kafka-cluster: DESCRIBE_CONFIGS",
        "TRANSACTIONAL_ID drkit.",
    ):
        assert line in error
    assert "kafka-acls --bootstrap-server" in error
    assert SECRET not in error
    assert not locked.topics("standby")


def test_each_missing_permission_is_named_alone(locked: Locked, capsys: pytest.CaptureFixture[str]):
    locked.grant(*documented())
    locked.wait_granted(capsys)
    for grant in documented():
        locked.take(grant)

        def named(command: tuple[str, ...], lost: Grant = grant) -> bool:
            code = cli.run([*command, "--config", str(locked.config)])
            error = capsys.readouterr().err
            lines = [x for x in error.splitlines() if re.search(r"(primary|standby): [A-Z_]+ \S+: ", x)]
            words = f"{lost.cluster}: {_resource(lost)} {lost.name}"
            operation = f": {_constant(lost.operation)} ("
            return code == 1 and bool(lines) and all(words in x and operation in x for x in lines)

        # A broker hears of a change a moment later; with everything granted a replicator would begin.
        eventually(lambda: named(("config", "check", "--connect")), 20, f"{grant} is named")
        assert named(("replicate", "--once")), grant
        locked.grant(grant)
        locked.wait_granted(capsys)
    assert not locked.topics("standby"), "nothing may be created before all is allowed"


def _resource(grant: Grant) -> str:
    return "CLUSTER" if grant.kind is ResourceType.BROKER else grant.kind.name


def test_a_whole_run_with_exactly_these_permissions_tells_no_secret(locked: Locked, tmp_path: Path):
    locked.grant(*documented())
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    main = "from drkit.cli.main import main; main()"
    command = [sys.executable, "-c", main, "replicate", "--once", "--json", "--log-level", "debug"]
    process = subprocess.Popen(
        [*command, "--config", str(locked.config)],
        stdout=subprocess.PIPE,
        stderr=(tmp_path / "said").open("w"),
        text=True,
        env={**os.environ, "TMPDIR": str(scratch)},
        start_new_session=True,
    )
    told: set[str] = set()
    seen: set[str] = set()
    try:
        eventually(lambda: _look(process.pid, scratch, seen, told) or process.poll() is not None, 120)
        answer, _ = process.communicate(timeout=30)
    finally:
        process.kill()

    said = (tmp_path / "said").read_text()
    assert process.returncode == 0, said
    flow = json.loads(answer)["flows"][0]
    assert (flow["ended"], flow["records"], flow["left_out"]) == ("complete", RECORDS, {})
    assert SECRET not in said + answer
    assert not told
    # What was looked at is what there was: the JVM, a Python worker, and Spark's log.
    assert any("java" in each for each in seen)
    assert any("pyspark" in each for each in seen)
    assert any(each.endswith("spark.log") for each in seen)


def _look(leader: int, scratch: Path, seen: set[str], told: set[str]) -> bool:
    """Search the processes of a session, and what they wrote, for the secret; always False."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(process.name)) == leader:
                line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                seen.add(line)
                if SECRET.encode() in line.encode() + (process / "environ").read_bytes():
                    told.add(line)
        except (OSError, ProcessLookupError):
            continue
    for file in scratch.rglob("*"):
        try:
            if file.is_file():
                seen.add(str(file))
                if SECRET.encode() in file.read_bytes():
                    told.add(str(file))
        except OSError:
            continue
    return False


def test_show_hides_the_secret(locked: Locked, capsys: pytest.CaptureFixture[str]):
    for more in ([], ["--json"]):
        assert cli.run(["config", "show", *more, "--config", str(locked.config)]) == 0
        shown = capsys.readouterr()
        assert "sasl.password" in shown.out
        assert SECRET not in shown.out + shown.err
