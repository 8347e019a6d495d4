"""The entries of the fence's record on the source, and what follows from their order. Pure.

The log decides, not clocks: of an abort at the source and a run that is about to open its target the first
one counts. Every reader of the log gets the same result.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from drkit.flow_state.codec.fields import Count, Many, Name, Omitted, Prose, TopicName
from drkit.flow_state.codec.record import Body
from drkit.flow_state.kinds.failover import Acls, Sizes
from drkit.topology.acls import Acl

ANY_RUN: Final = "*"


class FenceMark(StrEnum):
    """What an entry says; of a run's record, the newest mark that counts."""

    RAISED = "raised"
    """The run is about to fence these topics."""
    OPENING = "opening"
    """The run is about to open its target: from then on the record alone lifts nothing."""
    OPENED = "opened"
    """The target is open: the fence stays."""
    ABORTED = "aborted"
    """The run was aborted at the source: it must not open its target any more."""
    LIFTED = "lifted"
    """The abort at the source has lifted the fence; of any run: the flow has lifted these fences."""
    TAKEN = "taken"
    """The fences of these topics belong to another run, or to one of another flow."""


@dataclass(frozen=True, slots=True)
class FenceEntry(Body):
    """One entry."""

    mark: FenceMark
    run_id: Name
    """:data:`ANY_RUN`: of every run, for fences that were lifted or taken."""
    token: Name
    """Differs in every entry."""
    flow: Prose
    term: Count
    at_ms: Count
    topics: Many[TopicName] = ()
    """Of the source."""
    method: Prose = ""
    sizes: Sizes = field(default_factory=dict[str, str | None])
    """Topic → its ``max.message.bytes`` before the fence, or None for the default of the brokers."""
    acls: Acls = frozenset()
    """The ACLs of the fence."""
    why: Prose = ""
    """The statement of a person; empty: none was needed."""
    target_id: Omitted[Name] = None
    """Cluster id of the target, or None in an entry of an earlier release, or of another mark."""


@dataclass(frozen=True, slots=True)
class FenceRecord:
    """What one run has fenced on the source, by its entries."""

    run_id: str
    term: int
    at_ms: int
    """When it was written down first."""
    mark: FenceMark = FenceMark.RAISED
    topics: frozenset[str] = frozenset()
    """Whose fences were neither lifted nor taken by another run."""
    sizes: Mapping[str, str | None] = field(default_factory=dict)
    acls: frozenset[Acl] = frozenset()
    why: str = ""
    """The statement with which it was aborted."""
    lifted: bool = False
    """Whether the abort at the source has lifted the fence; the run may have raised it once more since."""
    may_be_open: bool = False
    """Whether the run had marked before an abort at the source that it opens its target."""
    target_id: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether a fence of the run may be in effect that no open target needs."""
        return bool(self.topics) and self.mark is not FenceMark.OPENED

    @property
    def is_aborted(self) -> bool:
        """Whether the run was aborted at the source."""
        return self.mark is FenceMark.ABORTED

    @property
    def own_sizes(self) -> dict[str, str | None]:
        """The sizes before, of the topics that are left."""
        return {topic: value for topic, value in self.sizes.items() if topic in self.topics}

    @property
    def own_acls(self) -> frozenset[Acl]:
        """The ACLs on the topics that are left."""
        return frozenset(acl for acl in self.acls if acl.name in self.topics)

    def raised(self, entry: FenceEntry) -> FenceRecord:
        """The record after the run has written down more; the value before its first fence counts.

        An aborted run fences nothing more, unless a person says why it continues.
        """
        mark = self.mark
        if self.is_aborted and not entry.why:
            return self
        if self.is_aborted:
            mark = FenceMark.OPENING
        return replace(
            self, mark=mark, topics=self.topics | set(entry.topics), lifted=False,
            sizes={**entry.sizes, **self.sizes}, acls=self.acls | entry.acls,
            target_id=entry.target_id or self.target_id,
        )  # fmt: skip

    def marked(self, entry: FenceEntry) -> FenceRecord:
        """The record after a mark: the first one of an abort and of OPEN counts.

        An abort after the mark of OPEN needs the statement of a person. That the target is open is a fact of
        its journal, and ends the abort.
        """
        match self.mark, entry.mark:
            case (FenceMark.RAISED, FenceMark.OPENING) | (_, FenceMark.OPENED):
                return replace(self, mark=entry.mark)
            case (FenceMark.RAISED, FenceMark.ABORTED):
                return replace(self, mark=entry.mark, why=entry.why)
            case (FenceMark.OPENING, FenceMark.ABORTED) if entry.why:
                return replace(self, mark=entry.mark, why=entry.why, may_be_open=True)
            case (FenceMark.ABORTED, FenceMark.LIFTED):
                return replace(self, lifted=True)
        return self

    def without(self, topics: tuple[str, ...]) -> FenceRecord:
        """The record without topics whose fences are no longer its own."""
        return replace(self, topics=self.topics - set(topics))


class FenceLog:
    """All records of a flow, by their runs, oldest first."""

    def __init__(self) -> None:
        self.records: dict[str, FenceRecord] = {}
        self.unreadable: list[str] = []
        """What is in the topic and does not count, and why."""
        self.tokens: set[str] = set()
        """Of the entries that were read."""

    def take(self, entry: FenceEntry) -> None:
        """Read on by one entry."""
        self.tokens.add(entry.token)
        match entry.mark:
            case FenceMark.RAISED:
                known = self.records.get(entry.run_id)
                known = known or FenceRecord(entry.run_id, entry.term, entry.at_ms)
                self.records[entry.run_id] = after = known.raised(entry)
                if not after.is_aborted:
                    self._drop(entry.topics, but=entry.run_id)
            case FenceMark.TAKEN:
                self._drop(entry.topics, but=entry.run_id)
            case FenceMark.LIFTED if entry.run_id == ANY_RUN:
                self._drop(entry.topics)
            case _:
                if (found := self.records.get(entry.run_id)) is not None:
                    self.records[entry.run_id] = found.marked(entry)

    def unowned(
        self, fenced: Collection[str], runs: Collection[str], lost: Collection[str]
    ) -> list[FenceRecord]:
        """Return the fences that may be in effect, and that the flow's target has no record of.

        :param fenced: topics whose fence is in the flow's state
        :param runs: ids of the runs in its journal, without aborted ones
        :param lost: ids of the runs that have opened the target, which has lost that
        """
        records = [r for r in self.records.values() if r.is_open or r.run_id in lost]
        found = (r.without(tuple(fenced)) for r in records if not (r.lifted or r.run_id in runs))
        return [record for record in found if record.topics]

    def with_opened(self, runs: Collection[str]) -> FenceLog:
        """Return the log with the mark OPENED of these runs, which the target's journal has past OPEN."""
        log = FenceLog()
        log.records = {
            run_id: replace(record, mark=FenceMark.OPENED) if run_id in runs else record
            for run_id, record in self.records.items()
        }
        return log

    def _drop(self, topics: tuple[str, ...], *, but: str = ANY_RUN) -> None:
        for run_id, found in self.records.items():
            if run_id != but:
                self.records[run_id] = found.without(topics)

    @property
    def open(self) -> list[FenceRecord]:
        """Records of fences that may be in effect without an open target, oldest first."""
        return [found for found in self.records.values() if found.is_open]
