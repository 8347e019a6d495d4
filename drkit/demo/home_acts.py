"""The last acts: the primary that died is there again, comes home with what only it had, and the balance."""

from __future__ import annotations

from collections import Counter
import time
from typing import Any

from drkit.demo.proof import Content, contents
from drkit.demo.stage import Stage
from drkit.demo.turn_acts import CUT, protected, switched, works_at
from drkit.errors import Failed

_FORTH = "primary->standby"
_BACK = "standby->primary"
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
                ("on either side", f"{stage.on_either_side.total():,}", "before the old primary came home"),
                ("on the primary", f"{here.total():,}", ""),
                ("on the standby", f"{there.total():,}", ""),
                ("lost", f"{lost}", "also none of those that the failover had left behind"),
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
