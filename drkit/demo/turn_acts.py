"""The acts of a planned switchover: over to the standby, home again, and the balance of both."""

from __future__ import annotations

from collections import Counter
import time
from typing import Any

from drkit.demo.proof import read_all
from drkit.demo.stage import TOPICS, Stage
from drkit.errors import Failed

_OPEN_SECONDS = 1.5
_PATIENCE_SECONDS = 120.0
CUT = "the shop goes where it is told"
_FORTH = "primary->standby"
_BACK = "standby->primary"


class GoOver:
    """A switchover to the standby, and the old primary as the standby of the new one."""

    title = "Over to the standby, as planned"

    def run(self, stage: Stage) -> None:
        """Switch over, let the shop work there, and begin the way back."""
        stage.screen.say(
            "The primary is to be upgraded, so everything moves to the standby for a while: a planned"
            " switchover. It waits until all is copied, and fences the primary. Where no ACL keeps clients"
            " off the old primary while it is the standby, a person says how."
        )
        switched(stage, _FORTH)
        stage.screen.say(
            "The configuration gets the flow in the other direction. [b]drkit replicate[/b] begins it by"
            " itself: both clusters hold the same, so nothing is copied again, only what is new from here on."
        )
        stage.replicator.stop()
        stage.add_way_back()
        stage.screen.command("drkit replicate")
        stage.replicator.start()
        works_at(stage, "standby")
        protected(stage, _BACK)


class ComeHome:
    """A switchover back, and the balance."""

    title = "And home again"

    def run(self, stage: Stage) -> None:
        """Switch back, let the shop work at home, and compare both sides."""
        stage.screen.say("The upgrade is done. The same command, the other flow:")
        switched(stage, _BACK)
        works_at(stage, "primary")
        protected(stage, _FORTH)
        shop = stage.shop
        stage.watch(_PATIENCE_SECONDS, "the last records", lambda: stage.observer.records >= shop.records)
        sides = {
            name: read_all(stage.settings.cluster(name), list(TOPICS)) for name in ("primary", "standby")
        }
        here, there = sides["primary"], sides["standby"]
        lost = max(0, shop.records - here.records)
        repeated = here.twice + there.twice + sum((Counter(there.orders) - Counter(here.orders)).values())
        stage.measured |= {"turn_records": shop.records, "turn_lost": lost, "turn_repeated": repeated}
        stage.screen.table(
            [
                ("acknowledged", f"{shop.records:,}", "by the cluster that was the primary then"),
                ("on the primary", f"{here.records:,}", ""),
                ("on the standby", f"{there.records:,}", ""),
                ("lost", f"{lost}", ""),
                ("repeated", f"{repeated}", ""),
            ]
        )
        if lost or repeated or here.fingerprints != there.fingerprints or here.records != shop.records:
            raise Failed(
                "demo_switchover_uneven",
                evidence=f"{shop.records} acknowledged, {here.records} on the primary, {there.records} on the"
                f" standby, lost {lost}, repeated {repeated}",
            )
        stage.screen.fact("there and back: lost 0, repeated 0, both sides equal, in the same order")


def switched(stage: Stage, flow: str) -> None:
    """Run the command, and show its steps."""
    stage.screen.command(f"drkit failover --flow '{flow}' --all --planned --clients-cut '{CUT}'")
    begun = time.monotonic()
    options = ("--flow", flow, "--all", "--planned", "--yes", "--clients-cut", CUT)
    report: dict[str, Any] = stage.ask("failover", *options)
    if report.get("state") != "done":
        raise Failed("demo_switchover_failed", where=flow, evidence=str(report)[:1500])
    seconds = report["seconds"]["until_verified"]
    key = "switchover_seconds" if flow == _FORTH else "switchback_seconds"
    stage.measured |= {key: round(seconds, 1), f"{key}_with_start": round(time.monotonic() - begun, 1)}
    stage.screen.fact(f"{report['loss']['statement']}, in {seconds:.1f} s")


def works_at(stage: Stage, cluster: str, *, alive: bool = True) -> None:
    """The shop is open for a moment at the cluster that is the primary now.

    :param alive: a replicator runs
    """
    stage.shop.move(stage.bootstrap(cluster))
    before = stage.shop.records
    stage.shop.open(stage.rate // 2)
    stage.watch(_OPEN_SECONDS, f"the shop works at the {cluster}", alive=alive)
    stage.shop.close()
    stage.screen.fact(f"{stage.shop.records - before:,} records more, written to the {cluster}")


def protected(stage: Stage, flow: str) -> None:
    """Wait until the other cluster is the standby."""
    seconds = stage.watch(_PATIENCE_SECONDS, f"{flow} begins", lambda: stage.protects(flow))
    stage.screen.command("drkit status")
    stage.screen.fact(f"PROTECTED, {flow}, {seconds:.1f} s later")
