"""The acts of a group and of a failover: a group reads, the primary dies, both continue elsewhere."""

from __future__ import annotations

import time
from typing import Any

from drkit.demo.accounting import GROUP, Accounting, Payments
from drkit.demo.proof import payments
from drkit.demo.shop import PAYMENTS
from drkit.demo.stage import TOPICS, Stage
from drkit.endpoint import parse_endpoint
from drkit.errors import Failed

FIRST = 5
"""Number of payments that the group reads from the primary."""
_PATIENCE_SECONDS = 180.0
_QUIET_SECONDS = 0.5


class ReadSome:
    """A group reads from the primary, and drkit copies its offsets to the standby."""

    title = "A consumer group reads five payments"

    def run(self, stage: Stage) -> None:
        """Read, commit, leave; wait until the group's committed offset is on the standby."""
        stage.screen.say(
            f"The group [b]{GROUP}[/b] reads {FIRST} payments on the primary, commits them and stops for"
            " today. Offsets differ from cluster to cluster; drkit translates those of all groups, every few"
            " seconds, exactly, and puts them where the group would look for them on the standby."
        )
        with Accounting(stage.bootstrap("primary")) as group:
            stage.read_on_primary = group.read(FIRST)
            there = group.positions(TOPICS[PAYMENTS])
        began = time.monotonic()
        with Accounting(stage.bootstrap("standby")) as group:
            stage.watch(
                _PATIENCE_SECONDS,
                "the group's position travels",
                lambda: group.positions(TOPICS[PAYMENTS]).keys() == there.keys(),
            )
        seconds = time.monotonic() - began
        stage.measured["position_seconds"] = round(seconds, 1)
        stage.screen.fact(f"the standby knows the position of {GROUP} {seconds:.1f} s later")


class ReadTheRest:
    """The group reads the rest from the other cluster."""

    title = "The group continues at the standby"

    def run(self, stage: Stage) -> None:
        """Ask for its position, start it there, and compare what both clusters gave it with all there is."""
        stage.screen.say(
            f"Now the group starts at the standby, with nothing but its name. It must get every payment but"
            f" the {FIRST} that it has: no gap, none again."
        )
        stage.screen.command(f"drkit translate --group {GROUP}")
        for line in stage.ask("translate", "--group", GROUP):
            stage.screen.fact(
                f"{line['topic']}-{line['partition']}: next is {line['offset']} on the primary,"
                f" {line['to_offset']} on the standby"
            )
        _read_the_rest(stage, stage.bootstrap("standby"), payments(stage.settings.cluster("primary")))


def _read_the_rest(stage: Stage, bootstrap: str, everything: Payments) -> None:
    remaining = sum(map(len, everything.values())) - FIRST
    with Accounting(bootstrap) as group:
        rest = group.read(remaining)
        more = group.more(_QUIET_SECONDS)
    if more or joined(stage.read_on_primary, rest) != everything:
        raise Failed(
            "demo_group_not_exact",
            evidence=f"{remaining} payments were left; what came is not these{', and more' if more else ''}",
        )
    stage.measured |= {"group_before": FIRST, "group_after": remaining}
    stage.screen.fact(
        f"{remaining:,} payments came, exactly the rest: none missing, none twice, all in order"
    )


def joined(before: Payments, after: Payments) -> Payments:
    """Join the payments that a group got before and after."""
    return {p: before.get(p, []) + after.get(p, []) for p in sorted(before.keys() | after.keys())}


_OPEN_SECONDS = 1.5
_CUT_SECONDS = 0.5
_LONGEST = 70
"""Characters of a note in the table of steps."""


class PrimaryDies:
    """Kills the primary."""

    title = "The primary is gone"

    def run(self, stage: Stage) -> None:
        """Open the shop once more, and kill every broker of the primary while it works."""
        stage.screen.say(
            "The next day the shop is open and drkit copies. First the link between the sites breaks, then"
            " every broker of the primary is killed at once (SIGKILL). What was acknowledged in its last"
            " moments is there and nowhere else."
        )
        stage.shop.open(stage.rate)
        stage.watch(_OPEN_SECONDS, "the shop is open again")
        stage.replicator.kill()
        stage.watch(_CUT_SECONDS, "nothing is copied, the shop keeps writing", alive=False)
        stage.kill_primary()
        stage.shop.abandon()
        stage.screen.fact(f"{stage.shop.records:,} records were acknowledged by a cluster that is gone")


class FailOver:
    """One command."""

    title = "drkit failover"

    def run(self, stage: Stage) -> None:
        """Run the failover, and show what it did and what is lost."""
        stage.screen.say(
            "One command moves everything: drkit's own writers are fenced, every group continues at its next"
            " record, producers may write, clients are repointed. And it says what is lost."
        )
        stage.screen.command("drkit failover --flow 'primary->standby' --all")
        begun = time.monotonic()
        report: dict[str, Any] = stage.ask("failover", "--flow", "primary->standby", "--all", "--yes")
        seconds = time.monotonic() - begun
        if report.get("state") != "done":
            raise Failed("demo_failover_failed", where="drkit failover", evidence=str(report)[:1500])
        stage.screen.table([_row(step) for step in report["steps"]])
        stage.screen.fact(f"reported loss: {report['loss']['statement']}")
        places = report["loss"]["partitions"]
        lost = max(0, stage.shop.records - stage.observer.records)
        stage.measured |= {
            "failover_seconds": round(report["seconds"]["until_verified"], 1),
            "failover_command_seconds": round(seconds, 1),
            "failover_groups": len(report["groups"]["moved"]),
            "failover_lost": lost,
            "lost_from": {f"{p['topic']}-{p['partition']}": p["lost_from"] for p in places},
        }
        stage.screen.fact(f"the shop's own count: {lost:,} acknowledged records are not on the standby")


class GoOn:
    """The group continues on the cluster of the new endpoint."""

    title = "The group continues at the standby"

    def run(self, stage: Stage) -> None:
        """Start it at the address in the endpoint file, and compare what it got with all records."""
        endpoint = parse_endpoint(stage.endpoint.read_text(encoding="utf-8"))
        stage.screen.say(
            f"The group [b]{GROUP}[/b] starts where the failover has told it to, with nothing but its name."
            f" It must get every payment but the {FIRST} that it has: no gap, none again."
        )
        stage.screen.fact(
            f"endpoint.json leads to {endpoint.cluster} ({endpoint.bootstrap_servers}), term {endpoint.term}"
        )
        _read_the_rest(stage, endpoint.bootstrap_servers, payments(stage.settings.cluster("standby")))


def _row(step: dict[str, Any]) -> tuple[str, str, str]:
    note = step["notes"][0] if step["notes"] else ""
    short = note if len(note) <= _LONGEST else note[: _LONGEST - 1] + "…"
    return step["step"], f"{step['seconds'] or 0:.1f} s", short
