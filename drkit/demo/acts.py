"""The acts of the story: each has a title and runs on the stage that the previous ones left."""

from __future__ import annotations

from enum import StrEnum
import json
import time
from typing import Any, Protocol

from drkit.demo.drill_acts import RunDrill
from drkit.demo.failover_acts import FailOver, GoOn, PrimaryDies, ReadSome, ReadTheRest
from drkit.demo.home_acts import ComeHome, GoOver, HomeAgain, PrimaryReturns, ReplayTail
from drkit.demo.proof import read_all
from drkit.demo.stage import TOPICS, Stage
from drkit.errors import Failed

_BACKLOG_SECONDS = 50
"""Seconds of orders that exist before the copy begins."""
_STEADY_SECONDS = 5.0
"""At least one pause between epochs is in it."""
_DEAD_SECONDS = 2.0
_AFTER_SECONDS = 1.0
_PATIENCE_SECONDS = 180.0
_CLOSE_BEHIND = 1000
"""Records; half a second of the shop."""

_PICTURE = """
     the shop                   drkit, on Spark              after a disaster
   ┌───────────┐  orders   ┌─────────┐      ┌─────────┐ the same ┌───────────┐
   │ producers │ ────────▶ │ primary │ ───▶ │ standby │ ───────▶ │ consumers │
   └───────────┘ payments  └─────────┘ copy └─────────┘ records  └───────────┘
"""


class Act(Protocol):
    """A part of the story."""

    title: str

    def run(self, stage: Stage) -> None:
        """Play it."""


class TwoClusters:
    """Starts the two clusters."""

    title = "Two Kafka clusters"

    def run(self, stage: Stage) -> None:
        """Start both."""
        stage.screen.picture(_PICTURE)
        stage.screen.say(
            "Your shop works with one Kafka cluster, the [b]primary[/b]. A second one, the [b]standby[/b],"
            " waits somewhere else for the day on which the first one fails. Both are real, and start now on"
            " this machine."
        )
        begun = time.monotonic()
        stage.start_clusters()
        seconds = time.monotonic() - begun
        stage.measured["clusters_ready_seconds"] = round(seconds, 1)
        stage.screen.fact(f"both answer after {seconds:.1f} s; the standby is empty")


class OpenShop:
    """Writes the records to copy."""

    title = "The shop opens"

    def run(self, stage: Stage) -> None:
        """Write a backlog, then at a steady pace."""
        backlog = _BACKLOG_SECONDS * stage.rate
        stage.screen.say(
            f"It has {backlog:,} orders from before, and takes {stage.rate:,} more per second, in the topic"
            f" [b]orders[/b] ({TOPICS['orders']} partitions). Payments go to [b]payments[/b] in transactions;"
            " when a card is declined, its transaction is rolled back, and no consumer may ever see it."
        )
        stage.shop.stock_up(backlog)
        stage.shop.open(stage.rate)
        stage.screen.fact(f"{stage.shop.orders:,} orders on the primary, none on the standby")


class Replicate:
    """The copy begins, catches up and keeps up."""

    title = "drkit copies"

    def run(self, stage: Stage) -> None:
        """Start the replicator; measure while it keeps up."""
        stage.screen.say(
            "drkit is a Spark application that copies without end. It starts with what is there already, and"
            " then passes every new record on as it comes. The [b]lag[/b] is what the standby does not have"
            " yet: what you would lose if the primary died at this moment."
        )
        stage.screen.command("drkit replicate")
        begun = time.monotonic()
        stage.replicator.start()
        observer = stage.observer
        first = stage.watch(_PATIENCE_SECONDS, "Spark starts", lambda: observer.records > 0)
        stage.watch(_PATIENCE_SECONDS, "catching up", lambda: _close(stage))
        caught_up = time.monotonic() - begun
        stage.screen.fact(
            f"first record on the standby after {first:.1f} s,"
            f" all {observer.records:,} after {caught_up:.1f} s"
        )
        since = time.monotonic()
        stage.watch(_STEADY_SECONDS, f"keeping up with {stage.rate:,} orders per second")
        latency = observer.latency(since, time.monotonic())
        if latency is None:
            raise Failed("demo_no_order_copied", evidence=f"{_STEADY_SECONDS} s")
        stage.measured |= {
            "first_record_seconds": round(first, 1),
            "caught_up_seconds": round(caught_up, 1),
            "catch_up_records_per_second": round(observer.fastest(begun)),
            "latency_p50_ms": round(latency.p50),
            "latency_p99_ms": round(latency.p99),
            "latency_worst_ms": round(latency.worst),
            "longest_gap_ms": round(latency.longest_gap),
        }
        stage.screen.fact(
            f"a new order is at the standby {latency.p50:.0f} ms after it was placed"
            f" (99 of 100 within {latency.p99:.0f} ms)"
        )


