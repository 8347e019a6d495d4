"""A release: its changelog, its addresses, and an image that is built from what the wheel needs."""

from __future__ import annotations

from pathlib import PurePosixPath
import re
import tomllib

from drkit import __version__
from tests.support.release.locks import ROOT

PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
TABLES = tomllib.loads(PYPROJECT)
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
MAX_LINES = 80
"""Of one version in the changelog, with the head of the file."""


def test_the_changelog_begins_with_what_is_not_released_and_has_this_version():
    heads = re.findall(r"^## (.+)$", CHANGELOG, re.MULTILINE)
    assert heads[0] == "[Unreleased]"
    assert re.fullmatch(rf"\[{re.escape(__version__)}\] - \d{{4}}-\d\d-\d\d", heads[1])


def test_a_version_can_be_read_in_two_minutes():
    before, *versions = re.split(r"^## ", CHANGELOG, flags=re.MULTILINE)
    for version in versions:
        assert len((before + version).splitlines()) <= MAX_LINES, version.partition("\n")[0]


def test_every_address_of_the_project_is_in_its_repository():
    repository = TABLES["project"]["urls"]["Source"]
    assert {
        url for url in re.findall(r"https://[^\s'\"]+", PYPROJECT) if not url.startswith(repository)
    } == set()


def test_the_image_is_built_from_all_that_the_wheel_needs():
    hatch = TABLES["tool"]["hatch"]
    needed = {
        *hatch["build"]["targets"]["wheel"]["force-include"],
        "drkit",
        "README.md",
        "LICENSE",
        "pyproject.toml",
    }
    copied = re.findall(
        r"^COPY (?!--from)(.+) \S+$", (ROOT / "docker/Dockerfile").read_text(encoding="utf-8"), re.MULTILINE
    )
    sources = {PurePosixPath(name) for line in copied for name in line.split()}
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    context = {PurePosixPath(line[1:]) for line in lines if line.startswith("!")}
    for among in (sources, context):
        assert [n for n in needed if among.isdisjoint((PurePosixPath(n), *PurePosixPath(n).parents))] == []
