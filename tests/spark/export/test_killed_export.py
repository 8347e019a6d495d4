"""An export is killed while it writes, and exported again."""

from __future__ import annotations

import json
from pathlib import Path
import subprocess
import sys

import pytest

from drkit.errors import ConfigError
from drkit.export.check import check_files
from tests.support.errors import coded
from tests.support.export.by_spark import export, settings
from tests.support.export.topics import Topics
from tests.support.waiting import eventually

EXPORTER = """
import json, sys
from pathlib import Path
from uuid import UUID
from drkit.config import Settings
from drkit.export.manifest import TailRange
from drkit.export.reading import TailReader
from drkit.export.run import CopiedBack, ExportRequest, export_tails

given = json.loads(sys.argv[1])
settings = Settings.model_validate(given["settings"])
tails = [TailRange(t, UUID(i), *rest) for t, i, *rest in given["tails"]]
request = ExportRequest(given["to"], "run-8", master="local[2]")
export_tails(settings, settings.flows[0], request, tails, CopiedBack())
"""


@pytest.mark.soak
def test_one_that_was_killed_is_incomplete_and_is_replaced(topics: Topics, tmp_path: Path):
    tails = topics.tails("codecs", "transactions")
    given = {
        "settings": settings(topics.flow).model_dump(mode="json"),
        "to": str(tmp_path),
        "tails": [[t.topic, str(t.topic_id), *t[2:]] for t in tails],
    }
    with subprocess.Popen(
        [sys.executable, "-c", EXPORTER, json.dumps(given)], stderr=subprocess.PIPE
    ) as process:
        try:
            eventually(lambda: [*tmp_path.glob("run-8/records/*/*/*")] or process.poll() is not None)
        finally:
            process.kill()
            _, said = process.communicate()
    assert [*tmp_path.glob("run-8/records/*/*/*")], said
    with pytest.raises(ConfigError, check=coded("export_manifest_missing")):
        check_files(str(tmp_path / "run-8/manifest.json"))
    told: list[str] = []
    done = export(topics, tmp_path, "run-8", tails=tails, progress=told.append)
    assert "an interrupted export is replaced" in told[0]
    assert check_files(done.path, done.sha256).ranges == tuple(sorted(tails))
