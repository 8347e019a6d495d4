"""[metrics]: where metrics are served, by the file, the environment and flags; what a change means."""

from __future__ import annotations

from pathlib import Path

import pytest

from drkit.config import Loaded, MetricsSettings, Settings, read
from drkit.config.changes import changes
from drkit.config.tables.settings import FailoverSettings
from drkit.errors import ConfigError

TEXT = '[metrics]\nport = 9404\nhost = "0.0.0.0"\nlabels = { env = "production", site = "ber" }\n'


def loaded(folder: Path, text: str, *flags: str, **env: str) -> Loaded:
    (folder / "drkit.toml").write_text(text)
    return read(folder / "drkit.toml", env, flags)


def test_nothing_is_served_by_default(tmp_path: Path):
    found = loaded(tmp_path, "[metrics]").settings.metrics
    assert found == MetricsSettings()
    assert (found.port, found.host, found.labels) == (None, "127.0.0.1", {})


def test_file_environment_and_flags(tmp_path: Path):
    found = loaded(tmp_path, TEXT)
    assert found.settings.metrics.port == 9404
    assert found.settings.metrics.labels == {"env": "production", "site": "ber"}
    assert found.origins["metrics.port"] == "drkit.toml:2"
    assert not found.notes  # all of it acts
    told = loaded(tmp_path, TEXT, "metrics.port=9500", DRKIT_METRICS__PORT="9405", DRKIT_METRICS__HOST="::1")
    assert (told.settings.metrics.port, told.settings.metrics.host) == (9500, "::1")
    assert told.origins["metrics.host"] == "DRKIT_METRICS__HOST"
    assert loaded(tmp_path, "", DRKIT_METRICS__PORT="0").settings.metrics.port == 0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("port = 70000", "65535"),
        ('host = ""', "host"),
        ('labels = { topic = "x" }', "'topic' is taken"),
        ('labels = { __name__ = "x" }', "'__name__' is taken"),
        ('labels = { "no-name" = "x" }', "no-name"),
        ("prot = 1", "did you mean 'port'"),
    ],
)
def test_what_cannot_be(tmp_path: Path, text: str, why: str):
    with pytest.raises(ConfigError) as found:
        loaded(tmp_path, f"[metrics]\n{text}\n")
    assert why in f"{found.value.evidence} {found.value.hint} {found.value.what} {found.value.where}"


def test_a_change_waits_for_a_restart_and_is_named():
    before = Settings(metrics=MetricsSettings(port=9404))
    after = Settings(
        metrics=MetricsSettings(port=9405, labels={"env": "x"}), failover=FailoverSettings(rpo_seconds=5)
    )
    assert changes(before, [], after).restart == (
        "metrics.port: 9404 → 9405", "metrics.labels: {} → {'env': 'x'}", "failover.rpo_seconds: 30.0 → 5.0"
    )  # fmt: skip
    assert changes(before, [], before).restart == ()