class Kill:
    """Kills the replicator with SIGKILL."""

    title = "drkit is killed"

    def run(self, stage: Stage) -> None:
        """Kill it, wait a while, and restart it from where it stopped."""
        stage.screen.say(
            "Now the replicator is killed in the middle of its work, as by a power failure (SIGKILL): no"
            " goodbye, records in flight. The shop keeps writing, so the lag grows. drkit keeps no state of"
            " its own: everything it needs is on the standby. So it is simply started again."
        )
        stage.replicator.kill()
        stage.watch(_DEAD_SECONDS, "the shop keeps writing, nothing is copied", alive=False)
        written = stage.shop.records
        lost = written - stage.observer.records
        stage.screen.command("drkit replicate")
        begun = time.monotonic()
        stage.replicator.start()
        # At a low rate the standby is close all the time, also while nothing is copied.
        stage.watch(
            _PATIENCE_SECONDS, "started again", lambda: stage.observer.records >= written and _close(stage)
        )
        seconds = time.monotonic() - begun
        stage.watch(_AFTER_SECONDS, "keeping up again")
        stage.measured |= {"killed_at_lag_records": lost, "recovered_seconds": round(seconds, 1)}
        stage.screen.fact(f"{lost:,} records behind when it started again, caught up {seconds:.1f} s later")


class CloseShop:
    """Stops writing, so that both sides can be compared to the end."""

    title = "The shop closes"

    def run(self, stage: Stage) -> None:
        """Stop writing, let the last records arrive."""
        shop, observer = stage.shop, stage.observer
        shop.close()
        stage.watch(_PATIENCE_SECONDS, "the last records", lambda: observer.records >= shop.records)
        stage.measured |= {
            "orders": shop.orders,
            "payments": shop.payments,
            "payments_rolled_back": shop.declined,
            "records": shop.records,
        }
        stage.screen.fact(
            f"{shop.orders:,} orders and {shop.payments:,} payments on both sides;"
            f" {shop.declined:,} payments were rolled back"
        )


class VerifyAct:
    """Runs `drkit verify`, as a user would."""

    title = "Is it the same?"

    def run(self, stage: Stage) -> None:
        """Run the command."""
        stage.screen.say(
            "[b]drkit verify[/b] reads both clusters side by side and compares every record, heartbeats too:"
            " key, value, headers and time, and that each is exactly at the offset that drkit says."
        )
        stage.screen.command("drkit verify")
        answer: dict[str, Any] = stage.ask("verify")
        if answer.get("verdict") != "equal":
            raise Failed(
                "demo_copy_differs", where="drkit verify", evidence=json.dumps(answer.get("differences"))
            )
        stage.measured["verify"] = {
            key: answer[key]
            for key in ("verdict", "equal", "differences_total", "seconds", "records_per_second")
        }
        stage.screen.fact(f"{answer['equal']:,} records compared, {answer['differences_total']} differences")


class BothSides:
    """Compares both sides as a consumer reads them."""

    title = "And for a consumer?"

    def run(self, stage: Stage) -> None:
        """Read everything on both sides."""
        stage.screen.say("An ordinary consumer reads everything from both clusters.")
        settings = stage.settings
        primary = read_all(settings.cluster("primary"), list(TOPICS))
        standby = read_all(settings.cluster("standby"), list(TOPICS))
        missing = len(set(primary.orders) - set(standby.orders))
        stage.measured |= {
            "megabytes": round(primary.size / 1e6, 1),
            "lost": missing,
            "twice": standby.twice,
            "identical": primary.fingerprints == standby.fingerprints,
        }
        if primary.fingerprints != standby.fingerprints or primary.records != stage.shop.records:
            raise Failed(
                "demo_records_differ",
                evidence=f"primary {primary.records}, standby {standby.records},"
                f" lost {missing}, twice {standby.twice}",
            )
        stage.screen.fact(
            f"{primary.records:,} records on the primary, {standby.records:,} on the standby:"
            f" none lost, none twice, all in order"
        )


class Ending(StrEnum):
    """Where the story ends."""

    PROOF = "proof"
    """Both sides are compared."""
    SWITCHOVER = "switchover"
    """Over to the standby as planned, and home again."""
    FAILOVER = "failover"
    """The primary dies, and everything continues at the standby."""
    HOME = "home"
    """The primary that died is home again."""


def acts_until(ending: Ending) -> list[Act]:
    """The acts of the story, in their order.

    :param ending: the last part that is played
    """
    played: list[Act] = []
    for part, acts in _PARTS.items():
        played += acts
        if part is ending:
            break
    return played


def _close(stage: Stage) -> bool:
    return stage.shop.records - stage.observer.records < _CLOSE_BEHIND


_BEGINNING: tuple[Act, ...] = (TwoClusters(), OpenShop(), Replicate(), ReadSome(), Kill(), CloseShop())
_PROOF: tuple[Act, ...] = (VerifyAct(), BothSides())
_PARTS: dict[Ending, tuple[Act, ...]] = {
    Ending.PROOF: (*_BEGINNING, *_PROOF),
    Ending.SWITCHOVER: (GoOver(), ComeHome()),
    Ending.FAILOVER: (PrimaryDies(), FailOver(), GoOn()),
    Ending.HOME: (PrimaryReturns(), ReplayTail(), HomeAgain()),
}
"""In the order in which they are played; each ends with what it is named after."""
PEACEFUL: tuple[Act, ...] = (*_BEGINNING, ReadTheRest(), *_PROOF)
"""The acts when both clusters are kept running."""
REHEARSAL: tuple[Act, ...] = (TwoClusters(), OpenShop(), Replicate(), ReadSome(), RunDrill())
"""The acts of a drill."""
