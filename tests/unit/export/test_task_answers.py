"""What tasks of an export answer comes back as it was, and the error of one is raised."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID

import pytest

from drkit.errors import ExportAltered
from drkit.export.manifest import ExportFormat, TailRange, partition_export
from drkit.export.task import Place, read_share, share_text, written
from tests.support.errors import coded
from tests.support.recorded import RECORDED

RANGE = TailRange("orders", UUID(int=1), 0, 10, 20)
PARTS = RECORDED["manifest"].value.partitions[0].parts
EXPORT = partition_export(RANGE, PARTS)


def test_no_answer_is_nothing_written():
    assert written([]) == ([], 0)
    assert share_text([]) == "[]"


def test_answers_come_back_together():
    answers = [{"found": share_text(found), "peak": peak} for found, peak in (([EXPORT], 5), ([], 7))]
    found, peak = written([json.dumps(answer) for answer in answers])
    assert [(each.range, each.parts) for each in found] == [(RANGE, PARTS)]
    assert peak == 7


def test_an_error_of_a_task_is_raised(tmp_path: Path):
    place = Place(str(tmp_path), ExportFormat.JSONL)
    answer = read_share(place, share_text([partition_export(RANGE, PARTS[:1])]))
    with pytest.raises(ExportAltered, check=coded("export_altered")) as caught:
        written([answer])
    assert caught.value.evidence == "records/orders/0/0.parquet is missing"
