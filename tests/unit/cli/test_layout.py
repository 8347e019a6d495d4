"""At 80 columns nothing of an answer is cut, and a failover ends in a few lines."""

from __future__ import annotations

from contextlib import redirect_stdout
import io
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.cli.actions.divergence import _rows
from drkit.cli.layout import labelled, with_times
from drkit.cli.render import emit, emit_error
from drkit.cli.screens.failover import Progressing, shown
from drkit.cli.screens.status import Shown, show
from drkit.cli.talk import say_rows
from drkit.errors import Failed
from drkit.failover.core.context import StepProgress
from drkit.failover.loss.findings import DivergenceState, PartitionDivergence
from drkit.journal.machine import StepName
from drkit.status.model import FlowStatus, Loss
from drkit.status.pair.judge import judge
from tests.support.status.pair_facts import OVER, back

LONG = "t" * 249
COMMAND = "kafka-transactions.sh --bootstrap-server 127.0.0.1:9092 abort --topic orders --partition 3"
STATUS = {
    "primary->standby": {
        "role": "replicating",
        "faults": [{"fault": "source_unreachable", "": f"no broker answers: {COMMAND}"}],
        "topics": [{"topic": LONG, "copy": "orders", "partitions": 4, "lag": 0, "bytes": "0 B"}],
        "positions": [
            {"group": "billing-of-the-shop", "state": "Empty", "protocol": "classic", "ready": "3/3",
             "will reprocess": "0", "remaining": "711", "checkpoint": "4 s ago", "why not": "behind"}
        ],
    }
}  # fmt: skip


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    made = Terminal()
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    return made


def on(terminal: Terminal, data: Any) -> str:
    with redirect_stdout(terminal):
        emit(data)
    return terminal.getvalue()


def test_nothing_is_cut_at_80_columns(terminal: Terminal):
    text = on(terminal, STATUS)
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    assert text.count("t" * 10) * 10 + 80 >= len(LONG)
    squeezed = "".join(text.split())
    assert "source_unreachable" in squeezed
    assert "127.0.0.1:9092" in text
    assert text.index("faults") < text.index("topics")


def test_the_pair_comes_first_and_is_not_cut(terminal: Terminal):
    loss = Loss(0, 0, 0.0, exact=True, source_seen_seconds=0.0)
    two = [
        FlowStatus(f"{a}->{b}", a, b, 0, "promoted", (), loss, None, None, pair=judge(OVER, back(), 30.0))
        for a, b in (("p", "s"), ("s", "p"))
    ]  # fmt: skip
    with redirect_stdout(terminal):
        show(two, Shown())
        show(two, Shown(short=True))
    text = terminal.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    assert text.startswith("p and s")
    assert text.count("UNPROTECTED") == 2, "once for both flows of the pair, in each of the two answers"
    words = " ".join(text.split())
    assert "its return has not begun: drkit reprotect --flow 'p->s' begins it" in words
    assert "delta whole until an unknown time" in words


WORDS = st.text("abcdefghijkl-_.>", min_size=1, max_size=70)
CELLS = st.lists(WORDS, min_size=1, max_size=6).map(" ".join) | st.integers(0, 10**12) | st.none()
NAMES = [
    "partition",
    "found",
    "only on the new",
    "transactional id",
    "why not",
    "loss if the primary died now",
]
ROWS = st.lists(st.fixed_dictionaries(dict.fromkeys(NAMES, CELLS)), min_size=1, max_size=3)


