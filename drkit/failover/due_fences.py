"""What is due on a flow's source outside a run: what a person is asked about, and the same when it is done.

Between the question and the answer the state may change. Only what was agreed to is done then; what is due
besides is named. Pure.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, Self

from drkit.counted import first_of
from drkit.flow_state.records import PendingFence, PendingLift


class DueFences(NamedTuple):
    """Topics of the source, by what is due for them."""

    pending: frozenset[str] = frozenset()
    """Their fence is pending."""
    lift: frozenset[str] = frozenset()
    """The lift of their fence is pending."""
    taken_away: frozenset[str] = frozenset()
    """Somebody else has lifted their fence: clients may write there."""
    off_record: frozenset[str] = frozenset()
    """Their fence is on no record any more, and they take writes."""

    @classmethod
    def of(
        cls,
        pending: PendingFence | None,
        lift: PendingLift | None,
        gone: Collection[str],
        off_record: Collection[str] = (),
    ) -> Self:
        """What these records say, and what was seen on the source."""
        return cls(
            frozenset(pending.topics if pending is not None else ()),
            frozenset(lift.topics if lift is not None else ()),
            frozenset(gone),
            frozenset(off_record),
        )

    @property
    def to_fence(self) -> list[str]:
        """The topics to be fenced, sorted."""
        return sorted(self.pending | self.taken_away | self.off_record)

    def within(self, agreed: DueFences) -> DueFences:
        """What is still due of what was agreed to."""
        return DueFences(*(now & said for now, said in zip(self, agreed, strict=True)))

    def besides(self, agreed: DueFences) -> list[str]:
        """What is due now and was not agreed to, as sentences."""
        whats = ("the fence of {} is pending", "the lift of the fence of {} is pending",
                 "somebody has lifted the fence of {}", "the fence of {} went off its record")  # fmt: skip
        since = "since this command has looked: nothing was done about it"
        return [
            f"{what.format(first_of(sorted(now - said)))} {since}"
            for what, now, said in zip(whats, self, agreed, strict=True)
            if now - said
        ]
