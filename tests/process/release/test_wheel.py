"""The wheel, built as a release is: from the source archive, and used without the repository."""

from __future__ import annotations

import email
from pathlib import Path
import re
import subprocess
import sys
import tarfile
import zipfile

import pytest

from drkit import __version__
from drkit.cli.files import FILES
from tests.support.laws import ROOT

LINK = re.compile(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build(ROOT, "sdist", folder)
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    build(folder / f"drkit-{__version__}", "wheel", folder)
    return next(folder.glob("*.whl"))


def build(source: Path, target: str, folder: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=source, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the wheel in it, and beside it the libraries that run this test."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], timeout=60, check=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)  # noqa: S202  an archive of our own
    libraries = next(Path(sys.prefix).glob("lib/python*/site-packages"))
    (packages / "libraries.pth").write_text(f"{libraries}\n", encoding="utf-8")
    return folder / "bin" / "python"


def test_it_has_every_shipped_file_and_its_marker_for_types(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    shipped = {name.removeprefix("drkit/pages/docker/") for name in names if "pages/docker/" in name}
    assert shipped == set(FILES)
    assert {"drkit/py.typed", "drkit/pages/docs/README.md", "drkit/pages/runbooks/README.md"} <= names


def test_its_page_on_an_index_has_no_link_that_ends_there(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        metadata = email.message_from_bytes(archive.read(f"drkit-{__version__}.dist-info/METADATA"))
    page = str(metadata.get_payload())
    source = dict(line.split(", ") for line in metadata.get_all("Project-URL", []))["Source"]
    links = [one or other for one, other in LINK.findall(re.sub(r"```.*?```", "", page, flags=re.DOTALL))]
    assert len(links) > 10
    assert [link for link in links if "://" not in link and not link.startswith(("#", "mailto:"))] == []
    for link in links:
        if path := re.fullmatch(rf"{re.escape(source)}/(?:blob|raw)/v{__version__}/([^#]+)(?:#.*)?", link):
            assert (ROOT / path[1]).exists(), link


def test_files_come_from_the_wheel(environment: Path, tmp_path: Path):
    command = [str(environment), "-I", "-m", "drkit", "files", "write", str(tmp_path / "new")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    for name in FILES:
        assert (tmp_path / "new" / name).read_bytes() == (ROOT / "docker" / name).read_bytes()


def test_mypy_sees_the_types_of_the_client(environment: Path, tmp_path: Path):
    script = tmp_path / "application.py"
    script.write_text(
        "from drkit.client import FailoverConsumer\n"
        "wrong: int = FailoverConsumer({}, endpoint='endpoint.json')\n",
        encoding="utf-8",
    )
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-incremental",
        "--python-executable",
        str(environment),
        str(script),
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=240, check=False)
    assert 'expression has type "FailoverConsumer", variable has type "int"' in done.stdout
    assert "Found 1 error in 1 file" in done.stdout
