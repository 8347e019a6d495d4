"""Jars come through Ivy once, are checked at every use and mended when damaged.

Ivy is real; its repository is a folder with one jar, so that nothing is downloaded.
"""

from __future__ import annotations

import os
from pathlib import Path
import shutil
import subprocess
import sys

import pytest

from drkit.errors import ConfigError, Failed
from drkit.local.jars import JarCache, copy_jars, default_cache
from drkit.local.java import find_java
from tests.support.errors import coded
from tests.support.local.repository import MODULE, Repository


@pytest.fixture
def repository(tmp_path):
    return Repository(tmp_path / "repository")


@pytest.fixture
def said():
    return []


@pytest.fixture
def cache(tmp_path, repository, said):
    return JarCache(tmp_path / "cache", said.append, repository.settings, attempts=1)


@pytest.fixture(scope="module")
def fetched_before(tmp_path_factory):
    """A repository and what was fetched of it into a cache, as it is to be at the beginning of a test."""
    folder = tmp_path_factory.mktemp("fetched")
    (folder / "now").mkdir()
    repository = Repository(folder / "now" / "repository")
    JarCache(folder / "now" / "cache", settings=repository.settings, attempts=1).jars([MODULE])
    shutil.copytree(folder / "now", folder / "then")
    return repository


@pytest.fixture
def published(fetched_before):
    """The repository of ``fetched``. Both are where they were: Ivy keeps the paths of what it fetched."""
    folder = fetched_before.settings.parents[2]
    shutil.rmtree(folder / "now")
    shutil.copytree(folder / "then", folder / "now")
    return fetched_before


@pytest.fixture
def fetched(published, said):
    """A cache with the jar in it: a fetch takes a Java of its own."""
    return JarCache(published.settings.parents[1] / "cache", said.append, published.settings, attempts=1)


def test_jars_are_fetched_once(cache, repository, said):
    (jar,) = cache.jars([MODULE])
    assert jar.read_bytes() == repository.jar.read_bytes()
    told = len(said)
    repository.jar.unlink()
    assert cache.jars([MODULE]) == [jar]
    assert len(said) == told


@pytest.mark.wide
@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing"])
def test_a_damaged_jar_is_fetched_again(fetched, said, damage):
    (jar,) = fetched.jars([MODULE])
    good = jar.read_bytes()
    if damage == "missing":
        jar.unlink()
    else:
        jar.write_bytes(good[:100] if damage == "truncated" else b"X" + good[1:])
    assert [found.read_bytes() for found in fetched.jars([MODULE])] == [good]
    assert any("damaged in the cache" in line and jar.name in line for line in said)


@pytest.mark.wide
def test_a_jar_damaged_in_ivys_own_cache_too_is_downloaded_again(fetched):
    (jar,) = fetched.jars([MODULE])
    good = jar.read_bytes()
    for copy in fetched.root.rglob("*.jar"):
        copy.write_bytes(b"broken")
    assert [found.read_bytes() for found in fetched.jars([MODULE])] == [good]


@pytest.mark.wide
def test_a_damaged_manifest_is_written_again(fetched):
    (jar,) = fetched.jars([MODULE])
    (jar.parent / "manifest.json").write_text("{")
    assert fetched.jars([MODULE]) == [jar]


def test_a_jar_that_does_not_match_its_checksum_is_refused(cache, repository):
    repository.publish(b"tampered", checksum="0" * 40)
    with pytest.raises(Failed) as caught:
        cache.jars([MODULE])
    assert "DRKIT_IVY_SETTINGS" in caught.value.hint
    assert "sha1" in caught.value.evidence


@pytest.mark.wide
def test_another_content_under_the_same_version_is_refused(fetched, published):
    (jar,) = fetched.jars([MODULE])
    jar.unlink()
    published.publish(b"something else")
    with pytest.raises(Failed, check=coded("jar_changed")):
        fetched.jars([MODULE])


@pytest.mark.wide
def test_fetching_is_tried_again(tmp_path, repository, said):
    good = repository.jar.read_bytes()
    repository.jar.unlink()

    def repair_after_the_first_attempt(line):
        said.append(line)
        if "retrying" in line:
            repository.publish(good)

    cache = JarCache(tmp_path / "cache", repair_after_the_first_attempt, repository.settings, attempts=2)
    assert [jar.read_bytes() for jar in cache.jars([MODULE])] == [good]


_FETCH = """
import sys
from pathlib import Path
from drkit.local.jars import JarCache, Module
jars = JarCache(Path(sys.argv[1]), print, Path(sys.argv[2])).jars([Module("org.example", "sample", "1.0")])
print("done", jars[0].stat().st_size)
"""


@pytest.mark.wide
def test_two_processes_at_once_fetch_once(tmp_path, repository):
    command = [sys.executable, "-c", _FETCH, str(tmp_path / "cache"), str(repository.settings)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=60)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert all(f"done {repository.jar.stat().st_size}" in lines for lines in said)
    assert "".join(said).count("fetching Kafka") == 1


def test_the_cache_follows_the_environment():
    assert default_cache({"DRKIT_CACHE": "/a", "XDG_CACHE_HOME": "/b"}) == Path("/a")
    assert default_cache({"XDG_CACHE_HOME": "/b"}) == Path("/b/drkit")


def test_a_missing_java_is_reported_with_what_to_install(tmp_path):
    for env in ({"PATH": str(tmp_path)}, {"JAVA_HOME": str(tmp_path), "PATH": os.environ["PATH"]}):
        with pytest.raises(ConfigError, check=coded("no_java")) as caught:
            find_java(env)
        assert "Java 17" in caught.value.hint


@pytest.mark.parametrize(("version", "told"), [("1.8.0_392", "Java 8"), ("11.0.21", "Java 11")])
def test_an_old_java_is_reported(tmp_path, version, told):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    with pytest.raises(ConfigError, check=coded("java_too_old")) as caught:
        find_java({"JAVA_HOME": str(tmp_path)})
    assert told in caught.value.evidence


@pytest.mark.wide
def test_a_folder_holds_these_jars_and_no_other_version(tmp_path, fetched):
    folder = tmp_path / "context" / "jars"
    folder.mkdir(parents=True)
    (folder / "sample-0.9.jar").write_text("the version of last year")
    (folder / "kept.txt").write_text("not a jar")
    for _ in range(2):
        copy_jars(folder, fetched.jars([MODULE]))
        assert sorted(file.name for file in folder.iterdir()) == ["kept.txt", "sample-1.0.jar"]
    assert (folder / "sample-1.0.jar").read_bytes() == fetched.jars([MODULE])[0].read_bytes()
