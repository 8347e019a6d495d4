"""``drkit local``: a primary/standby pair of real Kafka clusters on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from drkit.cli.render import emit
from drkit.local.pair import LocalPair, default_folder


def up(folder: Path | None, brokers: int, config: Path, *, as_json: bool) -> None:
    """Run ``drkit local up``."""
    pair = LocalPair(folder or default_folder())
    emit(pair.up(config, brokers=brokers, progress=lambda line: click.echo(line, err=True)), as_json)


def down(folder: Path | None, *, as_json: bool) -> None:
    """Run ``drkit local down``."""
    emit(LocalPair(folder or default_folder()).down(), as_json)


def status(folder: Path | None, *, as_json: bool) -> None:
    """Run ``drkit local status``."""
    emit(LocalPair(folder or default_folder()).status(), as_json)
