"""The jars that drkit fetches are those of the list in the repository, from the first use on."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from drkit.errors import Failed
from drkit.local.jars import BROKER, MIRROR_MAKER, NAME, JarCache, classpath, pinned, refuse_unpinned, written
from tests.support.errors import coded
from tests.support.local.repository import MODULE, Repository


def test_every_jar_of_drkits_own_sets_is_on_the_list():
    fetched = {
        Path(jar) for modules in (BROKER, MIRROR_MAKER) for jar in classpath(modules=modules).split(":")
    }
    assert {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in fetched} == pinned()


def test_the_list_has_the_form_of_sha256sum():
    text = (Path(__file__).parents[3] / "drkit" / "local" / NAME).read_text()
    assert written(pinned()) == text
    assert all(len(digest) == 64 and name.endswith(".jar") for name, digest in pinned().items())


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


def cache_with(tmp_path: Path, repository: Repository, pins: dict[str, str]) -> JarCache:
    return JarCache(tmp_path / "cache", settings=repository.settings, attempts=1, pins=pins)


def test_another_jar_is_refused_at_its_first_use(tmp_path: Path, repository: Repository):
    cache = cache_with(tmp_path, repository, {"sample-1.0.jar": "0" * 64})
    with pytest.raises(Failed, check=coded("jar_not_pinned")) as caught:
        cache.jars([MODULE])
    assert NAME in caught.value.evidence
    assert not list((tmp_path / "cache" / "jars").glob("*/*.jar"))


def test_the_right_one_is_taken(tmp_path: Path, repository: Repository):
    right = hashlib.sha256(repository.jar.read_bytes()).hexdigest()
    (jar,) = cache_with(tmp_path, repository, {"sample-1.0.jar": right}).jars([MODULE])
    assert jar.read_bytes() == repository.jar.read_bytes()


def test_a_cache_that_was_filled_by_another_is_not_believed(tmp_path: Path, repository: Repository):
    """Its manifest may have been changed; the pinned list decides."""
    right = hashlib.sha256(repository.jar.read_bytes()).hexdigest()
    cache = cache_with(tmp_path, repository, {"sample-1.0.jar": right})
    (jar,) = cache.jars([MODULE])
    jar.write_bytes(b"evil")
    manifest = jar.parent / "manifest.json"
    manifest.write_text(manifest.read_text().replace(right, hashlib.sha256(b"evil").hexdigest()))
    (again,) = cache.jars([MODULE])
    assert again.read_bytes() == repository.jar.read_bytes()


def test_a_jar_that_is_not_on_the_list():
    with pytest.raises(Failed, check=coded("jar_not_pinned")) as caught:
        refuse_unpinned({"new.jar": "0"}, {"old.jar": "1"}, all_of_them=True)
    assert caught.value.where == "new.jar"
    refuse_unpinned({"new.jar": "0"}, {"old.jar": "1"}, all_of_them=False)
