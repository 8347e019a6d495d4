"""``drkit status`` where neither cluster answers: both are named, and nothing unknown looks known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drkit.cli import main as cli
from tests.support.kafka.ports import closed


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "drkit.toml"
    file.write_text(
        f'[clusters.primary]\nbootstrap_servers = "{closed()},{closed()}"\n'
        f'[clusters.standby]\nbootstrap_servers = "{closed()}"\n'
        '[[flows]]\nsource = "primary"\ntarget = "standby"\n'
    )
    return str(file)


def test_both_clusters_are_asked(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--config", config, "--json", "status"]) == 1
    (flow,) = json.loads(capsys.readouterr().out)["flows"]
    assert [fault["code"] for fault in flow["faults"]] == ["target_unreachable", "source_unreachable"]
    assert (flow["source_answers"], flow["target_answers"]) == (False, False)
    assert flow["loss"]["source_seen_seconds"] is None
    assert not flow["pair"]["why"], "whether something was copied is unknown"
    for fault in flow["faults"]:
        assert fault["text"].count("nothing listens on this port") == 1, "one fact, said once"
        assert "\n" not in fault["text"], "a screen would show an escape"
