"""What is installed is locked: every package with a version and hashes, and pyproject's wishes fulfilled."""

from __future__ import annotations

from collections import Counter
from itertools import product
import json
from pathlib import Path
import re
import tomllib

from packaging.requirements import Requirement
import pytest

from drkit.local.pinned import pinned
from tests.support.release.locks import DEVELOPMENT, DOCUMENTATION, ROOT, RUNTIME, locked, normal
from tests.support.release.sbom import document

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
PYTHONS = ("3.11", "3.12", "3.13")
EXTRAS = PROJECT["optional-dependencies"]
WANTED = {
    RUNTIME: [*PROJECT["dependencies"], *EXTRAS["keystores"], *EXTRAS["kubernetes"]],
    DEVELOPMENT: [*PROJECT["dependencies"], *EXTRAS["dev"]],
    DOCUMENTATION: PYPROJECT["dependency-groups"]["docs"],
}


@pytest.mark.parametrize("file", WANTED, ids=lambda file: file.name)
def test_every_wish_is_fulfilled_on_every_python(file: Path):
    for python, text in product(PYTHONS, WANTED[file]):
        wish = Requirement(text)
        where = {"python_version": python, "python_full_version": f"{python}.0"}
        pins = [each for each in locked(file) if each.name == normal(wish.name) and fits(each.marker, where)]
        assert len(pins) == 1, f"{text} on Python {python}: run make lock"
        assert wish.specifier.contains(pins[0].version), f"{text}: {pins[0]}: run make lock"


def fits(marker: str, where: dict[str, str]) -> bool:
    return not marker or bool(Requirement(f"x ; {marker}").marker.evaluate(where))  # type: ignore[union-attr]


@pytest.mark.parametrize("file", WANTED, ids=lambda file: file.name)
def test_every_package_has_hashes_and_one_version(file: Path):
    packages = list(locked(file))
    assert len(packages) > 20
    assert [each.name for each in packages if not each.hashes] == []
    assert [name for name, count in Counter(each.name for each in packages).items() if count > 1] == []


@pytest.mark.parametrize("file", WANTED, ids=lambda file: file.name)
def test_no_address_of_an_index_is_in_it(file: Path):
    text = file.read_text()
    assert not re.search(r"://|--(?:extra-)?index-url|--find-links|--trusted-host", text)


def test_tests_run_on_the_versions_that_are_shipped():
    development = {each.name: each for each in locked(DEVELOPMENT)}
    assert [each for each in locked(RUNTIME) if development.get(each.name, each) != each] == []


def test_the_environment_of_a_new_clone_is_the_locked_one():
    makefile = (ROOT / "Makefile").read_text()
    assert "--require-hashes --requirement requirements-dev.lock" in makefile
    assert "--no-deps --no-build-isolation --editable ." in makefile
    assert "--require-hashes --requirement requirements-docs.lock" in makefile
    assert "--require-hashes --requirement requirements.lock" in (ROOT / "docker/Dockerfile").read_text()


def test_the_bill_of_materials_names_each_package_and_jar_with_its_hashes():
    found = {
        (each["name"], each["version"]): {h["content"] for h in each["hashes"]}
        for each in document()["components"]
        if each["purl"].startswith("pkg:pypi/")
    }
    assert found == {(each.name, each.version): set(each.hashes) for each in locked(RUNTIME)}
    jars = {
        each["properties"][0]["value"]: each["hashes"][0]["content"]
        for each in document()["components"]
        if each["purl"].startswith("pkg:generic/")
    }
    assert jars == pinned()


def test_the_bill_of_materials_is_the_same_each_time():
    assert "tests.support.release.sbom drkit.cdx.json" in (ROOT / "Makefile").read_text()
    assert json.dumps(document()) == json.dumps(document())
    refs = [each["bom-ref"] for each in document()["components"]]
    assert len(refs) == len(set(refs))
