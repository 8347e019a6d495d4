"""Exports of a test's topics by Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from drkit.config import Settings
from drkit.export.run import CopiedBack, Exported, ExportRequest, export_tails
from tests.support.export.topics import Topics
from tests.support.flows.flow import Flow

MASTER: Final = "local[2]"


def settings(flow: Flow) -> Settings:
    return Settings(clusters={c.alias: c for c in (flow.source, flow.target)}, flows=[flow.settings])


def export(topics: Topics, to: Path, run: str, *kinds: str, **more: Any) -> Exported:
    flow = topics.flow
    request = ExportRequest(**{"to": str(to), "run_id": run, "master": MASTER, **more.pop("request", {})})
    return export_tails(
        settings(flow), flow.settings, request, more.pop("tails", None) or topics.tails(*kinds),
        more.pop("skip", CopiedBack()), **more,
    )  # fmt: skip
