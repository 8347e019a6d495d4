"""Each class of `drkit divergence` has a section of the page, which `drkit explain` finds."""

from __future__ import annotations

import json
from pathlib import Path
import re

import pytest

from drkit.cli import main as cli
from drkit.cli.page_index import look_up, plain
from drkit.failover.loss.findings import Divergence, DivergenceState, PartitionDivergence

PAGE = Path(__file__).parents[4] / "runbooks/divergence-classes.md"
PARTS = ("Seen", "Means", "The return", "Type")


def section(state: DivergenceState) -> str:
    return PAGE.read_text(encoding="utf-8").partition(f"\n## `{state}`\n")[2].partition("\n## ")[0]


def seen(state: DivergenceState) -> str:
    return section(state).partition("**Seen:**")[2].partition("- **Means:**")[0]


@pytest.mark.parametrize("state", DivergenceState)
def test_each_class_has_its_section_and_commands(state: DivergenceState) -> None:
    text = section(state)
    assert all(f"**{part}:**" in text for part in PARTS), state
    assert f"```sh\n# if it is {state}\n" in text
    assert f"| [`{state}`](#{state}) |" in PAGE.read_text(encoding="utf-8")


def test_no_section_is_of_another_class() -> None:
    headings = re.findall(r"^## `(.+)`$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert headings == [*DivergenceState]


@pytest.mark.parametrize("state", DivergenceState)
def test_explain_finds_each_class(state: DivergenceState, capsys: pytest.CaptureFixture[str]) -> None:
    (entry,) = [found for found in look_up(state.value) if found.kind == "class"]
    assert entry.page == f"runbooks/{PAGE.name}"
    assert cli.run(["explain", entry.address]) == 0
    assert entry.sentence in " ".join(capsys.readouterr().out.split())
    first, _, _ = plain(section(state).strip().splitlines()[0]).partition(". ")
    assert entry.sentence == first.removesuffix(".")


@pytest.mark.parametrize("state", [DivergenceState.GONE, DivergenceState.UNKNOWN, DivergenceState.DIVERGED])
def test_a_word_with_other_meanings_has_all_of_them(state: DivergenceState) -> None:
    assert len({found.page for found in look_up(state.value)}) > 1


@pytest.mark.parametrize(
    ("tail", "only_new"),
    [
        (PartitionDivergence("back", 0, DivergenceState.REGRESSED, 40, 30, only_new=10), 10),
        (
            PartitionDivergence(
                "other", 0, DivergenceState.REGROWN, 30, 56, 26, only_new=10,
                why="its leader epoch 2 ends at 30, before 40",
            ),
            10,
        ),
        (PartitionDivergence("made", 0, DivergenceState.RECREATED, 0, 11, 11), 0),
        (PartitionDivergence("gone", 0, DivergenceState.GONE, 100), 0),
        (PartitionDivergence("young", 3, DivergenceState.MORE, 0, 2, 2), 0),
        (PartitionDivergence("orders", 0, DivergenceState.UNKNOWN, 100, why="it has no leader"), 0),
        (PartitionDivergence("orders", 0, DivergenceState.DIVERGED, 100, 106, 6), 0),
    ],
)  # fmt: skip
def test_what_is_seen_is_what_is_printed(tail: PartitionDivergence, only_new: int) -> None:
    statement = Divergence("primary->standby", (tail,)).statement()
    place = re.search(rf"{tail.topic}-\d from \d+ \(.*\)", statement)
    assert place is not None, statement
    assert place[0] in seen(tail.found)
    assert bool(only_new) is (f"{only_new} only on the new primary" in statement)


def test_a_clean_pair_is_said_as_it_is_printed() -> None:
    clean = PartitionDivergence("orders", 0, DivergenceState.CLEAN, 9, 9, proven=True)
    tails = tuple(clean._replace(partition=p) for p in range(27))
    assert f"`{Divergence('primary->standby', tails).statement()}`" in seen(DivergenceState.CLEAN)
    assert json.dumps(Divergence("primary->standby", tails).to_json()["clean"]) == "true"
