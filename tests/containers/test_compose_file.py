"""docker/compose.yaml as text: valid for every compose, docker-compose 1.29 included."""

from __future__ import annotations

from pathlib import Path
import re
import subprocess
import sys
import tomllib
from typing import Any

import pytest
import yaml

DOCKER = Path(__file__).parents[2] / "docker"
FILE = DOCKER / "compose.yaml"
# By image, for services whose health check is in their image.
DOCKERFILES = {
    "drkit-kafka": DOCKER / "kafka/Dockerfile",
    "drkit-prometheus": DOCKER / "prometheus/Dockerfile",
}


def services() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))["services"]
    return read


def test_it_is_valid_by_the_schema_of_the_compose_specification():
    schema = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    checked = subprocess.run([*schema, FILE], capture_output=True, text=True, timeout=60, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_it_has_no_key_that_docker_compose_1_29_refuses():
    keys = yaml.safe_load(FILE.read_text(encoding="utf-8")).keys()
    known = {"services", "networks", "volumes", "secrets", "configs", "version"}
    assert [key for key in keys if key not in known and not key.startswith("x-")] == []


@pytest.mark.parametrize("service", services())
def test_each_service_has_a_health_check(service: str):
    settings = services()[service]
    image = DOCKERFILES.get(settings["image"])
    assert "healthcheck" in settings or (image and "\nHEALTHCHECK " in image.read_text(encoding="utf-8"))


def test_the_parts_are_there():
    said = {name: settings.get("command", []) for name, settings in services().items()}
    assert {"primary", "standby", "spark-master", "prometheus", "grafana"} <= said.keys()
    assert sum(command == ["worker"] for command in said.values()) > 1
    for replicator in (said["replicate"], said["replicate-standby"]):
        assert replicator[:4] == ["replicate", "--standby", "--master", "spark://spark-master:7077"]
    assert said["watch"][0] == "watch"


def test_no_address_of_a_site_is_in_the_files():
    """The images name no other hosts than Debian's archive and those of the containers' network."""
    texts = [
        path.read_text(encoding="utf-8")
        for path in DOCKER.rglob("*")
        if path.is_file() and is_written_by_drkit(path)
    ]
    project = tomllib.loads((DOCKER.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    texts = [text.replace(project["urls"]["Source"], "") for text in texts]  # alerts lead to its own pages
    hosts = {host for text in texts for host in re.findall(r"https?://([\w.-]+)", text)}
    assert hosts == {"deb.debian.org", "localhost", "prometheus"}


def is_written_by_drkit(path: Path) -> bool:
    """Neither what `make setup` and the site put there, nor pages that only link."""
    return not {"jars", "__pycache__"} & set(path.parts) and path.suffix not in {".crt", ".json", ".jar"}
