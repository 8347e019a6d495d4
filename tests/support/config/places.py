"""The place of an error in drkit.toml, compared with the text of the file."""

from __future__ import annotations

from pathlib import Path
import re

_PLACE = re.compile(r"(?P<file>.+?):(?P<line>\d+): (?P<path>.+)")
_LAST = re.compile(r"(?:^|\.)(?:\"(?P<quoted>[^\"]+)\"|(?P<bare>[^.\"\[\]]+))(?:\[\d+\])*$")


def setting_in(place: str, file: Path | str, text: str) -> str:
    """Return the path of a setting, once its line is seen to be right.

    The line names the setting; one that is missing in the file belongs to the table of a header.

    :param place: as in ``drkit.toml:9: flows[0].source``
    :param text: of the file
    """
    found = _PLACE.fullmatch(place)
    assert found is not None, place
    assert found["file"] == str(file)
    lines = text.splitlines()
    line, last = lines[int(found["line"]) - 1], _LAST.search(found["path"])
    assert last is not None, place
    name = last["quoted"] or last["bare"]
    names_it = re.search(rf'(?:^|[{{,])\s*"?{re.escape(name)}"?\s*=', line)
    assert names_it or line.startswith("["), (place, line)
    return found["path"]
