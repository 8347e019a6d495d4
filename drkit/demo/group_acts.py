"""Two acts about a consumer group: it reads a part on the primary, later the rest on the standby."""

from __future__ import annotations

import time

from drkit.demo.accounting import GROUP, Accounting, Payments
from drkit.demo.proof import payments
from drkit.demo.shop import PAYMENTS
from drkit.demo.stage import TOPICS, Stage
from drkit.errors import Failed

FIRST = 5
"""Payments that the group reads on the primary."""
_PATIENCE_SECONDS = 180.0
_QUIET_SECONDS = 0.5


class ReadSome:
    """A group reads on the primary, and drkit copies its offsets to the standby."""

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
        begun = time.monotonic()
        with Accounting(stage.bootstrap("standby")) as group:
            stage.watch(
                _PATIENCE_SECONDS,
                "the group's position travels",
                lambda: group.positions(TOPICS[PAYMENTS]).keys() == there.keys(),
            )
        seconds = time.monotonic() - begun
        stage.measured["position_seconds"] = round(seconds, 1)
        stage.screen.fact(f"the standby knows the position of {GROUP} {seconds:.1f} s later")


class ReadTheRest:
    """The same group on the other cluster."""

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
        everything = payments(stage.settings.cluster("primary"))
        left = sum(map(len, everything.values())) - FIRST
        with Accounting(stage.bootstrap("standby")) as group:
            rest = group.read(left)
            more = group.more(_QUIET_SECONDS)
        if more or joined(stage.read_on_primary, rest) != everything:
            raise Failed(
                "demo_group_not_exact",
                evidence=f"{left} payments were left; what came is not these{', and more' if more else ''}",
            )
        stage.measured |= {"group_before": FIRST, "group_after": left}
        stage.screen.fact(f"{left:,} payments came, exactly the rest: none missing, none twice, all in order")


def joined(before: Payments, after: Payments) -> Payments:
    """What a group got in two parts."""
    return {p: before.get(p, []) + after.get(p, []) for p in sorted(before.keys() | after.keys())}
