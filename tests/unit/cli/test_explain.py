"""Every code that drkit prints is explained, and every page is in an index."""

from __future__ import annotations

import json
from pathlib import Path
import re

import pytest

from drkit.cli import main as cli
from drkit.cli.actions.explain import codes, pages_of
from tests.support.errors import sentence

ROOT = Path(__file__).parents[3]
RUNBOOKS = sorted(p.stem for p in (ROOT / "runbooks").glob("*.md") if p.stem != "README")


@pytest.mark.parametrize(
    ("asked", "page", "words"),
    [
        ("failover-no-quorum", "runbooks/failover-no-quorum.md", sentence("no_quorum")),
        ("no_quorum", "runbooks/hold-no-quorum.md", "drkit watch"),
        ("runbooks/hold-paused.md", "runbooks/hold-paused.md", "drkit watch resume"),
        ("source_gap", "docs/reference/events.md", "what to do: raise the source's retention, or add tasks"),
        (
            sentence("no_quorum"),
            "runbooks/failover-no-quorum.md",
            "What to do",
        ),
        ("both_open", "runbooks/pair-both-open.md", "Clients may write on both sides"),
        ("DrkitGone", "docs/how-to/alerts.md", "start `drkit replicate`"),
    ],
)
def test_a_code_is_explained(asked: str, page: str, words: str, capsys: pytest.CaptureFixture[str]):
    assert cli.run(["explain", *asked.split()]) == 0
    out = capsys.readouterr().out
    assert page in out
    assert words in out


@pytest.mark.parametrize("asked", ["both_open", "BOTH OPEN", "unprotected", "no_quorum"])
def test_the_page_about_a_word_comes_first_and_each_page_once(asked: str):
    found = [each.page for each in pages_of(asked)]
    assert found[0].endswith(f"-{asked.lower().replace(' ', '-').replace('_', '-')}.md")
    assert len(set(found)) == len(found) <= 3


@pytest.mark.parametrize(
    ("said", "page"),
    [
        (
            sentence("members_on_old_primary", groups="1 group has"),
            "reprotect-members",
        ),
        (
            sentence("export_place_missing", records="1,402 records are"),
            "reprotect-undecided",
        ),
        (
            sentence("export_place_missing", records="1,402 records are").rpartition(",")[0],
            "reprotect-undecided",
        ),
        (
            f"refused: {sentence('old_primary_takes_writes', partitions='3 partitions take')}",
            "reprotect-old-primary-open",
        ),
        (sentence("old_primary_takes_writes", partitions="…"), "reprotect-old-primary-open"),
        (sentence("old_primary_takes_writes", partitions="..."), "reprotect-old-primary-open"),
        (sentence("not_copied", topics="…"), "failover-topics-not-copied"),
        (sentence("export_not_written"), "export-place"),
    ],
)
def test_a_sentence_is_found_with_what_varies_in_it(said: str, page: str):
    assert [each.page for each in pages_of(said)] == [f"runbooks/{page}.md"]


@pytest.mark.parametrize("value", ["…", "...", "1 topic", "12,345 records of primary are"])
def test_every_quoted_sentence_leads_to_its_page(value: str):
    for name in RUNBOOKS:
        text = (ROOT / "runbooks" / f"{name}.md").read_text(encoding="utf-8")
        for quote in re.findall(r"^> (.+)$", text, re.MULTILINE):
            found = [each.page for each in pages_of(quote.replace("…", value))]
            assert f"runbooks/{name}.md" in found, quote
            assert len(found) <= 3, quote


@pytest.mark.parametrize("said", ["… …", "the … of", "3 partitions of", "4 records are nonsense of drkit"])
def test_words_that_name_no_sentence_are_not_explained_by_all_of_them(said: str):
    assert not list(pages_of(said))


def test_an_unknown_code_is_a_usage_error_with_the_nearest_one(capsys: pytest.CaptureFixture[str]):
    assert cli.run(["explain", "source_gab"]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"usage: {sentence('nothing_to_explain', asked='source_gab')}")
    assert "source_gap" in err


def test_all_codes_are_listed(capsys: pytest.CaptureFixture[str]):
    assert cli.run(["--json", "explain"]) == 0
    listed = {row["code"] for row in json.loads(capsys.readouterr().out)}
    assert listed == set(codes())
    assert listed >= {*RUNBOOKS, "source_gap", "DrkitGone"}


@pytest.mark.parametrize("name", RUNBOOKS)
def test_every_runbook_is_found_and_in_the_index(name: str):
    assert next(pages_of(name)).page == f"runbooks/{name}.md"
    assert f"]({name}.md)" in (ROOT / "runbooks" / "README.md").read_text(encoding="utf-8")


def test_every_page_is_in_the_index():
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = {p.relative_to(ROOT / "docs") for p in (ROOT / "docs").rglob("*.md")}
    linked = {Path(link) for link in re.findall(r"\]\(([\w/-]+\.md)\)", index)}
    assert linked == {p for p in pages if p.parts[0] != "decisions"} - {Path("README.md")} | {
        Path("decisions/README.md")
    }
