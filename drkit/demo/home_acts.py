"""The acts after a failover: a planned switchover there and back, and the return of a primary that died."""

from __future__ import annotations

from collections import Counter
import time
from typing import Any

from drkit.demo.proof import Content, contents, read_all
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
        """Switch over, let the shop work there, and start the reverse flow."""
        stage.screen.say(
            "The primary is to be upgraded, so everything moves to the standby for a while: a planned"
            " switchover. It waits until all is copied, and fences the primary. These brokers have no ACLs"
            " to keep clients off the old primary, so the command states how they are kept off."
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
    began = time.monotonic()
    options = ("--flow", flow, "--all", "--planned", "--yes", "--clients-cut", CUT)
    report: dict[str, Any] = stage.ask("failover", *options)
    if report.get("state") != "done":
        raise Failed("demo_switchover_failed", where=flow, evidence=str(report)[:1500])
    seconds = report["seconds"]["until_verified"]
    key = "switchover_seconds" if flow == _FORTH else "switchback_seconds"
    stage.measured |= {key: round(seconds, 1), f"{key}_with_start": round(time.monotonic() - began, 1)}
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


_REASON = "no order may be lost"


class PrimaryReturns:
    """Starts the old primary again, with what its disks have."""

    title = "The old primary is there again"

    def run(self, stage: Stage) -> None:
        """Let the shop work at the standby; then restart the old primary and ask what only it has."""
        works_at(stage, "standby", alive=False)
        stage.screen.say(
            "Next week its brokers start again. They have the records that were never copied, and miss all"
            " that was written since. [b]drkit divergence[/b] compares both sides, by content."
        )
        stage.restart_primary()
        stage.screen.command("drkit divergence --flow 'primary->standby'")
        found: dict[str, Any] = stage.ask("divergence", "--flow", _FORTH)
        stage.screen.fact(found["statement"])
        stage.measured["return_only_old"] = found["records"]


class ReplayTail:
    """Makes the old primary the standby of the new one, and appends there what only it had."""

    title = "It becomes the standby, and nothing is lost"

    def run(self, stage: Stage) -> None:
        """Run the return, and wait until the pair is protected."""
        stage.screen.say(
            "[b]drkit reprotect[/b] exports these records to files, reads the files back, and only then"
            " empties the old primary's partitions, to copy them again. What becomes of the records is for a"
            " person to say: discard them, put them aside, or replay them. Replayed, they are appended to the"
            " same topics of the standby, each once."
        )
        stage.on_either_side = Counter(_records(stage, "primary")) | Counter(_records(stage, "standby"))
        chosen = ("--disposition", "*=replay", "--reason", _REASON, "--export-to", str(stage.export))
        options = ("--flow", _FORTH, *chosen, "--clients-cut", CUT, "--yes")
        shown = f"--disposition '*=replay' --reason '{_REASON}' --export-to {stage.export.name}"
        stage.screen.command(f"drkit reprotect --flow '{_FORTH}' {shown}")
        begun = time.monotonic()
        report: dict[str, Any] = stage.ask("reprotect", *options)
        if report.get("state") != "done":
            raise Failed("demo_failback_failed", where="drkit reprotect", evidence=str(report)[:1500])
        seconds = time.monotonic() - begun
        stage.measured["return_seconds"] = round(seconds, 1)
        stage.screen.fact(f"exported, emptied, replayed in {seconds:.1f} s")
        stage.screen.command("drkit replicate")
        stage.replicator.start()
        protected(stage, _BACK)


class HomeAgain:
    """A planned switchover home, and the balance of the disaster."""

    title = "Home, and the balance"

    def run(self, stage: Stage) -> None:
        """Switch home, and account for every record that either cluster ever had."""
        stage.screen.say("From here it is a planned switchover, as before.")
        switched(stage, _BACK)
        protected(stage, _FORTH)
        here, there = Counter(_records(stage, "primary")), Counter(_records(stage, "standby"))
        lost = (stage.on_either_side - here).total()
        repeated = (here - stage.on_either_side).total()
        stage.measured |= {"home_records": here.total(), "home_lost": lost, "home_repeated": repeated}
        stage.screen.table(
            [
                ("either side", f"{stage.on_either_side.total():,}", "one or both had, before the failback"),
                ("on the primary", f"{here.total():,}", ""),
                ("on the standby", f"{there.total():,}", ""),
                ("lost", f"{lost}", "including those that the failover left behind"),
                ("repeated", f"{repeated}", ""),
            ]
        )
        if lost or repeated or here != there:
            raise Failed(
                "demo_failback_uneven",
                evidence=f"{stage.on_either_side.total()} on either side before, {here.total()} on the"
                f" primary, {there.total()} on the standby, lost {lost}, repeated {repeated}",
            )
        stage.screen.fact("a primary died and is home: lost 0, repeated 0, both sides the same")


def _records(stage: Stage, cluster: str) -> list[Content]:
    return contents(stage.settings.cluster(cluster))
