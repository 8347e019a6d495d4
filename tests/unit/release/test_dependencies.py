"""pyproject.toml declares what drkit imports, and nothing that it does not."""

from __future__ import annotations

from importlib.metadata import packages_distributions
import re
import sys
import tomllib

from packaging.requirements import Requirement
from packaging.version import Version

from tests.support.laws import imports, sources
from tests.support.release.locks import ROOT, normal

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NOT_IMPORTED = {
    "tzdata": "zoneinfo reads it where the system has no time zones",
    "chaostoolkit-lib": "imported by name, when `drkit chaos` runs",
    "gssapi": "kafka-python imports it for Kerberos",
}
NOT_DECLARED = {
    "py4j": "PySpark requires one version of it",
    "pydantic-core": "pydantic requires one version of it",
}


def declared(*extras: str) -> dict[str, Requirement]:
    texts = [*PROJECT["dependencies"], *(t for e in extras for t in PROJECT["optional-dependencies"][e])]
    return {normal(each.name): each for each in map(Requirement, texts)}


def imported() -> set[str]:
    """Names of the distributions that drkit's modules import, without Python's own and drkit."""
    names = {name.partition(".")[0] for source in sources() for name in imports(source)}
    distributions = packages_distributions()
    return {normal(distributions[name][0]) for name in names - sys.stdlib_module_names - {"drkit", "tests"}}


def test_what_is_imported_is_declared_and_the_other_way_round():
    extras = set(PROJECT["optional-dependencies"]) - {"dev"}
    assert imported() - set(NOT_DECLARED) == set(declared(*extras)) - set(NOT_IMPORTED)


def test_a_next_minor_version_of_kafka_python_is_not_installed_unseen():
    """Private fields of it are used: a minor version may rename them."""
    allowed = declared()["kafka-python"].specifier
    assert Version("3.0.12") in allowed
    assert Version("3.1.0") not in allowed


def test_a_hint_installs_what_an_extra_lists_and_nothing_by_the_name_of_drkit():
    """No release is on a package index: there the name of drkit could be anyone's."""
    extras = {text for extra in PROJECT["optional-dependencies"].values() for text in extra}
    folders = ("drkit", "docs", "runbooks", "chaos")
    paths = [p for f in folders for suffix in ("py", "md") for p in (ROOT / f).rglob(f"*.{suffix}")]
    hinted = set[str]()
    for path in paths:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"pip install '?drkit(?![\w-])", text), path
        for packages in re.findall(r"pip install ((?:'[^']+' ?)+)", text):
            hinted |= set(re.findall(r"'([^']+)'", packages))
    assert len(hinted & extras) >= 4
    assert hinted <= extras | set(PROJECT["dependencies"])
