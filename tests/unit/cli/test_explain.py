"""Laws of the index of `drkit explain`: each page, code and word is in it, and what screens name is found."""

from __future__ import annotations

from pathlib import Path
import re

import pytest

from drkit.catalogue import ERRORS
from drkit.cli.page_index import ROOT, SOURCES, command_for, entries, look_up, look_up_page, plain
from drkit.config.tables.fields import closest
from drkit.detect.reasons import Reason
from tests.support.cli.printed import texts
from tests.support.laws import broken

PROJECT = Path(__file__).parents[3]
RUNBOOKS = sorted(p.stem for p in (ROOT / "runbooks").glob("*.md") if p.stem != "README")
SOURCE_FILES = sorted((PROJECT / "drkit").rglob("*.py"))
PAGES = [p for folder in ("docs", "runbooks") for p in sorted((PROJECT / folder).rglob("*.md"))]
NAMED = re.compile(r"\bdrkit explain (\w[A-Za-z0-9_./-]*[A-Za-z0-9_-])")
PLACEHOLDERS = {"CODE", "NAME", "CLASS"}
NOT_PRINTED = {
    "drkit/cli/page_index.py": "reads the pages",
    "drkit/detect/reasons.py": "a path in JSON, and in links of generated pages",
    "drkit/drill/run_drill.py": "a path in a report's JSON",
}


@pytest.mark.parametrize("source", SOURCES, ids=lambda s: s.kind)
def test_each_source_has_entries_with_a_sentence(source) -> None:
    found = [entry for entry in entries() if entry.kind == source.kind]
    assert found
    for entry in found:
        assert entry.sentence, entry.name
        assert not re.search(r"\]\(|`|\*\*|<!--|^#", entry.sentence), entry.sentence
        assert (ROOT / entry.page).is_file()


@pytest.mark.parametrize(
    "entry", [e for e in entries() if e.kind in {"alert", "class"}], ids=lambda e: e.name
)
def test_a_section_is_listed_with_its_whole_first_sentence(entry) -> None:
    about = plain(" ".join(entry.text.partition("\n\n")[2].split()))
    after = about.removeprefix(entry.sentence)
    assert after != about
    assert re.match(r"[.:](?:$| )", after), entry.sentence


def test_each_page_is_printed_by_its_path_and_by_a_name_of_its_own() -> None:
    for path in PAGES:
        page = path.relative_to(PROJECT).as_posix()
        entry = look_up_page(page)
        assert entry is not None, page
        assert entry.text == path.read_text(encoding="utf-8")
        assert look_up(command_for(entry).removeprefix("drkit explain "))[0] == entry


def test_each_entry_is_printed_by_a_name() -> None:
    for entry in entries():
        name = command_for(entry).removeprefix("drkit explain ")
        assert look_up(name)[0] == entry, entry.address


@pytest.mark.parametrize(
    ("asked", "kind", "name"),
    [
        ("night", "how-to", "night"),
        ("docs/how-to/night.md", "how-to", "night"),
        ("failback", "how-to", "failback"),
        ("explanation/failback", "explanation", "failback"),
        ("runbooks/hold-paused.md", "hold", "hold-paused"),
        ("failover-no-quorum", "refusal", "failover-no-quorum"),
        ("no_quorum", "error", "no_quorum"),
        ("BOTH OPEN", "pair", "pair-both-open"),
        ("source_gap", "event", "source_gap"),
        ("heartbeat_stale", "fault", "heartbeat_stale"),
        ("DrkitGone", "alert", "DrkitGone"),
        ("LOST", "verdict", "LOST"),
        ("up", "verdict", "UP"),
        ("3", "exit-code", "3"),
        ("141", "exit-code", "141"),
        ("rpo_seconds", "setting", "failover.rpo_seconds"),
        ("flows.tasks", "setting", "flows.tasks"),
        ("drkit_rpo_seconds", "metric", "drkit_rpo_seconds"),
        ("epoch", "word", "epoch"),
        ("standby", "how-to", "standby"),
        ("regressed", "class", "regressed"),
        ("primary-killed", "scenario", "primary-killed"),
        ("automatic_failover_ended", "event", "automatic_failover_ended"),
    ],
)
def test_a_name_is_found(asked: str, kind: str, name: str) -> None:
    first = look_up(asked)[0]
    assert (first.kind, first.name) == (kind, name)


@pytest.mark.parametrize("name", RUNBOOKS)
def test_every_runbook_is_found_and_in_the_index(name: str) -> None:
    assert look_up(f"runbooks/{name}")[0].page == f"runbooks/{name}.md"
    assert f"]({name}.md)" in (ROOT / "runbooks" / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("code", ERRORS)
def test_every_error_is_explained_first_with_its_page(code: str) -> None:
    first = look_up(code)[0]
    assert (first.kind, first.name) == ("error", code)
    assert f"- **exit code:** {ERRORS[code].exit_code}" in first.text
    page = ERRORS[code].page
    if page:
        assert (ROOT / "runbooks" / f"{page}.md").read_text(encoding="utf-8") in first.text


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_of_a_verdict_is_explained(reason: Reason) -> None:
    assert look_up(reason.value)


def test_a_name_that_is_only_a_little_like_another_is_not_suggested() -> None:
    names = {entry.name for entry in entries()}
    assert closest("source_gab", names) == "source_gap"
    assert closest("xyzzy", names) is None


def test_every_page_that_a_screen_names_can_be_printed() -> None:
    found = []
    for path in [*SOURCE_FILES, *PAGES]:
        said = [path.read_text(encoding="utf-8")] if path.suffix == ".md" else texts(path)
        names = {name for text in said for name in NAMED.findall(text)} - PLACEHOLDERS
        found += [f"{path}: drkit explain {name}" for name in names if not look_up(name)]
    broken("`drkit explain` prints it", found)


def test_no_screen_names_a_file_of_the_documentation() -> None:
    found = [
        f"{name}: {text!r}"
        for path in SOURCE_FILES
        if (name := path.relative_to(PROJECT).as_posix()) not in NOT_PRINTED
        for text in texts(path)
        if re.search(r"\b(?:docs|runbooks)/", text)
    ]
    broken("screens name `drkit explain NAME`", found)
