"""``drkit files``: each shipped file is listed, shown and written; none of a user is overwritten unasked."""

from __future__ import annotations

import json
from pathlib import Path
import re
from typing import Any

import click
import pytest
import yaml

from drkit.cli import main as cli
from drkit.cli.actions.config import starter
from drkit.cli.files import FILES, FOLDER
from tests.support.laws import ROOT

BUILT_FROM_A_CLONE = {"Dockerfile", "base.sh", "ca/README.md", "spark/alive", "spark/node"}
"""Files of docker/ that an image of drkit needs, and with it the repository."""
UNIT = "systemd/drkit-replicate.service"


def answer(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Any:
    """The answer in JSON; of a refusal, its error."""
    assert cli.run([*words, "--json"]) == code
    captured = capsys.readouterr()
    return json.loads(captured.err if code else captured.out)


def is_local(path: Path) -> bool:
    """Return whether the repository ignores the file: jars of Kafka, certificates of a site."""
    return "jars" in path.parts or path.suffix in {".crt", ".pyc"}


def test_every_file_is_listed_with_a_description(capsys: pytest.CaptureFixture[str]):
    listed = answer(capsys, "files", "list")
    there = (path for path in (ROOT / "docker").rglob("*") if path.is_file() and not is_local(path))
    shipped = {path.relative_to(ROOT / "docker").as_posix() for path in there} - BUILT_FROM_A_CLONE
    assert {row["name"] for row in listed} == shipped
    assert all(row["description"] for row in listed)


def test_a_file_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]):
    for name in FILES:
        assert cli.run(["files", "show", name]) == 0
        assert capsys.readouterr().out == (ROOT / "docker" / name).read_text(encoding="utf-8")
    assert answer(capsys, "files", "show", UNIT)["text"].startswith("[Unit]")


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("show", "drkit-replicate.service"), f"'{UNIT}'"),
        (("show", "systemd"), f"'{UNIT}'"),
        (("show", "nonsense"), "drkit files list"),
        (("write", "to", "grafana/drkit.yaml"), "'grafana/drkit.json'"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(
    words: tuple[str, ...],
    hint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    error = answer(capsys, "files", *words, code=2)
    assert error["code"] == "shipped_file_unknown"
    assert hint in error["hint"]
    assert list(tmp_path.iterdir()) == []


def test_all_files_are_written_and_scripts_can_be_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    written = answer(capsys, "files", "write", str(tmp_path / "new"))
    assert {row["state"] for row in written} == {"written"}
    for name in FILES:
        path = tmp_path / "new" / name
        assert path.read_bytes() == (FOLDER / name).read_bytes()
        assert bool(path.stat().st_mode & 0o100) == path.read_bytes().startswith(b"#!")
    assert {row["state"] for row in answer(capsys, "files", "write", str(tmp_path / "new"))} == {"unchanged"}


def test_named_files_and_folders_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    answer(capsys, "files", "write", str(tmp_path), "systemd/", UNIT, "compose.yaml")
    names = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert names == {UNIT, "systemd/drkit-watch.service", "compose.yaml"}


def test_a_file_that_differs_is_overwritten_only_with_force(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    edited = tmp_path / UNIT
    edited.parent.mkdir()
    edited.write_text("edited", encoding="utf-8")
    error = answer(capsys, "files", "write", str(tmp_path), code=3)
    assert error["code"] == "shipped_files_differ"
    assert error["evidence"] == str(edited)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [edited], "no other file is written"
    states = {row["file"]: row["state"] for row in answer(capsys, "files", "write", str(tmp_path), "--force")}
    assert states.pop(str(edited)) == "overwritten"
    assert set(states.values()) == {"written"}
    assert edited.read_text(encoding="utf-8").startswith("[Unit]")


def test_what_cannot_be_written_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "systemd").write_text("a file, not a folder", encoding="utf-8")
    error = answer(capsys, "files", "write", str(tmp_path), UNIT, code=1)
    assert error["code"] == "shipped_file_unwritable"
    assert "Not a directory" in error["evidence"]
    assert str(tmp_path) in error["where"]


def manifests() -> dict[tuple[str, str], Any]:
    """Kind and name of each Kubernetes object, with the object."""
    text = (FOLDER / "kubernetes/drkit.yaml").read_text(encoding="utf-8")
    return {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(text)}


def pods() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Each Deployment with the specification of its pod."""
    deployments = [each["spec"] for (kind, _), each in manifests().items() if kind == "Deployment"]
    return [(each, each["template"]["spec"]) for each in deployments]


def test_a_manifest_names_only_what_is_in_it():
    objects = manifests()
    (binding,) = (each for (kind, _), each in objects.items() if kind == "RoleBinding")
    assert ("Role", binding["roleRef"]["name"]) in objects
    assert {("ServiceAccount", each["name"]) for each in binding["subjects"]} <= objects.keys()
    assert len(pods()) > 1
    for deployment, pod in pods():
        labels = deployment["template"]["metadata"]["labels"]
        assert deployment["selector"]["matchLabels"] == labels
        assert ("ServiceAccount", pod["serviceAccountName"]) in objects
        volumes = {each["name"]: each for each in pod["volumes"]}
        for volume in volumes.values():
            name = volume.get("secret", {}).get("secretName")
            claim = volume.get("persistentVolumeClaim", {}).get("claimName")
            assert ("Secret", name) in objects or ("PersistentVolumeClaim", claim) in objects
        for container in pod["containers"]:
            assert {each["name"] for each in container["volumeMounts"]} == volumes.keys()


def test_a_manifest_starts_drkit_with_arguments_and_a_configuration_that_it_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    for _, pod in pods():
        name, *rest = pod["containers"][0]["args"]
        command = cli.root.get_command(click.Context(cli.root), name)
        assert command is not None
        options = command.make_context(name, rest).params
        port = pod["containers"][0]["ports"][0]["containerPort"]
        assert (options["metrics_port"], options["metrics_address"]) == (port, "0.0.0.0")  # noqa: S104  in a pod
    file = tmp_path / "drkit.toml"
    file.write_text(manifests()["Secret", "drkit"]["stringData"]["drkit.toml"], encoding="utf-8")
    assert answer(capsys, "config", "check", "--config", str(file))


def test_one_port_of_metrics_is_suggested_everywhere():
    """Prometheus scrapes the port that ``drkit config init`` writes and the pages name."""
    scraped = (ROOT / "docker/prometheus/prometheus.yaml").read_text(encoding="utf-8")
    page = (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8")
    (port,) = re.findall(r"^#port = (\d+)$", starter(both_ways=False), re.MULTILINE)
    assert set(re.findall(r'"[\w-]+:(\d+)"', scraped)) == {port}
    assert f"--metrics-port {port}" in page
    assert f"port = {port}" in page
    assert f"--metrics-port {port}" in (ROOT / "README.md").read_text(encoding="utf-8")
