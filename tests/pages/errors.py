"""Writes ``docs/reference/errors.md``, the list of all errors: ``python -m tests.pages.errors``."""

from __future__ import annotations

from typing import Final

from drkit.catalogue import AREAS
from drkit.catalogue.entry import PAGE, Entry, with_dots

_HEAD: Final = """<!-- generated: python -m tests.pages.errors -->
# Errors

Every error of drkit has a code: `--json` has it in the field `code`, and `drkit explain CODE` prints what
is known about it. A code with a link has a page of its own, and the screen names it. `…` stands for a
value. Exit codes: 1 failed, 2 wrong usage or configuration, 3 refused or held until a person decides
([exit codes](exit-codes.md)).
"""


def errors_page() -> str:
    """Return the page."""
    parts = [_HEAD]
    for area in AREAS:
        title = str(area.__doc__).partition("\n")[0].rstrip(".").removeprefix("Errors ").strip()
        parts.append(f"## {title.removeprefix('of ').removeprefix('about ').capitalize()}\n")
        parts.append("| code | what happened | exit | what to do |\n| --- | --- | --- | --- |")
        parts += [_row(code, entry) for code, entry in sorted(area.ERRORS.items())]
        parts.append("")
    return "\n".join(parts)


def _row(code: str, entry: Entry) -> str:
    name = f"[`{code}`](../../runbooks/{entry.page}.md)" if entry.page else f"`{code}`"
    cells = (name, with_dots(entry.sentence), str(entry.exit_code), with_dots(entry.hint))
    return f"| {' | '.join(cell.replace('|', '¦') for cell in cells)} |"


if __name__ == "__main__":
    PAGE.write_text(errors_page(), encoding="utf-8")
