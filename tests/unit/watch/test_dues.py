"""When a pending fence is tried; the test replaces what applies it."""

from __future__ import annotations

from structlog.testing import capture_logs

from drkit.config import FlowSettings
from drkit.detect.seen import Sight
from drkit.errors import Refused
from drkit.watch.automatic import PAID_SECONDS, PendingFences
from tests.support.errors import made
from tests.support.watch.moments import moment

ALIVE, GONE = moment(Sight.CLEAR), moment(Sight.GONE)


class Till:
    """Applies the fence, or refuses to, and records each attempt."""

    def __init__(self) -> None:
        self.refuses, self.breaks = True, False
        self.asked: list[float] = []
        self.now = 0.0
        self.payer = PendingFences(FlowSettings(source="a", target="b"), self._pay)

    def _pay(self) -> bool:
        self.asked.append(self.now)
        if self.breaks:
            raise LookupError("no such partition")
        if self.refuses:
            raise made(Refused, "it still takes writes", evidence="partition 0", hint="close it")
        return len(self.asked) == 1

    def look(self, seconds: float, seen: object = ALIVE, *, owed: bool = True) -> list[float]:
        """Look every second for `seconds`; returns the attempts, in seconds from the beginning."""
        began, before = self.now, len(self.asked)
        while self.now < began + seconds:
            self.payer.see(seen, self.now, owed=owed)  # type: ignore[arg-type]
            self.payer.wait()
            self.now += 1.0
        return [at - began for at in self.asked[before:]]


def test_it_is_applied_at_the_first_contact_and_checked_now_and_then():
    till = Till()
    till.refuses = False
    assert till.look(10, GONE) == []
    assert till.look(10, owed=False) == []
    assert till.look(2 * PAID_SECONDS + 1) == [0.0, PAID_SECONDS, 2 * PAID_SECONDS]
    assert till.payer.paid == 1


def test_what_is_refused_is_tried_again_ever_more_rarely_and_at_once_after_a_silence():
    till = Till()
    assert till.look(200) == [0.0, 5.0, 15.0, 35.0, 75.0, 135.0, 195.0]
    assert till.look(3, GONE) == []
    assert till.look(10) == [0.0, 5.0]


def test_an_unforeseen_error_is_reported_and_tried_again():
    till = Till()
    till.breaks = True
    with capture_logs() as told:
        assert till.look(20) == [0.0, 5.0, 15.0]
    assert [e["event"] for e in told] == 3 * ["fence_not_paid"]
    assert "LookupError: no such partition" in told[0]["evidence"]
