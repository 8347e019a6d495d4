"""Storage of exports: paths and URLs, who may read them, and that no file is overwritten."""

from __future__ import annotations

from pathlib import Path
import stat

from pyarrow import fs
import pytest

from drkit.errors import ConfigError
from drkit.export.places import joined, local_path, parent, storage_at
from drkit.export.remote import RemoteFolder
from drkit.export.storage import LocalFolder, Storage
from tests.support.errors import coded


@pytest.fixture(params=["local", "by pyarrow"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    folder = tmp_path / "to" / "run"
    return (
        LocalFolder(folder) if request.param == "local" else RemoteFolder(fs.LocalFileSystem(), str(folder))
    )


def write(storage: Storage, path: str, data: bytes = b"x\ny\n") -> None:
    file = storage.create(path)
    file.write(data)
    file.close()


def test_a_folder_is_made_written_listed_published_and_removed(storage: Storage):
    assert not storage.exists()
    storage.make()
    assert storage.exists()
    write(storage, "a/b/1.x")
    write(storage, "draft")
    with storage.open("a/b/1.x") as file:
        assert [*file] == [b"x\n", b"y\n"]
    assert sorted((f.path, f.size, f.is_plain) for f in storage.files()) == [
        ("a/b/1.x", 4, True), ("draft", 4, True)
    ]  # fmt: skip
    storage.publish("draft", "final")
    storage.delete("a/b/1.x")
    assert [f.path for f in storage.files()] == ["final"]
    storage.remove()
    assert not storage.exists()


def test_nothing_is_written_over(storage: Storage):
    storage.make()
    with pytest.raises(FileExistsError):
        storage.make()
    write(storage, "a/1")
    with pytest.raises(FileExistsError):
        storage.create("a/1")
    with storage.open("a/1") as file:
        assert file.read() == b"x\ny\n"


def test_what_is_not_there_is_an_error(storage: Storage):
    with pytest.raises(FileNotFoundError):
        storage.open("a")
    with pytest.raises(FileNotFoundError):
        list(storage.files())


def test_a_local_folder_is_private_and_follows_no_link(tmp_path: Path):
    storage = LocalFolder(tmp_path / "to" / "run")
    storage.make()
    write(storage, "a/b/1")
    for path in (tmp_path / "to").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    assert stat.S_IMODE((tmp_path / "to").stat().st_mode) == 0o700
    (tmp_path / "to/run/link").symlink_to(tmp_path / "to/run/a/b/1")
    with pytest.raises(OSError, match="symbolic link"):
        storage.open("link")
    with pytest.raises(FileExistsError):
        storage.create("link")


@pytest.mark.parametrize(
    ("place", "path"),
    [
        ("/a/b", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("file:///a%20b", "/a b"),
        ("file://localhost/a", "/a"),
        ("FILE:///a", "/a"),
        ("s3://bucket/a", None),
        ("hdfs://name:8020/a", None),
    ],
)
def test_which_places_are_of_this_machine(place: str, path: str | None):
    assert local_path(place) == (None if path is None else Path(path))


def test_a_relative_folder_is_that_of_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert local_path("a/b") == tmp_path / "a/b"


@pytest.mark.parametrize("place", ["", "file:a", "file://host/a"])
def test_what_is_no_place(place: str):
    with pytest.raises(ConfigError):
        local_path(place)


@pytest.mark.parametrize("place", ["ftp://host/a", "nothing:/a"])
def test_what_pyarrow_does_not_know(place: str):
    with pytest.raises(ConfigError, check=coded("export_url_refused")):
        storage_at(place)


@pytest.mark.parametrize(
    "place",
    ["s3://AKIA:s3cr3t@bucket/a", "abfs://c@account/a?client_secret=s3cr3t", "gs://b/a?access_token=s3cr3t"],
)
def test_a_secret_in_a_place_is_refused_and_not_shown(place: str):
    with pytest.raises(ConfigError, check=coded("export_url_has_secret")) as refused:
        storage_at(place)
    assert "s3cr3t" not in repr(refused.value.as_dict())


def test_names_below_a_place():
    assert joined("/a/b/", "c") == "/a/b/c"
    assert joined("/a?b", "c") == "/a?b/c"
    assert joined("s3://b/a?region=x", "c") == "s3://b/a/c?region=x"
    assert parent("s3://b/a/c?region=x") == ("s3://b/a?region=x", "c")
    assert parent("/a/b?/c") == ("/a/b?", "c")
    assert parent("c") == (".", "c")
    assert parent("/c") == ("/", "c")
