"""Code in a cache counts only where no other user could have put it, and a lock follows no link."""

from __future__ import annotations

from collections.abc import Callable
import os
from pathlib import Path

import pytest

from drkit.errors import Failed
from drkit.local.file_lock import locked, locked_alone
from drkit.private_file import is_private
from tests.support.errors import coded

NOBODY = 65534


def mode(part: str, bits: int) -> Callable[[Path], None]:
    return lambda root: (root / part).chmod(bits)


def given_away(part: str) -> Callable[[Path], None]:
    return lambda root: os.chown(root / part, NOBODY, NOBODY)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "cache" / "classes").mkdir(parents=True)
    (tmp_path / "cache" / "classes" / "file").touch()
    for part in ("cache", "cache/classes", "cache/classes/file"):
        (tmp_path / part).chmod(0o755)
    return tmp_path


OTHERS = [
    mode("cache/classes/file", 0o664), mode("cache/classes/file", 0o646), mode("cache/classes", 0o777),
    mode("cache/classes", 0o775), mode("cache", 0o777), mode("cache", 0o770),
]  # fmt: skip
GIVEN = [given_away("cache"), given_away("cache/classes"), given_away("cache/classes/file")]


@pytest.mark.parametrize("change", OTHERS)
def test_what_others_may_write_is_not_private(root: Path, change: Callable[[Path], None]):
    file = root / "cache" / "classes" / "file"
    assert is_private(file)
    change(root)
    assert not is_private(file)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("change", GIVEN)
def test_what_another_user_owns_is_not_private(root: Path, change: Callable[[Path], None]):
    change(root)
    assert not is_private(root / "cache" / "classes" / "file")


def test_a_link_counts_with_where_it_is_and_where_it_leads(root: Path):
    here, there = root / "here", root / "there"
    here.mkdir(mode=0o755)
    there.mkdir(mode=0o755)
    (there / "file").touch(0o644)
    (here / "link").symlink_to(there / "file")
    assert is_private(here / "link")
    here.chmod(0o777)
    assert not is_private(here / "link")
    here.chmod(0o755)
    there.chmod(0o777)
    assert not is_private(here / "link")


def test_a_folder_where_others_replace_only_their_own_is_no_danger(root: Path):
    (root / "cache").chmod(0o1777)
    assert is_private(root / "cache" / "classes" / "file")
    assert not is_private(root / "cache" / "nothing")


@pytest.mark.parametrize("hold", [locked, lambda file: locked_alone(file, "drill_lock_held")])
def test_a_lock_empties_no_file(tmp_path: Path, hold: Callable[[Path], object]):
    victim, lock = tmp_path / "victim", tmp_path / "lock"
    victim.write_text("content")
    lock.symlink_to(victim)
    with pytest.raises(Failed, check=coded("lock_unusable")), hold(lock):  # type: ignore[attr-defined]
        pass
    assert victim.read_text() == "content"
    lock.unlink()
    lock.write_text("kept")
    with hold(lock):  # type: ignore[attr-defined]
        assert lock.read_text() == "kept"
