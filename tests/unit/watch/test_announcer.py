"""When people are called, and which command they get."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from drkit.detect.reasons import Reason
from drkit.detect.risk import Sighting
from drkit.detect.seen import Sight, SourceView
from drkit.detect.verdict import Picture, Verdict, VerdictKind, judge
from drkit.detect.votes import Tally
from drkit.watch.alerts import Announcer, failover_command, in_words
from drkit.watch.senses import LossKnown

UP = Verdict(VerdictKind.UP, Reason.WELL, (), "")
SUSPECT = Verdict(VerdictKind.SUSPECT, Reason.UNCONFIRMED, (), "")
DEGRADED = Verdict(VerdictKind.DEGRADED, Reason.BROKERS_DOWN, (), "")
HOLD = Verdict(VerdictKind.HOLD, Reason.REPLICATION_MOVES, (), "")
LOST = Verdict(VerdictKind.LOST, Reason.CONFIRMED, (), "", primary_lost=True)


def held(*reasons: Reason) -> Verdict:
    return Verdict(VerdictKind.HOLD, reasons[0], (), "", primary_lost=True, obstacles=reasons)


def told(*steps: tuple[float, Verdict]) -> list[tuple[float, str]]:
    """What is announced when each verdict holds from its moment on, with a look every half second."""
    announcer, out = Announcer(settle=5.0, repeat=300.0), []
    for (at, verdict), (until, _) in zip(steps, [*steps[1:], (steps[-1][0] + 20.0, UP)], strict=True):
        now = at
        while now < until:
            if announcer.due(verdict, now):
                out.append((now, verdict.name))
            now += 0.5
    return out


def test_a_lost_primary_is_announced_at_once():
    assert told((0, UP), (10, SUSPECT), (15, LOST)) == [(15.0, "LOST")]


def test_what_passes_within_seconds_is_not_announced():
    assert told((0, UP), (10, SUSPECT), (12, DEGRADED), (15, UP)) == []
    assert told((0, UP), (10, HOLD), (14, UP)) == []


def test_what_stays_is_announced_and_its_end_too():
    assert told((0, UP), (10, DEGRADED), (30, UP)) == [(15.0, "DEGRADED"), (35.0, "UP")]


def test_what_stays_bad_is_announced_again():
    assert told((0, LOST), (650, UP)) == [(0.0, "LOST"), (300.0, "LOST"), (600.0, "LOST"), (655.0, "UP")]


def test_another_reason_is_news():
    said = told((0, held(Reason.PAUSED)), (10, held(Reason.LAG_UNKNOWN)), (12, LOST))
    assert said == [(0.0, "HOLD(paused)"), (10.0, "HOLD(lag_unknown)"), (12.0, "LOST")]


@pytest.mark.parametrize(
    ("verdict", "command"),
    [
        (UP, ""),
        (HOLD, ""),
        (LOST, "drkit failover --all --flow 'a->b' --config drkit.toml"),
        (held(Reason.LAG_UNKNOWN), "--accept-data-loss REASON"),
        (held(Reason.LAG_ABOVE_RPO), "--accept-data-loss REASON"),
        (held(Reason.NOT_ACKNOWLEDGED), "drkit failover --all"),
        (held(Reason.PAUSED), ""),
        (held(Reason.LAG_UNKNOWN, Reason.TARGET_NOT_READY), ""),
    ],
)
def test_the_command(verdict: Verdict, command: str):
    found: Any = failover_command("a->b", verdict, ("--config", "drkit.toml"))
    assert command in found
    assert bool(found) == bool(command)


def test_a_loss_that_has_grown_above_the_budget_is_accepted_by_name():
    """What is printed late at night has to work: `drkit failover` counts the loss until now, too."""
    grown = LossKnown(None, Sighting(60_000, 20_000, None, 20_000), 0)
    picture = Picture(
        seen=SourceView(Sight.GONE, 20.0, ("broker 0: nothing listens",), 1, 1), gone_for=40.0, phi=20.0,
        beat_silence=40.0, tally=Tally(1, gone=("o1",)), risk=grown.risk(None),
    )  # fmt: skip
    verdict = judge(picture)
    assert verdict.name == "HOLD(lag_above_rpo)"
    assert "0.0 s if it died when it was last seen" in verdict.evidence[0], "both numbers are shown"
    assert "--accept-data-loss REASON" in failover_command("a->b", verdict)
    assert judge(replace(picture, risk=grown.risk(40.0))).kind is VerdictKind.LOST, "its death is proven"


def test_what_a_chat_shows():
    """The text of a webhook: what it is, why, and what to type."""
    lost = LOST._replace(evidence=("broker 0: nothing listens", "2.5 s would be lost"))
    assert in_words("a->b", lost, "drkit failover --all --flow 'a->b'").splitlines() == [
        "a->b: LOST", "- broker 0: nothing listens", "- 2.5 s would be lost",
        "first: drkit failover --all --flow 'a->b' --dry-run",
        "next: drkit failover --all --flow 'a->b'", "how to decide: drkit explain night",
    ]  # fmt: skip
    paused = held(Reason.PAUSED)._replace(next="drkit watch resume")
    assert in_words("a->b", paused, "").splitlines() == [
        "a->b: HOLD(paused)", "next: drkit watch resume", "what it means: drkit explain hold-paused",
    ]  # fmt: skip
