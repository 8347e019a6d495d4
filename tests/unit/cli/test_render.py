from __future__ import annotations

from dataclasses import dataclass
import json
from typing import Any, NamedTuple

import pytest

from drkit.cli.render import emit


@dataclass
class Point:
    x: int
    names: tuple[str, ...]


class Pair(NamedTuple):
    left: int
    right: float


def shown(capsys: pytest.CaptureFixture[str], data: Any, *, as_json: bool = False) -> list[str]:
    emit(data, as_json)
    return capsys.readouterr().out.splitlines()


def test_rows(capsys: pytest.CaptureFixture[str]):
    rows = [{"topic_name": "orders", "lag": 12}, {"topic_name": "pay", "lag": None, "live": True}]
    assert shown(capsys, rows) == ["topic name  lag  live", "orders       12  –", "pay           –  yes"]


def test_keys_and_values(capsys: pytest.CaptureFixture[str]):
    data = {"result": "OK", "seconds": 1.5, "topics": [{"name": "a", "n": 1}], "none": []}
    assert shown(capsys, data) == [
        "result   OK",
        "seconds  1.5",
        "topics   name  n",
        "         a     1",
        "none     –",
    ]


def test_text_and_nothing(capsys: pytest.CaptureFixture[str]):
    assert shown(capsys, "done") == ["done"]
    assert shown(capsys, ["a", "b"]) == ["a", "b"]
    assert shown(capsys, None) == []


@pytest.mark.parametrize(
    ("data", "plain"),
    [
        ([{"a": 1}], [{"a": 1}]),
        (Point(1, ("a",)), {"x": 1, "names": ["a"]}),
        (Pair(1, 2.5), {"left": 1, "right": 2.5}),
        ({1: None}, {"1": None}),
    ],
)
def test_json(capsys: pytest.CaptureFixture[str], data: Any, plain: Any):
    assert json.loads("\n".join(shown(capsys, data, as_json=True))) == plain


def test_texts_keep_their_lines(capsys: pytest.CaptureFixture[str]):
    emit(["primary->standby: UP\n- it answers", "b->c: HOLD\x1b[2J"])
    assert capsys.readouterr().out == "primary->standby: UP\n- it answers\nb->c: HOLD\\x1b[2J\n"


def test_a_pipe_sees_whole_cells(capsys: pytest.CaptureFixture[str]):
    long = "x" * 500
    assert shown(capsys, [{"a": long}]) == ["a", long]


def test_brackets_are_text_not_markup(capsys: pytest.CaptureFixture[str]):
    assert shown(capsys, {"groups": "[bold]a[/bold]"}) == ["groups  [bold]a[/bold]"]
