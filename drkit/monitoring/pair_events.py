"""Tells each change of a pair's state once."""

from __future__ import annotations

from drkit import observe
from drkit.status.model import FlowStatus
from drkit.status.pair.model import PairAlarm, PairState
from drkit.status.pair.text import pair_lines


class PairEvents:
    """Compares each look with the one before."""

    def __init__(self) -> None:
        self._last: tuple[PairState, tuple[PairAlarm, ...]] | None = None

    def see(self, status: FlowStatus) -> None:
        """Emit an event if the state, or an alarm, is another one than at the last look.

        A process that begins says nothing of a pair that is protected or unknown.
        """
        pair = status.pair
        if pair is None:
            return
        now, last = (pair.state, pair.alarms), self._last
        self._last = now
        quiet = last is None and not pair.alarms and pair.state in {PairState.PROTECTED, PairState.UNKNOWN}
        if now == last or quiet:
            return
        well = pair.state is PairState.PROTECTED and not pair.alarms
        observe.event(
            "pair_changed", level="info" if well else "warning", flow=status.flow, state=pair.state.value,
            was="" if last is None else last[0].value, alarms=[a.value for a in pair.alarms],
            evidence="; ".join(f"{line.word} {line.text}" for line in pair_lines(pair)),
        )  # fmt: skip
