"""A replay in one of whose transactions the coordinator leaves out markers (docs/internal/upstream.md)."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from drkit.kafka.transactions import Transactions
from drkit.model import TopicPartition
from drkit.replay import tail as tails
from tests.support.failover.open_transaction import all_before_implicit_adding
from tests.support.replay.world import ReplayWorld

DATA, LOG = "data", "log"


class Died(Exception):
    """The process of the replay has ended."""


class LeftOut:
    """The coordinator knows nothing of what a transaction writes to some partitions: they get no marker.

    The broker must not verify that a transaction has the partition.

    :param number: of the transaction; the first one notes that the replay begins
    :param on: the partitions that get no marker, of ``DATA`` and ``LOG``
    :param commits: False if the process dies before the commit
    :param survives: the process continues
    """

    def __init__(
        self,
        world: ReplayWorld,
        number: int,
        on: Iterable[str],
        *,
        commits: bool = True,
        survives: bool = False,
    ) -> None:
        self._world, self._number, self._on = world, number, frozenset(on)
        self._commits, self._survives = commits, survives
        self._stand_in = TopicPartition(world.state_topic, 0)
        self._begun = 0

    def during(self, patch: pytest.MonkeyPatch, piece: int) -> None:
        """Let it happen to the replays of this process, with so many records in a transaction."""
        add, end = Transactions.add, Transactions.end

        async def adds(transactions: Transactions, partitions: Iterable[TopicPartition]) -> None:
            self._begun += 1
            known = [at for at in partitions if not self._is_here() or self._kind(at) not in self._on]
            await add(transactions, known or [self._stand_in])

        async def ends(transactions: Transactions, *, commit: bool) -> None:
            if self._is_here() and not self._commits:
                raise Died
            await end(transactions, commit=commit)
            if self._is_here() and not self._survives:
                raise Died

        patch.setattr(tails, "_PIECE_RECORDS", piece)
        patch.setattr(Transactions, "add", adds)
        patch.setattr(Transactions, "end", ends)
        all_before_implicit_adding(patch)

    def _is_here(self) -> bool:
        return self._begun == self._number

    def _kind(self, at: TopicPartition) -> str:
        return LOG if at.topic == self._world.log_topic else DATA
