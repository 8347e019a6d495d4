"""Moments of a watching process, made by hand."""

from __future__ import annotations

from typing import Any

from drkit.detect.readiness import ReadinessFinding
from drkit.detect.risk import Risk, Sighting
from drkit.detect.seen import Sight, SourceView
from drkit.detect.verdict import Picture, judge
from drkit.detect.votes import Tally, Vote
from drkit.model import FlowAliases
from drkit.watch.observer import Moment
from drkit.watch.senses import LossKnown, Sensed

FINDING = ReadinessFinding("disk_low", blocks=False, text="broker 0: 5% free", next="make room")


KNOWN = LossKnown(None, Sighting(1000, 900, None, copied_ms=800))


def moment(sight: Sight, **picture: Any) -> Moment:
    seen = SourceView(sight, 1.0, ("broker 0: nothing listens",), 3, 3)
    tally = Tally(1, gone=("o1",) if sight is Sight.GONE else ())
    risk = Risk(2.5, 0, exact=False, basis="so", if_dead_seconds=1.5)
    found = Picture(seen=seen, tally=tally, risk=risk, **picture)
    sensed = Sensed(found, KNOWN, (FINDING,))
    vote = Vote("o1", "r", 1, 1000, sight, alive_ms=900)
    return Moment(FlowAliases("a", "b"), 1000, judge(found), found, vote, sensed, (vote,), (), None)
