"""``drkit files``: the systemd units, alert rules, dashboard, compose file and manifests that drkit ships."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

import drkit
from drkit.cli.help import group
from drkit.cli.loading import work
from drkit.cli.options import OptionGroup, flag
from drkit.cli.session import session
from drkit.cli.talk import show
from drkit.errors import Failed, Refused, Usage, error_text

FILES: Final = {
    "systemd/drkit-replicate.service": "systemd unit of a replicator",
    "systemd/drkit-watch.service": "systemd unit of an observer",
    "kubernetes/drkit.yaml": "Kubernetes: two replicators, an observer, the permissions to repoint clients",
    "prometheus/drkit.rules.yaml": "Prometheus: alert rules, explained by: drkit explain alerts",
    "prometheus/drkit.inhibit.yaml": "Alertmanager: which alerts a lost primary makes silent",
    "grafana/drkit.json": "Grafana: a dashboard to import",
    "compose.yaml": "compose: two Kafka clusters, Spark, drkit, Prometheus, Grafana: drkit explain docker",
    ".env": "compose: its project name, base image and subnet",
    "drkit.toml": "compose: the configuration of drkit",
    "prometheus/prometheus.yaml": "compose: what Prometheus scrapes",
    "prometheus/Dockerfile": "compose: the image of Prometheus",
    "prometheus/ready": "compose: the health check of that image",
    "grafana/provisioning/dashboards/drkit.yaml": "compose: where Grafana reads dashboards",
    "grafana/provisioning/datasources/prometheus.yaml": "compose: where Grafana reads metrics",
    "kafka/Dockerfile": "compose: the image of a Kafka node, for trials and tests",
    "kafka/entrypoint.sh": "compose: starts the Kafka node",
    "kafka/answers": "compose: the health check of the Kafka node",
    "kafka/log4j2.xml": "compose: the logging of the Kafka node",
}
"""Name of each shipped file, relative to their folder, with its description."""
_PACKAGE: Final = Path(drkit.__file__).parent
_INSTALLED: Final = _PACKAGE / "pages" / "docker"
FOLDER: Final = _INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parent / "docker"
"""The shipped files: inside an installed package, beside the package in a source tree."""


@group(
    examples={
        "drkit files list": "List the files",
        "drkit files show prometheus/drkit.rules.yaml": "Print the alert rules",
        "drkit files write /etc/drkit systemd": "Write the systemd units",
    }
)
def files() -> None:
    """Write systemd units, manifests, alert rules, a dashboard."""


@files.command(
    "list",
    examples={
        "drkit files list": "List the files",
        "drkit files list --json": "The same as JSON",
        "drkit files show systemd/drkit-watch.service": "Print one of them",
    },
)
def list_files() -> None:
    """List the files, each with a description."""
    rows = [{"name": name, "description": description} for name, description in FILES.items()]
    work("drkit.cli.render").emit(rows)


@files.command(
    "show",
    examples={
        "drkit files show grafana/drkit.json": "Print the dashboard",
        "drkit files show prometheus/drkit.rules.yaml > drkit.rules.yaml": "Write it to a file",
        "drkit files list": "Find the name of a file",
    },
)
@click.argument("name")
def show_file(name: str) -> None:
    """Print one file."""
    (name,) = _select((name,), where="drkit files show", is_folder_allowed=False)
    text = (FOLDER / name).read_text(encoding="utf-8")
    if session().as_json:
        shown = {"name": name, "text": text}
        work("drkit.cli.render").emit(shown)
    else:
        show(text.removesuffix("\n"))


@files.command(
    "write",
    examples={
        "drkit files write deploy": "Write all files below ./deploy",
        "drkit files write /etc/drkit systemd": "Write the files of one folder",
        "drkit files write deploy kubernetes/drkit.yaml --force": "Overwrite one file",
    },
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.argument("names", metavar="[NAME]...", nargs=-1)
@flag("--force", group=OptionGroup.HOW, help="Overwrite files that differ.")
def write_files(folder: Path, names: tuple[str, ...], *, force: bool) -> None:
    """Write all files below DIR, or those named; NAME is a file or a folder of: drkit files list.

    A file that is there with the same content is left alone. Otherwise nothing is written without --force.
    """
    chosen = _select(names or tuple(FILES), where="drkit files write", is_folder_allowed=True)
    try:
        states = {name: _state(folder / name, (FOLDER / name).read_bytes()) for name in chosen}
        differing = [str(folder / name) for name, state in states.items() if state == "overwritten"]
        if differing and not force:
            raise Refused(
                "shipped_files_differ",
                where=str(folder),
                evidence=", ".join(differing),
                count=len(differing),
                total=len(chosen),
            )
        for name, state in states.items():
            if state != "unchanged":
                _write(folder / name, (FOLDER / name).read_bytes())
    except OSError as error:
        raise Failed(
            "shipped_file_unwritable", where=str(error.filename or folder), evidence=error_text(error)
        ) from error
    rows = [{"file": str(folder / name), "state": state} for name, state in states.items()]
    work("drkit.cli.render").emit(rows)


def _select(words: tuple[str, ...], *, where: str, is_folder_allowed: bool) -> list[str]:
    """Return the names of the files to write. Raises Usage if a word names no file."""
    chosen = []
    for word in words:
        name = word.removeprefix("./").rstrip("/")
        inside = [known for known in FILES if known == name or known.startswith(f"{name}/")]
        if not inside or (inside != [name] and not is_folder_allowed):
            near = work("drkit.config.tables.fields").closest(name, FILES) or (inside[0] if inside else "")
            hint = f"did you mean '{near}'?" if near else "drkit files list names every file"
            raise Usage("shipped_file_unknown", where=where, hint=hint, name=word)
        chosen += [known for known in inside if known not in chosen]
    return chosen


def _state(path: Path, content: bytes) -> str:
    """Return what writing does to the path: written, unchanged or overwritten."""
    try:
        return "unchanged" if path.read_bytes() == content else "overwritten"
    except FileNotFoundError:
        return "written"


def _write(path: Path, content: bytes) -> None:
    """Write a file with its folders; a script is made executable, which not every installer keeps."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    if content.startswith(b"#!"):
        path.chmod(0o755)
