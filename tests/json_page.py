"""The reference of JSON output, made from what the tests have recorded.

``python -m tests.json_page`` writes ``docs/reference/json.md`` below the current folder.
"""

from __future__ import annotations

from collections.abc import Iterator
import json
from pathlib import Path
from typing import Final

from tests.support.cli.json_fields import FILE, Fields

PAGE: Final = "docs/reference/json.md"
_HEADER: Final = """\
# JSON output

<!-- Generated: `python -m tests.json_page`. Tests keep every field of this page in drkit's output. -->

For programs that read drkit's output. Each command takes `--json`, before or after its name, and prints one
document on standard output. `drkit watch` and `drkit status --watch` print one document per line. An
[error](#error) is a document on standard error, after the lines of progress. The [exit code](exit-codes.md)
says how the command ended.

Later versions add fields. They remove none of this page and change no type, so ignore fields that you do not
know. `[]` is each element of a list, `*` each name of a topic. "Not always": some answers lack the field.
"""


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
