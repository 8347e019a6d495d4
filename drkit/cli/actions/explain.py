"""``drkit explain``: print any page, code or word from the installed drkit."""

from __future__ import annotations

import posixpath
from typing import Any, Final

from drkit.cli.markdown import rendered
from drkit.cli.page_index import SOURCES, IndexEntry, command_for, entries, look_up, look_up_page
from drkit.cli.render import emit, emit_list, emit_page
from drkit.cli.session import session
from drkit.config.tables.fields import did_you_mean
from drkit.errors import Usage

_TO_SEARCH: Final = {"how-to", "tutorial", "explanation"}


def explain(words: tuple[str, ...], *, listed: bool) -> None:
    """Run ``drkit explain``."""
    if listed or not words:
        _list(words)
        return
    asked = " ".join(words)
    found = look_up(asked)
    if not found:
        near = _pages_with(asked) or did_you_mean(asked, {entry.name for entry in entries()})
        raise Usage("nothing_to_explain", where="drkit explain", asked=asked, suggestion=near)
    first, *others = found
    also = [command_for(entry) for entry in others if entry.page != first.page or not entry.is_page]
    if session().as_json:
        emit({**_as_json(first), "text": first.text, "also": also})
        return
    page = look_up_page(first.page)
    if page and page.text in first.text:
        page = None
    more = [f"page: {command_for(page)}"] if page else []
    more += [f"also: {command}" for command in also]
    emit_page(rendered(first.text, lambda target: _command(first.page, target)), more)


def _pages_with(words: str) -> str:
    """Return the commands for pages that have these words, the most likely first; empty if there are none."""
    words = words.lower()
    pages = [e for e in entries() if e.kind in _TO_SEARCH and words in e.text.lower()]
    pages.sort(key=lambda e: (words not in f"{e.name} {e.sentence}".lower(), -e.text.lower().count(words)))
    return f"pages with it: {', '.join(map(command_for, pages[:3]))}; " if pages else ""


def _list(kinds: tuple[str, ...]) -> None:
    """List all entries, or those of some kinds."""
    shown = [source for source in SOURCES if not kinds or source.kind in kinds]
    if not shown:
        known = ", ".join(source.kind for source in SOURCES)
        kind = " ".join(kinds)
        raise Usage("explain_kind_unknown", where="drkit explain --list", kind=kind, known=known)
    if session().as_json:
        emit([_as_json(entry) for source in shown for entry in entries() if entry.kind == source.kind])
        return
    emit_list(
        {
            f"{source.heading} ({source.kind})": {
                e.name: e.sentence for e in entries() if e.kind == source.kind
            }
            for source in shown
        }
    )


def _as_json(entry: IndexEntry) -> dict[str, Any]:
    return {"code": entry.name, "meaning": entry.sentence, "kind": entry.kind, "page": entry.page}


def _command(page: str, target: str) -> str:
    """Return the command that prints the target of a link; for another site its address."""
    if "://" in target:
        return target
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target.partition("#")[0]))
    entry = look_up_page(path)
    return command_for(entry) if entry and path != page else ""