@given(st.fixed_dictionaries({"divergence": CELLS, "partitions": ROWS, "next": CELLS}) | ROWS)
def test_no_word_is_broken_that_fits_a_line(data: Any) -> None:
    """A name, an offset or a command that is broken in the middle cannot be read, or copied."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "80")
        patch.setenv("TERM", "dumb")
        text = on(Terminal(), data)
    assert max(map(len, text.splitlines())) <= 80
    printed = [word.rstrip(",") for word in text.split()]
    rows = [data] if isinstance(data, dict) else data
    rows = [cells for row in rows for cells in (row, *row.get("partitions", ()))]
    values = [value for row in rows for value in row.values() if not isinstance(value, list)]
    wanted = {word for value in values for word in str("–" if value is None else value).split()}
    assert wanted <= {*printed}


def test_what_fits_is_beside_its_name(terminal: Terminal):
    text = on(terminal, {"role": "replicating", "topics": [{"topic": "orders", "lag": 0}]})
    assert "topics  topic   lag" in text


def test_a_failover_ends_in_a_few_lines_with_numbered_commands(capsys: pytest.CaptureFixture[str]):
    groups = [f"g{n}" for n in range(11)]
    report: dict[str, Any] = {
        "flow": "a->b", "run": "r1", "term": 3, "state": "done", "topics": {"orders": "orders"},
        "moved_before": [], "loss": {"statement": "known lost: 0 records"}, "fence": {"proven": True},
        "groups": {"moved": groups, "kept": [], "at_work": dict.fromkeys(groups, "no members")},
        "outside": {}, "seconds": {"SURVEY": 1.0},
        "steps": [{"step": "SURVEY", "notes": ["a note", "another"]}],
        "next": ["drkit fence pay", "drkit divergence"],
    }  # fmt: skip
    for part in shown(report):
        emit(part)
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "failover   done: a->b, 1 topic, 11 groups, run r1, term 3",
        "lost       known lost: 0 records",
        "fence      proven",
        "not moved  0 of 11 moved groups active on b yet",
        "1. drkit fence pay",
        "2. drkit divergence",
    ]
    for part in shown(report, verbose=True):
        emit(part)
    assert "a note" in capsys.readouterr().out


def test_a_failover_on_a_terminal_says_nothing_twice(capsys: pytest.CaptureFixture[str]):
    tell = Progressing()
    for step, what in (
        (StepName.DRAIN, "nothing is lost"), (StepName.TRANSLATE, "2 positions are exact"),
        (StepName.TRANSLATE, "nothing is lost"), (StepName.DONE, "report what to do next"),
        (StepName.DONE, "the report has this note"),
    ):  # fmt: skip
        tell(StepProgress(step, what))
    shown_lines = [line.split("  ", 2)[2].strip() for line in capsys.readouterr().err.splitlines()]
    assert shown_lines == ["nothing is lost", "2 positions are exact", "report what to do next"]


@given(st.lists(st.text(st.characters(codec="ascii", categories=("L", "P")), min_size=1), min_size=1))
def test_words_behind_a_label_stay_whole(words: list[str]) -> None:
    first, *others = labelled({"topics": [" ".join(words)]}, 10, 40)
    assert [line[:10].strip() for line in (first, *others)] == ["topics", *[""] * len(others)]
    assert " ".join(line[10:] for line in (first, *others)).split() == words
    assert all(len(line) <= 40 or " " not in line[10:] for line in (first, *others))


def test_an_error_on_a_terminal_breaks_no_word_and_leaves_its_command_whole(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr", terminal)
    seen = "127.0.0.1:9092: nothing listens; " * 4
    emit_error(Failed("no_answer", evidence=seen + "\nlast", hint=f"then: {COMMAND}"), as_json=False)
    lines = terminal.getvalue().splitlines()
    assert " ".join(lines[1:-1]).split() == ["evidence", *seen.split(), "last"]
    assert all(len(line) <= 80 for line in lines[:-1])
    assert lines[-1] == f"  what to do then: {COMMAND}"


def test_a_proposal_on_a_terminal_breaks_no_word(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", terminal)
    say_rows({"clients": [f"file /etc/shop/endpoint-{n}.json: every client" for n in range(2)],
              "warning": [COMMAND]})  # fmt: skip
    lines = terminal.getvalue().splitlines()
    assert [line[:10].rstrip() for line in lines] == ["clients", "", "warning", ""]
    assert " ".join(line[10:] for line in lines[2:]) == COMMAND


def test_a_step_that_waits_says_so_once(capsys: pytest.CaptureFixture[str]):
    tell = Progressing()
    for count in (11, 11, 11, 10):
        tell(StepProgress(StepName.VERIFY, "waits for members", {"groups": count}))
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_a_person_reads_times_and_no_milliseconds() -> None:
    row = {"first_time_ms": 1_795_927_910_713, "last_time_ms": None, "records": 1}
    assert with_times(row) == {"first_time": "2026-11-29 04:51:50 UTC", "last_time": None, "records": 1}


def test_counts_that_are_zero_in_each_partition_have_no_column() -> None:
    clean = PartitionDivergence("t", 0, DivergenceState.CLEAN, 5, 5)
    diverged = PartitionDivergence("t", 1, DivergenceState.DIVERGED, 7, 9, 2)
    assert not {"removed", "emptied", "only on the new"} & set(_rows([clean, diverged])[1])
    removed = PartitionDivergence("t", 2, DivergenceState.DIVERGED, 7, 9, 2, removed=1)
    assert [row["removed"] for row in _rows([clean, removed])] == [0, 1]
