"""What is installed is locked: every package with a version and hashes, and pyproject's wishes fulfilled."""

from __future__ import annotations

from collections import Counter
from importlib.metadata import distribution
from itertools import product
import json
from pathlib import Path
import re
import tomllib

from packaging.requirements import Requirement
import pytest

from drkit.local.jars import pinned
from tests.support.release.locks import (
    BUILD,
    DEVELOPMENT,
    DOCUMENTATION,
    ROOT,
    RUNTIME,
    TOOLS,
    locked,
    normal,
)
from tests.support.release.sbom import document

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
PYTHONS = ("3.11", "3.12", "3.13")
EXTRAS = PROJECT["optional-dependencies"]
WANTED = {
    RUNTIME: [*PROJECT["dependencies"], *EXTRAS["keystores"], *EXTRAS["kubernetes"]],
    DEVELOPMENT: [*PROJECT["dependencies"], *EXTRAS["dev"]],
    DOCUMENTATION: PYPROJECT["dependency-groups"]["docs"],
    BUILD: [*PYPROJECT["build-system"]["requires"], *PYPROJECT["dependency-groups"]["build"]],
    TOOLS: PYPROJECT["dependency-groups"]["tools"],
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
    assert len(packages) >= len(WANTED[file])
    assert [each.name for each in packages if not each.hashes] == []
    assert [name for name, count in Counter(each.name for each in packages).items() if count > 1] == []


def test_pip_itself_is_not_on_the_locks_that_install_drkit():
    """The threat model states it: the tools that install drkit are not checked."""
    assert [f.name for f in (RUNTIME, BUILD) if "pip" in {each.name for each in locked(f)}] == []


@pytest.mark.parametrize("file", WANTED, ids=lambda file: file.name)
def test_no_address_of_an_index_is_in_it(file: Path):
    text = file.read_text()
    assert not re.search(r"://|--(?:extra-)?index-url|--find-links|--trusted-host", text)


def test_tests_run_on_the_versions_that_are_shipped():
    development = {each.name: each for each in locked(DEVELOPMENT)}
    assert [each for each in locked(RUNTIME) if development.get(each.name, each) != each] == []


_CALL = re.compile(r"\bpip (?:install|wheel|download)\b.*")
_LOCKED = "--require-hashes --only-binary :all:"
_SOURCE = "--no-binary pyspark --no-build-isolation --check-build-dependencies"
"""The last one lets pip refuse what a source package wants for its build and no lock has installed."""


def calls(name: str) -> list[str]:
    """Every call of pip in a file, without the variables of make."""
    text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ")
    variables = dict(re.findall(r"^(\w+) := (.*)$", text, re.MULTILINE))
    for _ in range(2):
        text = re.sub(r"\$\((\w+)\)", lambda found: variables.get(found[1], found[0]), text)
    lines = [line for line in text.splitlines() if " := " not in line]
    found = [re.sub(r"\s+", " ", call) for line in lines for call in re.split(r"&&", line)]
    return [match[0] for call in found if (match := _CALL.search(call))]


@pytest.mark.parametrize("name", ["Makefile", "docker/Dockerfile", "SECURITY.md"])
def test_nothing_is_installed_or_built_by_what_is_not_locked(name: str):
    found = calls(name)
    assert len(found) >= 3
    for call in found:
        if "--requirement" in call:
            assert _LOCKED in call
        else:  # drkit itself, by what is installed before
            assert "--no-deps" in call
            assert "--no-build-isolation" in call or "--no-index" in call
    sources = [call for call in found if re.search(r"requirements(-dev)?\.lock", call)]
    builds = [call for call in found if "requirements-build.lock" in call]
    assert sources
    for call in sources:
        assert _SOURCE in call
        assert found.index(builds[0]) < found.index(call)


def test_pyspark_was_built_by_what_is_locked():
    """It is the one package without a wheel on the index."""
    built = distribution("pyspark").read_text("WHEEL")
    found = re.search(r"^Generator: (\S+) \((\S+)\)$", built or "", re.MULTILINE)
    assert found is not None
    assert (found[1], found[2]) in {(each.name, each.version) for each in locked(BUILD)}


def test_all_environments_have_the_same_versions():
    development = {each.name: each for each in locked(DEVELOPMENT)}
    assert [each for each in locked(BUILD) if development.get(each.name, each) != each] == []


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
