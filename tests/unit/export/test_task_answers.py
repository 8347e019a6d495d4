"""What tasks of an export answer comes back as it was, and the error of one is raised."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from drkit.errors import ExportAltered
from drkit.export.manifest import ExportFormat, TailRange
from drkit.export.task import Place, WrittenRange, _Answer, parts_text, ranges_text, read_share, written
from tests.support.errors import coded
from tests.support.recorded import RECORDED

RANGE = TailRange("orders", UUID(int=1), 0, 10, 20)
PARTS = RECORDED["manifest"].value.partitions[0].parts


def test_no_answer_is_nothing_written():
    assert written([]) == ([], 0)
    assert ranges_text([]) == "[]"


def test_answers_come_back_together():
    both = WrittenRange(RANGE, PARTS)
    found, peak = written([_Answer([both], 5).to_json(), _Answer([], 7).to_json()])
    assert [(each.wanted, each.parts) for each in found] == [(RANGE, PARTS)]
    assert peak == 7


def test_an_error_of_a_task_is_raised(tmp_path: Path):
    place = Place(str(tmp_path), ExportFormat.JSONL)
    answer = read_share(place, parts_text([(RANGE, PARTS[0])]))
    with pytest.raises(ExportAltered, check=coded("export_altered")) as caught:
        written([answer])
    assert caught.value.evidence == "records/orders/0/0.parquet is missing"
