"""Every command that drkit prints can be typed as it is printed, with what it needs of the running one."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest

from drkit.cli.session import Session
from drkit.failover.core.request import RunRequest
from drkit.flow_state.pending_fence import paid_with
from drkit.journal.entries import EntryKind, JournalEntry, RunLog
from drkit.journal.journal import taken
from drkit.journal.machine import StepName
from drkit.next_command import Given, quoted, translate_group, typed, with_given_options
from drkit.visible import visible
from tests.support.cli.parsed import parsed
from tests.support.cli.printed import DRKIT, FAILOVER, REGISTRY, State, printed, printed_in, texts
from tests.support.cli.shell import shell

ODD = [
    "orders", "two words", "it's", 'say "x"', "-rf", "--all", "a\nb", "tab\there", "naïve→日本",
    "$HOME `id` $(id)", "a;b|c&d", "*", "\x1b[2J", "back\\slash", "!event",
]  # fmt: skip
CONFIG = "night shift's.toml"
GIVEN = Given((), CONFIG, ("flows.a->b.tasks=4",), "a->b")
VALUES = {"{}->{}": "a->b", "{}": "a->b"}


def one_thing(given: dict[str, Any]) -> bool:
    """Whether a failover is asked for one thing to do, as it demands."""
    asked = [given["groups"] or given["topics"], given["whole"], given["resume"], given["abort"]]
    return sum(map(bool, asked)) == 1


def filled(command: str) -> str:
    """A command of the registry, with names where it has holes."""
    for hole, value in VALUES.items():
        command = command.replace(hole, value if "'" in command + value else "7")
    return command.replace(" P ", " 0 ").replace("--offset N", "--offset 1").replace("--term N", "--term 1")


def test_a_check_of_an_export_needs_no_flow() -> None:
    line = with_given_options("check it: drkit divergence verify /to/manifest.json --sha256 5a", GIVEN)
    said, given = parsed(shell(line.partition(": ")[2])[1:])
    assert (str(said.config), given["manifest"], given["sha256"]) == (CONFIG, "/to/manifest.json", "5a")
    assert "--flow" not in line


def test_every_printed_command_has_its_row_and_every_row_is_printed() -> None:
    found = printed()
    assert {command: module for command, module in found.items() if command not in REGISTRY} == {}
    assert set(REGISTRY) - set(found) == set()


@pytest.mark.parametrize("command", [c for c in REGISTRY if c.startswith("drkit ")])
def test_a_printed_command_is_typed_as_it_is_printed(command: str) -> None:
    line = with_given_options(filled(command), GIVEN)
    assert with_given_options(line, GIVEN) == line
    said, given = parsed(shell(line)[1:])
    if not command.startswith("drkit local"):
        assert (str(said.config), said.overrides) == (CONFIG, GIVEN.overrides)
    for flow in ("flow", "names"):
        if flow in given:
            assert given[flow] in {GIVEN.flow, (GIVEN.flow,)}
    if command in FAILOVER:
        assert one_thing(given)


@pytest.mark.parametrize("option", [c for c in FAILOVER if c.startswith("--")])
@pytest.mark.parametrize("name", ODD)
def test_an_option_to_be_added_is_printed_with_the_whole_command(option: str, name: str) -> None:
    words = ("failover", "--group", name, "--config", CONFIG, "--yes")
    line = with_given_options(f"accept it by name: {option}", Given(words, CONFIG)).removeprefix(
        "accept it by name: "
    )
    assert "\n" not in line
    found = shell(line)
    assert tuple(found[1 : 1 + len(words)]) == words
    said, given = parsed(found[1:])
    assert (str(said.config), given["groups"]) == (CONFIG, (name,))
    assert one_thing(given)


HIDDEN = (
    "a\N{HANGUL FILLER}",
    "a\N{BRAILLE PATTERN BLANK}b",
    "a\N{VARIATION SELECTOR-16}",
    "a" + "\u0300" * 40,
)


@pytest.mark.parametrize("name", [*ODD, *HIDDEN])
def test_names_are_quoted_for_a_shell(name: str) -> None:
    assert shell(quoted(name)) == [name]
    assert shell(visible(quoted(name))) == [name], "as it stands on a terminal"
    _, given = parsed(shell(with_given_options(translate_group(name), GIVEN))[1:])
    assert given["group"] == name
    _, given = parsed(
        ["failover", "--all", *shell(typed(*RunRequest(leave_behind=(name, "other")).options()))]
    )
    assert given["leave_behind"] == (name, "other")
    _, given = parsed(shell(paid_with(name))[1:])
    assert given["flow"] == name
    _, given = parsed(["failover", *shell(typed("--topic", name))])
    assert given["topics"] == (name,)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "drkit watch lifts it, drkit failover moves them",
            "drkit watch lifts it, drkit failover moves them",
        ),
        ("see drkit status, then wait", "see drkit status --config c --flow f, then wait"),
        ("drkit config check --connect", "drkit config check --config c --connect"),
        ("drkit repoint show", "drkit repoint show --config c"),
        ("drkit failover --all --flow g --config d", "drkit failover --all --flow g --config d"),
        ("drkit failover --flow g --resume", "drkit failover --config c --flow g --resume"),
        ("answer y, or add --yes", "answer y, or add --yes"),
        ("drkit fence-agent there", "drkit fence-agent there"),
    ],
)
def test_a_sentence_keeps_its_words(text: str, expected: str) -> None:
    assert with_given_options(text, Given(("failover", "--all"), "c", (), "f")) == expected


def test_a_secret_given_by_set_is_not_printed_again() -> None:
    said = Session(
        overrides=('clusters.a.client."sasl.password"=pw',), typed=("--set=webhook=http://x", "status")
    )
    assert "pw" not in str(said.given)
    assert "http" not in str(said.given)


@pytest.mark.parametrize(("step", "abort"), [(StepName.DRAIN, True), (StepName.OPEN, False)])
def test_who_is_late_is_offered_an_abort_only_while_there_is_one(step: StepName, *, abort: bool) -> None:
    entry = JournalEntry("r", 0, "a", 1, EntryKind.INTENT, step, "", 0, {})
    error = taken(RunLog("r", 1, [entry], begun={step}), "it runs")
    assert ("drkit failover --abort" in error.hint) is abort


def test_the_page_for_the_night_is_short_and_in_words_that_drkit_prints() -> None:
    page = (DRKIT.parent / "docs/how-to/night.md").read_text(encoding="utf-8")
    assert len(page.split()) < 600
    assert re.findall(r"^## (\d)\. ", page, re.MULTILINE) == ["1", "2", "3", "4", "5"]
    says = "\n".join(path.read_text(encoding="utf-8") for path in sorted(DRKIT.rglob("*.py")))
    text = re.sub(r"^```.*?^```", "", page, flags=re.DOTALL | re.MULTILINE)
    looked_for = {w for w in re.findall(r"`([^`]+)`", text) if not w.startswith(("drkit ", "--"))}
    assert len(looked_for) > 15
    for words in looked_for:
        known = words.split("(")[0].removesuffix(":").replace("OPEN", "{POINT_OF_NO_RETURN}")
        opened = {known.replace("{POINT_OF_NO_RETURN}", x) for x in ("OPEN", "{last_abort}")}
        spelled = {known, *opened, known.replace(" ", "_")}
        assert any(s in says for s in spelled), words


def test_the_page_for_the_night_is_found() -> None:
    assert "docs/how-to/night.md" in (DRKIT.parent / "README.md").read_text(encoding="utf-8")
    for place in ("cli/main.py", "cli/commands/failover.py", "watch/alerts.py", "failover/report.py"):
        assert "drkit explain night" in (DRKIT / place).read_text(encoding="utf-8"), place


@pytest.mark.parametrize("step", ["opening", "after_open"])
def test_a_step_from_open_on_offers_no_abort(step: str) -> None:
    (path,) = (DRKIT / "failover").rglob(f"{step}.py")
    said = [c for text in texts(path) for c in printed_in(text)]
    assert not [c for c in said if "--abort" in c]


def test_an_abort_is_never_printed_where_there_is_no_way_back() -> None:
    assert State.OPENED not in FAILOVER["drkit failover --abort"]
    assert all("--abort" not in shlex.split(c) for c, states in FAILOVER.items() if State.OPENED in states)
