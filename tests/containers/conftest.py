"""A Docker engine, images of Kafka and drkit built from docker/, and two brokers that answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from importlib import import_module
import os
from pathlib import Path
import shutil
from typing import Any, NamedTuple

import pytest
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network
from testcontainers.core.waiting_utils import WaitStrategy, WaitStrategyTarget

from drkit.local import jars
from drkit.local.broker import ask

# By name, because the folder docker/ of this repository looks like a package to type checkers.
docker: Any = import_module("docker")
REPOSITORY = Path(__file__).parents[2]
# Where no image can be pulled: docker/base.sh makes one.
BASE = os.environ.get("BASE_IMAGE", "debian:bookworm-slim")
HOST_PORT = 19092
ADDRESS_FILE = "/tmp/host-address"  # noqa: S108  inside a container of this test's own
# The standby makes an id by itself.
CLUSTERS = {"primary": "cHJpbWFyeS1wcmltYXJ5LQ", "standby": ""}


class Pair(NamedTuple):
    """Two clusters as seen from this machine; in ``network`` they are primary:9092 and standby:9092."""

    primary: str
    standby: str
    network: Network


class Answers(WaitStrategy):
    """Ready is a broker that answers a request and is in its own view of the cluster, unfenced."""

    def wait_until_ready(self, container: WaitStrategyTarget) -> None:
        host, port = container.get_container_host_ip(), container.get_exposed_port(HOST_PORT)

        def answers() -> bool:
            container.reload()
            if container.status != "running":
                raise AssertionError(f"the broker is {container.status}: {said(container)}")
            view = ask(host, port)
            return view is not None and bool(view.node_ids)

        if not self._poll(answers):
            raise TimeoutError(f"no answer from {host}:{port}: {said(container)}")


def said(container: WaitStrategyTarget) -> str:
    return b"\n".join(container.get_logs()).decode(errors="replace")[-3000:]


@pytest.fixture(scope="session")
def engine() -> Any:
    """A client of the engine that answers; no engine, or one without the base image, skips."""
    try:
        client = docker.from_env(timeout=600)
        client.ping()
    except docker.errors.DockerException as error:
        pytest.skip(f"no Docker engine answers: {error}")
    if reason := missing(client, BASE):
        pytest.skip(f"{BASE} is not here and cannot be pulled (docker/base.sh, BASE_IMAGE): {reason}")
    # Ryuk removes what a killed test run leaves behind; without it the fixtures alone do.
    testcontainers_config.ryuk_disabled = bool(missing(client, testcontainers_config.ryuk_image))
    return client


def missing(client: Any, image: str) -> str:
    """Why this image cannot be had; empty if it is there (now)."""
    try:
        client.images.get(image)
    except docker.errors.ImageNotFound:
        try:
            client.images.pull(image)
        except docker.errors.DockerException as error:
            return str(error)
    return ""


@pytest.fixture(scope="session")
def kafka_image(engine: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    context = tmp_path_factory.mktemp("kafka-image") / "context"
    shutil.copytree(REPOSITORY / "docker/kafka", context, ignore=shutil.ignore_patterns("jars"))
    jars.copy_jars(context / "jars", [Path(jar) for jar in jars.classpath().split(os.pathsep)])
    return build(engine, context, "drkit-kafka")


@pytest.fixture(scope="session")
def drkit_context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What docker/Dockerfile may copy."""
    context = tmp_path_factory.mktemp("drkit-image")
    for name in ("pyproject.toml", "requirements.lock", "requirements-build.lock", "README.md", "LICENSE"):
        shutil.copy2(REPOSITORY / name, context)
    for name in ("drkit", "docs", "runbooks", "chaos", "docker"):
        ignored = shutil.ignore_patterns("__pycache__", "jars")
        shutil.copytree(REPOSITORY / name, context / name, ignore=ignored)
    # OpenSSL's variable says which authorities this machine trusts: so must pip inside the build.
    if bundle := os.environ.get("SSL_CERT_FILE"):
        shutil.copyfile(bundle, context / "docker/ca/machine.crt")
    return context


@pytest.fixture(scope="session")
def drkit_image(engine: Any, drkit_context: Path) -> str:
    return build(engine, drkit_context, "drkit", dockerfile="docker/Dockerfile")


@pytest.fixture(scope="session")
def images(engine: Any, drkit_context: Path, kafka_image: str, drkit_image: str) -> dict[str, str]:
    """The images of docker/compose.yaml, as it names them, and those of the tests."""
    spark = build(engine, drkit_context, "drkit-spark", dockerfile="docker/Dockerfile", target="spark")
    prometheus = build(engine, REPOSITORY / "docker/prometheus", "drkit-prometheus")
    return {
        "drkit-kafka": kafka_image,
        "drkit": drkit_image,
        "drkit-spark": spark,
        "drkit-prometheus": prometheus,
    }


def build(engine: Any, context: Path, tag: str, **options: str) -> str:
    """The image stays: it is the cache that makes the next run short."""
    try:
        arguments = {"BASE_IMAGE": BASE}
        engine.images.build(path=str(context), tag=f"{tag}:test", rm=True, buildargs=arguments, **options)
    except docker.errors.BuildError as error:
        log = "".join(str(line.get("stream", line.get("error", ""))) for line in error.build_log)
        raise AssertionError(f"{tag} cannot be built: {log[-3000:]}") from error
    return f"{tag}:test"


@pytest.fixture(scope="session")
def pair(kafka_image: str) -> Iterator[Pair]:
    with ExitStack() as stack:
        network = stack.enter_context(Network())
        brokers = {name: launch(stack, kafka_image, network, name) for name in CLUSTERS}
        for broker in brokers.values():
            Answers().with_startup_timeout(120).with_poll_interval(0.2).wait_until_ready(broker)
        yield Pair(address(brokers["primary"]), address(brokers["standby"]), network)


def launch(stack: ExitStack, image: str, network: Network, name: str) -> DockerContainer:
    """A broker that gets its external address once the engine has chosen the port."""
    container = DockerContainer(image, network=network, network_aliases=[name]).with_exposed_ports(HOST_PORT)
    container.with_envs(CLUSTER_ID=CLUSTERS[name], BROKER_HOST=name, HOST_ADDRESS_FILE=ADDRESS_FILE)
    stack.enter_context(container)
    container.copy_into_container(address(container).encode(), ADDRESS_FILE)
    return container


def address(broker: DockerContainer) -> str:
    return f"{broker.get_container_host_ip()}:{broker.get_exposed_port(HOST_PORT)}"
