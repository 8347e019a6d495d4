"""The permissions in docs/how-to/security.md are enough and asked for; secrets stay secret."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, suppress
import json
import os
from pathlib import Path
import re
import subprocess
import sys
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic, ResourcePatternType, ResourceType
import pytest
from structlog.testing import capture_logs

from drkit.cli import main as cli
from drkit.config import load
from drkit.kafka.admin import Cluster
from drkit.kafka.clients import confluent_config
from drkit.local.cluster import LocalCluster, start_together
from drkit.local.spec import ADMIN, ClusterSpec
from drkit.replicate.preflight import tell_missing
from tests.pages.permissions import documentation
from tests.support.flows.process import tree
from tests.support.spark.locked import (
    PAGE,
    RECORDS,
    Arrivals,
    Grant,
    Locked,
    constant,
    documented,
    granted_by,
)
from tests.support.waiting import eventually

SECRET = "known-to-nobody-7f3a"


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
        found.use()
        yield found


@pytest.fixture
def _no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is refused is refused before Spark starts."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))


def test_the_tables_are_the_ones_that_are_asked_for():
    assert all(table in PAGE.read_text() for table in documentation())


@pytest.mark.usefixtures("_no_java")
def test_everything_that_is_missing_is_named_at_once(locked: Locked, capsys: pytest.CaptureFixture[str]):
    locked.grant(*(g for g in documented() if g.cluster == "primary"))

    def said() -> str:
        assert cli.run(["replicate", "--once", "--config", str(locked.config)]) == 1
        error = capsys.readouterr().err
        return error if "primary:" not in error else ""

    error = eventually(said, 20)
    assert "lacks 50 permissions" in error
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


@pytest.mark.wide
@pytest.mark.usefixtures("_no_java")
def test_each_missing_permission_is_named_alone(locked: Locked, capsys: pytest.CaptureFixture[str]):
    locked.grant(*documented())
    locked.wait_granted(capsys)
    for grant in documented():
        locked.take(grant)

        def named(command: tuple[str, ...], lost: Grant = grant) -> bool:
            code = cli.run([*command, "--config", str(locked.config)])
            error = capsys.readouterr().err
            lines = [
                x for x in error.splitlines() if re.search(r"(primary|standby): [A-Z_]+ \S.*: [A-Z_]+ \(", x)
            ]
            words = f"{lost.cluster}: {_resource(lost)} {lost.name}"
            operation = f": {constant(lost.operation)} ("
            if code != 1 or not lines or not all(words in x and operation in x for x in lines):
                return False
            wanted = {(lost.cluster, lost.kind, lost.operation)}
            return {(g.cluster, g.kind, g.operation) for g in granted_by(error, locked.alias)} == wanted

        # A broker hears of a change a moment later; with everything granted a replicator would begin.
        eventually(lambda: named(("config", "check", "--connect")), 20, f"{grant} is named")
        if not _beside(grant):
            assert named(("replicate", "--once")), grant
        else:
            (event,) = _told(locked)
            assert event["event"] == "permissions_missing"
            assert event["hint"].splitlines()[-1].startswith("or ")
        locked.grant(grant)
    assert locked.topics("standby") <= {"__consumer_offsets"}, "nothing may be created before all is allowed"


@pytest.mark.usefixtures("_no_java")
def test_each_transactional_id_of_the_run_is_asked_for(locked: Locked, capsys: pytest.CaptureFixture[str]):
    """With literal ACLs that of one bucket may be missing; the refusal names it, and its command suffices."""
    locked.clean()
    (prefix,) = (g for g in documented() if g.kind is ResourceType.TRANSACTIONAL_ID)
    locked.grant(*(g for g in documented() if g != prefix))
    begin = "drkit.primary.standby."
    names = {f"{begin}{n}{end}" for n in range(16) for end in ("", ".map")} | {f"{begin}lease"}
    lost = {f"{begin}7.map", f"{begin}11", f"{begin}15.map"}
    literal = prefix._replace(pattern=ResourcePatternType.LITERAL)
    locked.grant(*(literal._replace(name=name) for name in names - lost))

    def refused(*command: str) -> str:
        code = cli.run([*command, "--config", str(locked.config)])
        error = capsys.readouterr().err
        return error if code == 1 and "lacks 3 permissions" in error else ""

    error = eventually(lambda: refused("config", "check", "--connect"), 20, "the refusal")
    assert refused("replicate", "--once") == error
    assert f"standby: TRANSACTIONAL_ID {begin}11, {begin}7.map, {begin}15.map: WRITE (" in error
    told = granted_by(error, locked.alias)
    assert {(g.name, g.pattern, g.operation) for g in told} == {
        (name, ResourcePatternType.LITERAL, "Write") for name in lost
    }
    assert len([line for line in error.splitlines() if "kafka-acls " in line]) == 1
    locked.grant(*told)
    locked.wait_granted(capsys)
    locked.clean()


def _beside(grant: Grant) -> bool:
    """Whether it is for a setting, not for the copy."""
    for_acls = grant.kind is ResourceType.BROKER and grant.operation != "DescribeConfigs"
    return (
        for_acls or grant.kind is ResourceType.GROUP or not grant.name.startswith(("shop-", "drkit", "kafka"))
    )


def _told(locked: Locked) -> list[Any]:
    """What a start says beside."""
    settings = load(locked.config)
    clusters = {a: Cluster.connect(c) for a, c in settings.clusters.items()}
    with capture_logs() as events:
        tell_missing(clusters, settings.flows, once=False)
    return events


def test_the_printed_commands_suffice(locked: Locked, capsys: pytest.CaptureFixture[str]):
    """Running only the commands that drkit prints leads to a flow that may do its work."""
    locked.clean()
    granted: list[Grant] = []

    def fine() -> bool:
        code = cli.run(["config", "check", "--connect", "--config", str(locked.config)])
        wanted = granted_by(capsys.readouterr().err, locked.alias)
        locked.grant(*wanted)
        granted.extend(wanted)
        return code == 0

    assert not fine()
    eventually(fine, 20, "the commands that were printed suffice")
    assert {g.kind for g in granted} == {
        ResourceType.TOPIC, ResourceType.GROUP, ResourceType.BROKER, ResourceType.TRANSACTIONAL_ID,
    }  # fmt: skip
    assert not [g for g in granted if g.pattern is not ResourcePatternType.LITERAL]
    locked.clean()


def _resource(grant: Grant) -> str:
    return "CLUSTER" if grant.kind is ResourceType.BROKER else grant.kind.name


@pytest.mark.wide
def test_a_whole_run_with_exactly_these_permissions_shows_no_secret(locked: Locked, tmp_path: Path):
    locked.grant(*documented())
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    main = "from drkit.cli.main import main; main()"
    command = [sys.executable, "-c", main, "replicate", "--json", "--log-level", "debug"]
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
    there = Arrivals(locked)
    try:
        eventually(
            lambda: _look(process.pid, scratch, seen, told) or there.all() or process.poll() is not None, 120
        )
        process.terminate()
        answer, _ = process.communicate(timeout=30)
    finally:
        process.kill()

    said = (tmp_path / "said").read_text()
    assert process.returncode == 0, said
    flow = json.loads(answer)["flows"][0]
    assert (flow["ended"], flow["left_out"]) == ("stopped", {})
    assert there.missing == []
    kinds = ("permissions_missing", "acl_sync_refused", "heartbeats_lost", "checkpoints_fail")
    assert [kind for kind in (*kinds, "offset_syncs_fail", "group_commits_hidden") if kind in said] == []
    assert SECRET not in said + answer
    assert not told
    # What was looked at is what there was: the JVM, a Python worker, and Spark's log.
    assert any("java" in each for each in seen)
    assert any("pyspark" in each for each in seen)
    assert any(each.endswith("spark.log") for each in seen)


def _look(leader: int, scratch: Path, seen: set[str], told: set[str]) -> bool:
    """Search a process and all below it, and what they wrote, for the secret; always False."""
    for pid in tree(leader):
        process = Path(f"/proc/{pid}")
        with suppress(OSError):
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            seen.add(line)
            if SECRET.encode() in line.encode() + (process / "environ").read_bytes():
                told.add(line)
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
