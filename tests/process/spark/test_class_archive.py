"""The archive of Spark's classes is used where it is, and missed nowhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drkit.errors import Failed
from drkit.local.java import find_java
from drkit.local.node import Runtime
from drkit.local.runtime import _train
from drkit.spark.class_archive import archive_option, archive_place, command_place
from drkit.spark.class_training import make_archive
from drkit.spark.jvm import launched
from tests.support.errors import coded


def test_without_an_archive_spark_starts_as_ever(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DRKIT_CACHE", str(tmp_path))
    assert archive_option(find_java()) == ""


def test_the_archive_of_this_java_and_these_jars_is_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DRKIT_CACHE", str(tmp_path))
    (tmp_path / "classes").mkdir()
    archive_place(find_java()).touch()
    assert archive_option(find_java()) == f"-XX:SharedArchiveFile={archive_place(find_java())}"


def test_other_jars_have_another_archive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    without = archive_place(find_java())
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core.jar").touch()
    assert archive_place(find_java()) != without


def test_a_path_that_spark_would_split_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DRKIT_CACHE", str(tmp_path / "my cache"))
    archive_place(find_java()).parent.mkdir(parents=True)
    archive_place(find_java()).touch()
    assert archive_option(find_java()) == ""


@pytest.mark.parametrize("shared", ["classes", "archive", "command"])
def test_what_another_user_may_write_is_not_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, shared: str
) -> None:
    monkeypatch.setenv("DRKIT_CACHE", str(tmp_path))
    java = find_java()
    archive = archive_place(java)
    archive.parent.mkdir()
    archive.touch(0o644)
    command_place(archive).write_text(json.dumps(["-agentpath:/tmp/another-users.so", "-cp", "/nowhere"]))
    {"classes": archive.parent, "archive": archive, "command": command_place(archive)}[shared].chmod(0o777)
    assert launched(java, None) is None
    if shared != "command":
        assert archive_option(java) == ""


def test_no_archive_is_made_where_others_may_write(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DRKIT_CACHE", str(tmp_path))
    (tmp_path / "classes").mkdir()
    (tmp_path / "classes").chmod(0o777)
    with pytest.raises(Failed, check=coded("cache_shared")):
        make_archive()
    with pytest.raises(Failed, check=coded("cache_shared")):
        _train(Runtime(find_java(), ""), tmp_path / "classes" / "brokers.jsa")
