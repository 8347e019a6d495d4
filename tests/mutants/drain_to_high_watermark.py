"""A drkit that takes the last stable offset for the end of a log, though a transaction is open.

Two functions are broken: FENCE ends every open transaction, so DRAIN alone meets none.
"""

from __future__ import annotations

from typing import Any, Final
from unittest.mock import patch

from drkit.exercise.checks import ACKNOWLEDGED
from drkit.failover.fencing.open_transactions import TransactionResolver
from drkit.failover.loss import count
from drkit.failover.loss.count import Lost

BROKEN: Final = "FENCE sees no open transaction, and DRAIN does not know what an open one holds back"
SCENARIO: Final = "hanging-transaction"
CAUGHT_BY: Final = ACKNOWLEDGED


def apply() -> None:
    """Break this process."""
    of_answering = count.of_answering

    def without_held(*args: Any) -> Lost:
        return of_answering(*args)._replace(open_transaction=False, held_back=0, held_acknowledged=0)

    patch.object(TransactionResolver, "_gone", lambda *_: []).start()
    patch.object(count, "of_answering", without_held).start()
