"""Any layout of a copy, claimed, marked and packed: by numbers and by the log the answer is its truth."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from drkit.model import SourceOffset
from drkit.offsets import Intent, MapRecord, Mark, Pack
from drkit.offsets.map_record import Mode
from drkit.offsets.resolution import LogBatch, Resolution
from drkit.offsets.takeup import Author, repairs_of
from tests.support.offsets.settling import HISTORY, after, foreign, look, map_of, ours, settled


class Step(NamedTuple):
    """A batch of the flow, and what is before it."""

    hole: int
    """Source offsets that hold no committed record."""
    foreign: int
    """Records of others on the target."""
    records: int
    another_leader: bool


@dataclass
class Layout:
    """A source copied to a target, and the claims that a single task makes meanwhile."""

    truth: list[tuple[int, int]] = field(default_factory=list)
    log: list[LogBatch] = field(default_factory=list)
    claims: list[Intent] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    """One after each batch."""
    end: int = 0
    upstream: int = 0
    count: int = 0
    epoch: int = 1

    def take(self, step: Step) -> None:
        previous = self.marks[-1].copied_end if self.marks else 0
        if step.foreign:
            self.log.append(foreign(self.end, step.foreign))
            self.end += step.foreign
        self.upstream += step.hole
        self.epoch += step.another_leader
        if not self.claims or step.hole or step.foreign or step.another_leader:
            runs = ((self.upstream, step.records),)
            self.claims.append(
                Intent(
                    Mode.LIVE,
                    len(self.claims),
                    HISTORY,
                    after(self.count),
                    self.end,
                    previous,
                    self.epoch,
                    runs,
                )
            )
        self.log.append(ours(self.end, step.records, after(self.count)))
        self.truth += [(self.upstream + i, self.end + i) for i in range(step.records)]
        self.count += step.records
        self.end += step.records
        self.upstream += step.records
        self.marks.append(
            Mark(99, HISTORY, self.upstream, self.end, self.end, after(self.count), self.epoch, live=True)
        )

    def check(self, found: Resolution) -> None:
        assert (found.upstream, found.copied_end, found.downstream) == (self.upstream, self.end, self.end)
        assert (found.sequence, found.leader_epoch) == (after(self.count), self.epoch)
        for upstream in range(self.upstream + 2):
            expected = next((d for u, d in self.truth if u >= upstream), self.end)
            assert found.segments.translate(SourceOffset(upstream), self.end) == expected


steps = st.builds(Step, st.integers(0, 2), st.integers(0, 2), st.integers(1, 5), st.booleans())
layouts = st.lists(steps, min_size=1, max_size=10)


def layout_of(shape: list[Step]) -> Layout:
    layout = Layout()
    for step in shape:
        layout.take(step)
    return layout


@given(layouts, st.integers(-1, 9))
def test_numbers_and_log_give_the_same_exact_answer(shape: list[Step], marked: int) -> None:
    layout = layout_of(shape)
    marked = min(marked, len(shape) - 1)
    written: list[MapRecord] = [*layout.claims]
    if marked >= 0:
        written.append(layout.marks[marked])
    for sequence in (after(layout.count), None):  # the leader knows the producer, or has forgotten it
        layout.check(settled(map_of(*written), look(layout.end, sequence), layout.log))


@given(layouts, st.integers(-1, 9))
def test_what_the_log_confirmed_is_written_down_and_needs_no_log_again(
    shape: list[Step], marked: int
) -> None:
    layout = layout_of(shape)
    marked = min(marked, len(shape) - 1)
    written: list[MapRecord] = [*layout.claims, *([layout.marks[marked]] if marked >= 0 else [])]
    found = settled(map_of(*written), look(layout.end, None), layout.log)
    repairs = repairs_of(found, HISTORY, Author(5, 1))
    layout.check(settled(map_of(*written, *repairs), look(layout.end, after(layout.count))))


# -- packs ------------------------------------------------------------------------------------------------


def packs_of(found: Resolution, part_size: int) -> list[Pack]:
    pieces = [found.segments.part(i, i + part_size) for i in range(0, len(found.segments), part_size)]
    return [Pack(8, i, len(pieces), found.downstream, piece) for i, piece in enumerate(pieces)]


@given(layouts, layouts, st.integers(1, 3))
def test_a_pack_says_what_the_intents_said_and_they_can_go(
    shape: list[Step], later: list[Step], part_size: int
) -> None:
    layout = layout_of(shape)
    asked, newest = look(layout.end, after(layout.count)), layout.marks[-1]
    intents: list[MapRecord] = [*layout.claims, newest]
    packs: list[MapRecord] = [*packs_of(settled(map_of(*intents), asked), part_size)]
    layout.check(settled(map_of(*intents, *packs[:-1]), asked))  # a crash in the middle of packing
    layout.check(settled(map_of(*intents, *packs, newest), asked))
    layout.check(settled(map_of(*packs, newest), asked))  # the intents are compacted away
    known = len(layout.claims)
    for step in later:
        layout.take(step)
    asked = look(layout.end, after(layout.count))
    layout.check(settled(map_of(*packs, newest, *layout.claims[known:]), asked, layout.log))
