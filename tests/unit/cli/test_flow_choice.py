"""A wrong or missing ``--flow`` is wrong usage, not a wrong file."""

from __future__ import annotations

from pathlib import Path

import pytest

from drkit.cli import main as cli
from tests.support.errors import sentence

CLUSTERS = '[clusters.primary]\nbootstrap_servers = "p:1"\n[clusters.standby]\nbootstrap_servers = "s:1"\n'
THERE = '[[flows]]\nsource = "primary"\ntarget = "standby"\n'
BACK = '[[flows]]\nsource = "standby"\ntarget = "primary"\n'


@pytest.mark.parametrize(
    ("text", "words", "lines"),
    [
        (
            CLUSTERS + THERE,
            ["failover", "--all", "--flow", "primry->standby"],
            [
                "usage: there is no flow 'primry->standby'",
                "  where      --flow",
                "  what to do did you mean 'primary->standby'?",
            ],
        ),
        (
            CLUSTERS + THERE + BACK,
            ["failover", "--all"],
            [
                f"usage: {sentence('several_flows', count=2)}",
                "  where      --flow",
                "  what to do --flow 'primary->standby', --flow 'standby->primary'",
            ],
        ),
        (
            CLUSTERS,
            ["failover", "--all"],
            [
                "configuration: there is no flow",
                "  where      flows",
                "  evidence   clusters: primary, standby",
                "  what to do add a [[flows]] table (in MirrorMaker 2's file: A->B.enabled = true)",
            ],
        ),
    ],
    ids=["unknown", "several", "none"],
)
def test_the_heading_says_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, words: list[str], lines: list[str]
):
    (tmp_path / "drkit.toml").write_text(text)
    assert cli.run([*words, "--config", str(tmp_path / "drkit.toml")]) == 2
    assert capsys.readouterr().err.splitlines() == lines
