"""The archive of Spark's classes is used where it is, and missed nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from drkit.local.java import find_java
from drkit.spark.class_archive import archive_option, archive_place


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
