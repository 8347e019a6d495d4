"""Kafka's own VerifiableConsumer counts what a scenario left on the active side."""

from __future__ import annotations

from collections import Counter
import json
from pathlib import Path
import subprocess

import pytest

from drkit.chaos import probes
from drkit.chaos.run import run_scenario
from drkit.chaos.scenario import load_scenario
from drkit.chaos.stage import ORDERS, ScenarioStage
from drkit.exercise.events import Probed, Read, ScenarioEnded
from drkit.exercise.evidence import collect
from drkit.local import jars
from drkit.local.java import find_java

CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"


def counted(bootstrap: str, records: int, folder: Path) -> Counter[int]:
    """What Java's consumer is given of a topic, by partition; it ends after this number of records."""
    config = folder / "consumer.properties"
    config.write_text("isolation.level=read_committed\n", encoding="utf-8")
    done = subprocess.run(
        [
            str(find_java()), "-Xmx128m", "-cp", jars.classpath(), CONSUMER, "--bootstrap-server", bootstrap,
            "--topic", ORDERS, "--group-id", "verifiable", "--reset-policy", "earliest",
            "--max-messages", str(records), "--command-config", str(config),
        ],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    found: Counter[int] = Counter()
    for line in lines:
        if line["name"] == "records_consumed":
            found.update({p["partition"]: p["count"] for p in line["partitions"]})
    assert found, done.stdout + done.stderr
    return found


@pytest.mark.wide
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["primary-killed", "switchover-there-and-back", "return-with-tail"])
def test_java_counts_the_same(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    java: Counter[int] = Counter()
    ours: Counter[int] = Counter()

    def collected(stage: ScenarioStage) -> None:
        collect(stage)
        history = stage.history()
        end = history.last(ScenarioEnded)
        assert end is not None
        ours.update(e.partition for e in history.of(Read) if (e.cluster, e.topic) == (end.active, ORDERS))
        probed = [p for p in history.of(Probed) if (p.cluster, p.topic) == (end.active, ORDERS)]
        ours[0] += sum(p.is_accepted for p in probed)  # left out of the history, and in the log
        java.update(counted(stage.bootstrap(end.active), ours.total(), tmp_path))

    monkeypatch.setattr(probes, "collect", collected)
    result = run_scenario(load_scenario(name), tmp_path / "run", seed=2)
    assert result.verdict.word == "pass", result.as_dict()
    assert java == ours
