"""docker/compose.yaml, run: a replicator is killed, then the primary, and a failover is done.

A walk of minutes with everything up, for ``make test-containers``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
import json
import os
from pathlib import Path
import shutil
import subprocess
from typing import Any, NamedTuple

import pytest
import yaml

from tests.containers.conftest import REPOSITORY
from tests.support.waiting import eventually

DOCKER = REPOSITORY / "docker"
PROJECT = "drkit-walk"
RECORDS = 5_000
READ_BEFORE = 3_000
COMMANDS = (["docker", "compose"], ["docker-compose"])
TOOLS = ["java", "-Xmx128m", "-cp", "/opt/kafka/libs/*"]
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
TOPICS = "org.apache.kafka.tools.TopicCommand"
PATIENCE_SECONDS = 240.0


class Compose(NamedTuple):
    """The stack of one compose file."""

    command: list[str]

    def __call__(self, *arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        # Beside a stack that runs already; docker-compose is a program of the system's Python.
        environment = {**os.environ, "SUBNET": "172.30.30", "PYTHONPATH": ""}
        return subprocess.run([*self.command, *arguments], input=text, capture_output=True, text=True,
                              timeout=600, check=False, env=environment)  # fmt: skip

    def must(self, *arguments: str, text: str | None = None) -> str:
        done = self(*arguments, text=text)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def kafka(self, cluster: str, tool: str, *arguments: str, text: str | None = None) -> str:
        """What a tool of Kafka says in the cluster's container."""
        servers = ["--bootstrap-server", f"{cluster}:9092"]
        return self.must("exec", "-T", cluster, *TOOLS, tool, *servers, *arguments, text=text)

    def drkit(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self("exec", "-T", "watch", "drkit", *arguments)

    def flow(self) -> dict[str, Any]:
        """The flow as ``drkit status`` has it; empty while it has no answer."""
        said = self.drkit("status", "--json").stdout
        return next(iter(json.loads(said)["flows"])) if said else {}


@pytest.fixture
def compose(engine: Any, images: dict[str, str], tmp_path: Path) -> Iterator[Compose]:
    file = tmp_path / "compose.yaml"
    file.write_text(yaml.safe_dump(with_images(images)), encoding="utf-8")
    whole = [
        *compose_command(),
        "--project-name",
        PROJECT,
        "--project-directory",
        str(DOCKER),
        "-f",
        str(file),
    ]
    run = Compose(whole)
    try:
        run.must("up", "-d")
        wait("all services are healthy", lambda: healthy(engine) == set(with_images(images)["services"]))
        yield run
    finally:
        run("down", "--volumes")


def compose_command() -> list[str]:
    """The plugin or the older program."""
    for command in COMMANDS:
        if shutil.which(command[0]):
            asked = subprocess.run([*command, "version"], capture_output=True, timeout=30, check=False)
            if asked.returncode == 0:
                return command
    pytest.skip("neither `docker compose` nor docker-compose is here")


def with_images(images: dict[str, str]) -> dict[str, Any]:
    """The stack with the images of the tests, without ports of this machine and what is optional."""
    stack: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text(encoding="utf-8"))
    stack["services"] = {
        name: {key: value for key, value in service.items() if key not in {"build", "ports"}}
        | {"image": images[service["image"]]}
        for name, service in stack["services"].items()
        if "profiles" not in service
    }
    return stack


def healthy(engine: Any) -> set[str]:
    ours = engine.containers.list(filters={"label": f"com.docker.compose.project={PROJECT}"})
    return {
        container.labels["com.docker.compose.service"]
        for container in ours
        if container.attrs["State"].get("Health", {}).get("Status") == "healthy"
    }


def wait(what: str, holds: Callable[[], bool]) -> None:
    eventually(lambda: holds() or None, PATIENCE_SECONDS, what)


def ready(flow: dict[str, Any]) -> bool:
    """Everything is copied, the group's positions are on the target, and a standby waits."""
    if flow.get("health") != "ok":
        return False
    copied = {topic["topic"]: topic["records"] for topic in flow["topics"]}
    groups = [group["ready"] for group in flow["groups"] or []]
    return copied.get("orders") == 0 and groups == [True] and any(each["ready"] for each in flow["standbys"])


def holder(flow: dict[str, Any]) -> str:
    """The container that copies."""
    return str((flow.get("runner") or {}).get("host", ""))


def decided(done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str] | None:
    return None if done.returncode == 3 else done


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_replicator_dies_the_primary_dies_and_the_group_reads_on(engine: Any, compose: Compose):
    compose.kafka("primary", TOPICS, "--create", "--topic", "orders", "--partitions", "3")
    values = [str(number) for number in range(RECORDS)]
    compose.kafka("primary", PRODUCER, "--topic", "orders", text="\n".join(values) + "\n")
    group = ["--topic", "orders", "--group", "billing", "--max-messages"]
    before = compose.kafka("primary", CONSUMER, *group, str(READ_BEFORE), "--from-beginning").split()
    wait("orders and billing are copied, one replicator waits", lambda: ready(compose.flow()))

    killed = holder(compose.flow())
    engine.containers.get(killed).kill()
    wait("the other one has the lease", lambda: holder(compose.flow()) not in {"", killed})

    compose.must("kill", "primary")
    reason = ["--accept-data-loss", "the container was killed"]
    # Refused (3) until the silence of the primary is long enough.
    failover = ["failover", "--all", "--yes", "--json", *reason]
    done = eventually(lambda: decided(compose.drkit(*failover)), PATIENCE_SECONDS, "a failover")
    assert done.returncode == 0, done.stdout + done.stderr
    after = compose.kafka("standby", CONSUMER, *group, str(RECORDS - READ_BEFORE)).split()
    assert sorted(before + after) == sorted(values)

    compose.must("start", "primary")
    wait(
        "the pending fence is applied",
        lambda: " fence_paid " in compose("logs", "--no-color", "watch").stdout,
    )
    divergence = compose.drkit("divergence")
    assert divergence.returncode == 0, divergence.stdout + divergence.stderr
