"""Plays the acts in order and shows the measurements at the end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
import time
from typing import Any

from drkit.demo.acts import PEACEFUL, REHEARSAL, Act, Ending, acts_until
from drkit.demo.screen import Screen
from drkit.demo.stage import EPOCH_SECONDS, Stage

_PAUSE = f"between two orders: drkit pauses between epochs, here {EPOCH_SECONDS} s long, usually 5 min"


def tell(
    screen: Screen,
    *,
    rate: int,
    keep: Path | None = None,
    until: Ending = Ending.HOME,
    drill: Path | None = None,
    acts: Sequence[Act] = (),
) -> dict[str, Any]:
    """Play the story; whatever happens, nothing is left behind.

    :param keep: leave the clusters running as the pair of ``drkit local``, and write this configuration; then
        no cluster is killed, and there is no failover
    :param rate: orders per second, while the shop is open
    :param until: where the story ends when no cluster is kept
    :param drill: rehearse a failover instead, and leave its report in this folder
    :param acts: others than these
    :return: the measurements, as plain data
    :raises DrkitError: an act failed; the error says what
    """
    begun = time.monotonic()
    folder = (drill or Path()).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    told = acts_until(until) if keep is None else PEACEFUL
    if drill is not None:
        told = REHEARSAL
    with Stage(screen, rate, keep is not None, keep or Path("drkit.toml"), report_folder=folder) as stage:
        for act in acts or told:
            screen.act(act.title)
            act.run(stage)
        stage.measured["seconds"] = round(time.monotonic() - begun, 1)
        measured = dict(stage.measured)
    screen.act("What was measured")
    screen.table(rows(measured))
    if keep is not None:
        screen.say("Both clusters keep running. To play on:")
        for command in (
            "drkit local status",
            f"drkit replicate --config {keep}",
            f"drkit verify --config {keep}",
        ):
            screen.command(command)
        screen.say("To end them:")
        screen.command("drkit local down")
    return measured


def rows(measured: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The measurements for people: what, how much, what it means."""
    table = (
        ("copied", "{records:,} records", "{megabytes} MB of keys and values"),
        ("catching up", "{catch_up_records_per_second:,} records/s", "the fastest second"),
        ("delay", "{latency_p50_ms} ms", "median, from the order until a consumer of the standby has it"),
        ("", "{latency_p99_ms} ms", "99 of 100 orders; the slowest took {latency_worst_ms} ms"),
        ("longest pause", "{longest_gap_ms} ms", _PAUSE),
        ("after SIGKILL", "{recovered_seconds} s", "until all was caught up again, Spark's start included"),
        (
            "moved",
            "{group_after:,} payments",
            "read by the group at the standby, after {group_before} at the primary",
        ),
        ("switchover", "{switchover_seconds} s", "and {switchback_seconds} s for the way home"),
        ("", "{turn_lost} lost", "{turn_repeated} repeated, of {turn_records:,} records"),
        ("drill", "{drill_seconds} s", "a bubble: {drill_verdict}, and nothing of it is left"),
        ("", "{drill_outage_seconds:.1f} s", "the longest outage of its clients; {drill_lost} records lost"),
        ("failover", "{failover_seconds} s", "from its first step until the standby was verified"),
        ("", "{failover_lost:,} records", "acknowledged by the primary in its last moment, and lost with it"),
        ("return", "{return_seconds} s", "exported, emptied and replayed; then it is the standby"),
        ("", "{home_lost} lost", "{home_repeated} repeated, of {home_records:,} records of both sides"),
        ("verify", "{verify[records_per_second]:,} records/s", "compared in {verify[seconds]} s"),
        ("lost by the copy", "{lost}", ""),
        ("twice", "{twice}", ""),
        ("all of this", "{seconds} s", ""),
    )
    return [
        (name, value.format(**measured), meaning.format(**measured))
        for name, value, meaning in table
        if _known(value + meaning, measured)
    ]


def _known(text: str, measured: dict[str, Any]) -> bool:
    try:
        text.format(**measured)
    except KeyError:
        return False
    return True
