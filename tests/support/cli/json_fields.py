"""Names and types of the fields that each command prints with ``--json``, as recorded.

A path ends with ``?`` if not every object there has the field, with ``??`` if not every run has it.
With ``DRKIT_RECORD_JSON=1`` the tests that compare add to the record instead; then ``python -m
tests.support.cli.json_fields`` writes ``docs/reference/json.md`` below the current folder.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
import json
import os
from pathlib import Path
from typing import Any, Final

FILE: Final = Path(__file__).with_name("json_fields.json")
BY_NAME: Final = frozenset(
    {
        "topics",
        "holes",
        "left_out",
        "stopped_partitions",
        "processed_by",
        "signed",
        "subscribe",
        "flows[].groups",
    }
)
"""Objects whose keys are names of topics, groups and the like: all of their values have one shape."""
_TYPES: Final[Mapping[type, str]] = {
    type(None): "null",
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}

PAGE: Final = "docs/reference/json.md"
_HEADER: Final = """\
# JSON output

<!-- Generated: `python -m tests.support.cli.json_fields`. Tests keep each of its fields. -->

For programs that read drkit's output. Each command takes `--json`, before or after its name, and prints one
document on standard output. `drkit watch` and `drkit status --watch` print one document per line. An
[error](#error) is a document on standard error, after the lines of progress. The [exit code](exit-codes.md)
says how the command ended.

Later versions add fields. They remove none of this page and change no type, so ignore fields that you do not
know. `[]` is each element of a list, `*` each name of a topic. "Not always": some answers lack the field. The
reports in an answer of `drkit failback` have the fields of [`drkit failover`](#drkit-failover).
"""

Fields = dict[str, str]
"""Path of a field with ``?`` or ``??``, and its types separated by ``|``."""


def fields_of(answer: object) -> Fields:
    """Return the fields of one answer."""
    types: dict[str, set[str]] = defaultdict(set)
    holders: dict[str, list[set[str]]] = defaultdict(list)
    for path, value in _walk("", answer):
        types[path].add(_TYPES[type(value)])
        if isinstance(value, dict) and not _is_by_name(path):
            holders[path].append(set(value))
    sometimes = {
        _inside(path, name)
        for path, objects in holders.items()
        for name in set[str]().union(*objects)
        if any(name not in each for each in objects)
    }
    return {path + "?" * (path in sometimes): "|".join(sorted(names)) for path, names in types.items()}


def complaints(recorded: Fields, answer: object) -> list[str]:
    """Return which recorded fields an answer lacks, and which have a type that was not recorded."""
    printed = _by_path(fields_of(answer))
    wrong = []
    for path, (mark, types) in _by_path(recorded).items():
        if path not in printed:
            if mark != "??" and _may_have(printed, path):
                wrong.append(f"{path} is missing")
            continue
        printed_mark, printed_types = printed[path]
        if mark == "" and printed_mark == "?":
            wrong.append(f"{path} is missing in some objects")
        if more := printed_types - types:
            wrong.append(f"{path} is {'|'.join(sorted(more))}, not {'|'.join(sorted(types))}")
    return wrong


def merged(recorded: Fields | None, answer: object) -> Fields:
    """Return a record with one more run."""
    new = _by_path(fields_of(answer))
    old = new if recorded is None else _by_path(recorded)
    result: Fields = {}
    for path in {**old, **new}:
        marks = [part[path][0] for part in (old, new) if path in part]
        rare = any(path not in part and _may_have(part, path) for part in (old, new))
        types = set[str]().union(*(part[path][1] for part in (old, new) if path in part))
        result[path + ("??" if rare else max(marks))] = "|".join(sorted(types))
    return dict(sorted(result.items()))


def pin(command: str, answer: object) -> None:
    """Compare an answer of a command with its record; raises AssertionError."""
    record: dict[str, Fields] = json.loads(FILE.read_text(encoding="utf-8"))
    if os.environ.get("DRKIT_RECORD_JSON"):
        record[command] = merged(record.get(command), answer)
        FILE.write_text(json.dumps(dict(sorted(record.items())), indent=1) + "\n", encoding="utf-8")
        return
    wrong = complaints(record[command], answer)
    assert not wrong, f"drkit {command} --json: {'; '.join(wrong)}"


def _walk(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    yield path, value
    if isinstance(value, list):
        for inner in value:
            yield from _walk(f"{path}[]", inner)
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _walk(_inside(path, name), inner)


def _inside(path: str, name: str) -> str:
    name = "*" if _is_by_name(path) else name
    return f"{path}.{name}" if path else name


def _holder(path: str) -> str:
    return path.removesuffix("[]") if path.endswith("[]") else path.rpartition(".")[0]


def _may_have(fields: Mapping[str, tuple[str, set[str]]], path: str) -> bool:
    """Return whether the object or list that has a field was there."""
    return bool({"object", "array"} & fields.get(_holder(path), ("", set()))[1])


def _is_by_name(path: str) -> bool:
    return not BY_NAME.isdisjoint({path, path.rpartition(".")[2]})


def _by_path(fields: Fields) -> dict[str, tuple[str, set[str]]]:
    return {
        path.rstrip("?"): ("?" * (len(path) - len(path.rstrip("?"))), set(types.split("|")))
        for path, types in fields.items()
    }


def page() -> str:
    """Return the whole page."""
    record: dict[str, Fields] = json.loads(FILE.read_text(encoding="utf-8"))
    return "\n".join([_HEADER, *(line for name in record for line in _section(name, record[name]))])


def _section(name: str, fields: Fields) -> Iterator[str]:
    yield from (f"## `drkit {name}`" if name != "error" else "## Error", "")
    yield from ("| field | type | |", "| --- | --- | --- |")
    for path, types in fields.items():
        text = types.replace("|", " or ")
        if path and "object" not in types and types not in {"array", "null"}:
            yield f"| `{path.rstrip('?')}` | {text} | {'not always' if path.endswith('?') else ''} |"
    yield ""


if __name__ == "__main__":
    Path(PAGE).write_text(page(), encoding="utf-8")
