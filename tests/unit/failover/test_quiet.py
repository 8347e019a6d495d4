"""``drkit failover --dry-run --quiet``: the verdict alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from drkit.cli.main import run
from tests.support.errors import sentence


def test_quiet_is_for_a_dry_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "drkit.toml"
    config.write_text('[clusters.a]\nbootstrap_servers = "127.0.0.1:9"\n')
    assert run(["failover", "--all", "--quiet", "--config", str(config)]) == 2
    assert sentence("quiet_without_dry_run") in capsys.readouterr().err
