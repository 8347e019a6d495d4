"""A report holds its evidence, can be judged again, and shows other people's text as text."""

from __future__ import annotations

from hashlib import sha256
from html.parser import HTMLParser
import json

import pytest

from drkit.drill.evidence import READINESS, TRANSLATION, DrillEvidence, ReadinessFacts
from drkit.drill.judge import DrillVerdict
from drkit.drill.position_rows import PackedPositions, PositionAnswer, PositionForm
from drkit.drill.report import (
    DrillReport,
    OutageReport,
    PlanReport,
    ScopeReport,
    StepReport,
    TimelineEntry,
    build_report,
    check_report,
    read_report,
    report_schema,
)
from drkit.drill.report_page import POLICY, render_page
from drkit.errors import Failed
from drkit.exercise.verdict import FAIL, PASS
from tests.support.drill.logs import position
from tests.support.errors import coded

FIELDS = (
    "id kind verdict reasons plan scope timeline rto rpo steps groups checks controls not_proven drift"
    " cleanup evidence previous self"
)
SCOPE = ScopeReport(flow="a->b", source="a", target="b", topics=1, partitions=1, groups=2)
PLAN = PlanReport(name="daily")
ROWS = tuple(position("abcdef", 6, i, i)._replace(group=f"g{i}") for i in range(7))
BROKEN = position("abcdef", 6, 2, 3)._replace(group="<script>alert(1)</script>")
VOID = {"meta", "rect"}


def report(*rows, **rest) -> DrillReport:
    return build_report(
        TRANSLATION, PLAN, DrillEvidence(PackedPositions.of(rows)), id="d1", scope=SCOPE, **rest
    )


def test_a_report_survives_json_and_has_the_published_fields() -> None:
    made = report(*ROWS, BROKEN, previous="ab" * 32)
    read = read_report(made.to_json())
    assert read == made
    assert check_report(read) == []
    assert list(json.loads(made.to_json())) == FIELDS.split()
    assert list(report_schema()["properties"]) == FIELDS.split()  # type: ignore[arg-type]
    assert made.verdict == FAIL
    assert next((g.group, g.answers) for g in made.groups) == (BROKEN.group, {"differs": 1})
    assert [(c.name, c.examined, c.failed) for c in made.checks][1] == ("stored positions", 8, 1)
    assert not any(s.step == "TRANSLATE" for s in made.not_proven)
    stale = report(*ROWS, ROWS[1]._replace(group="z", committed=4, mark_age_seconds=90.0))
    assert (stale.groups[-1].repeats, stale.checks[1].failed) == (3, 1)
    assert stale.groups[-1].reason == "orders-0, stored: behind: 3 offsets would be repeated, stored 90 s ago"
    with pytest.raises(Failed, check=coded("not_a_drill_report")):
        read_report("{}")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"verdict": PASS}, "the verdict is pass, judged again it is fail"),
        ({"reasons": ()}, "the reasons do not follow"),
        ({"groups": ()}, "groups does not follow"),
        ({"controls": {}}, "controls does not follow"),
        ({"not_proven": ()}, "not_proven does not follow"),
        ({"evidence": DrillEvidence(PackedPositions.of(ROWS))}, "judged again it is pass"),
        ({"kind": "other"}, "the kind is unknown"),
        ({"id": "d2"}, "the report was altered"),
    ],
)
def test_an_altered_report_is_found_by_its_hash_and_by_judging_again(change, problem) -> None:
    altered = report(*ROWS, BROKEN).model_copy(update=change)
    assert "the hash does not match: the report was altered" in check_report(altered)
    hashed = altered.model_copy(update={"self_hash": altered.hash()})
    assert any(problem in text for text in check_report(altered)), check_report(altered)
    assert any(problem in text for text in check_report(hashed)) or problem.endswith("was altered")


def test_a_window_of_several_positions_is_written_once() -> None:
    made = report(*ROWS, *(row._replace(form=PositionForm.TRANSLATED) for row in ROWS))
    positions = json.loads(made.to_json())["evidence"]["positions"]
    assert len(positions["rows"]) == 2 * len(ROWS)
    assert len(positions["windows"]) == len(ROWS)
    read = read_report(made.to_json())
    assert read.evidence.positions == made.evidence.positions
    assert check_report(read) == []


def test_a_changed_window_is_found_and_a_missing_one_is_no_report() -> None:
    text = report(*ROWS).to_json()
    plain = json.loads(text)
    digest = plain["evidence"]["positions"]["windows"][0][0][0][1]
    assert check_report(read_report(text.replace(digest, "0" * len(digest), 1)))
    plain["evidence"]["positions"]["windows"].pop()
    with pytest.raises(Failed, check=coded("not_a_drill_report")):
        read_report(json.dumps(plain))


def test_the_hash_is_that_of_the_text_without_its_last_member() -> None:
    made = report(*ROWS, BROKEN)
    rest = made.to_json().replace(f',"self":"{made.self_hash}"', "")
    assert sha256(rest.encode()).hexdigest() == made.self_hash


def test_a_report_names_the_one_before_it() -> None:
    first = report(*ROWS)
    second = report(*ROWS, previous=first.self_hash)
    assert check_report(second, first) == []
    assert check_report(second, report(BROKEN)) == ["the hash of the previous report does not match"]


def test_a_drill_that_did_not_run_to_its_end_keeps_its_own_verdict() -> None:
    made = report(verdict=DrillVerdict("aborted", ("production failover r1 began",)))
    assert (made.verdict, check_report(made)) == ("aborted", [])


class Page(HTMLParser):
    """The text of a page, and its tags."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.headings: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        assert not any(name in {"src", "href", "onload", "onclick"} for name, _ in attrs)

    def handle_endtag(self, tag) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data) -> None:
        self.text += data
        if self.open[-1:] == ["h2"]:
            self.headings.append(data)


def test_the_page_has_everything_and_no_script() -> None:
    steps = (StepReport(name="COLLECT", seconds=5.5, outcome="done"),)
    rto = (OutageReport(client="c1", operation="produce", began_seconds=1.0, seconds=2.5),)
    made = report(*ROWS, BROKEN, steps=steps, timeline=(TimelineEntry(at_ms=0, what="begun"),))
    made = made.model_copy(update={"rto": rto})
    html = render_page(made)
    page = Page(html)
    assert "script" not in page.tags
    assert page.open == []
    assert f'content="{POLICY.replace(chr(39), "&#39;")}"' in html
    assert page.headings == [
        "Objectives and results", "Outages", "Steps and checks", "Groups", "Not proven",
        "Changes since the last drill that passed", "Negative controls", "Cleanup", "Hashes",
    ]  # fmt: skip
    for text in (BROKEN.group, "c1, produce: 2.5 s", "COLLECT", made.self_hash, *made.reasons):
        assert text in page.text
    assert "prefers-color-scheme: dark" in html
    assert "@media print" in html


def test_the_page_of_a_healthy_pair_has_no_reasons() -> None:
    facts = ReadinessFacts("protected", groups=2, loss_seconds=1.5, loss_records=3, loss_basis="counted")
    made = build_report(READINESS, PLAN, DrillEvidence(readiness=facts), id="d2", scope=SCOPE)
    page = Page(render_page(made))
    assert made.verdict == PASS
    assert "All objectives are met for 2 groups and 1 topic of a->b." in page.text
    assert "1.5 s" in page.text
    assert check_report(made) == []
    unknown = BROKEN._replace(known=PositionAnswer.UNKNOWN, reason="no answer")
    assert "1 open point in" in Page(render_page(report(unknown))).text
