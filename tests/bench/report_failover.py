"""Tables about failovers: the steps, the detection, the clients. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tests.bench import homecoming
from tests.bench.detection import GOAL_SECONDS, DetectionRun
from tests.bench.failovers import BROKERS, PARTITIONS, FailoverRun
from tests.bench.lost_primary import COMMAND_GOAL_SECONDS, START_GOALS, LostPrimaryRun, StartUp
from tests.bench.lost_primary import GOAL_SECONDS as READ_GOAL
from tests.bench.repointing import Moved
from tests.bench.results import Results
from tests.bench.switchback import GOAL_SECONDS as SWITCH_GOAL
from tests.bench.switchback import GROUPS, TOPICS, UNAVAILABLE_GOAL_SECONDS, SwitchRun
from tests.bench.tables import cell, count, seconds, spread, table
from tests.bench.takeovers import GOAL_SECONDS as TAKEOVER_GOAL
from tests.bench.takeovers import TakeoverRun

GOALS: Final = {20: 5, 1000: 30}
"""Groups → seconds from LOCK to VERIFY."""
CLIENT_GOAL: Final = 2
_SHOWN: Final = ("FENCE", "FREEZE", "TRANSLATE", "COMMIT_OFFSETS", "OPEN", "REPOINT", "VERIFY")


def failover_tables(results: Results) -> list[str]:
    """Headings and tables; those without a figure are left out."""
    parts: list[str] = []
    if results.failovers:
        heading = (
            f"### A failover, LOCK to VERIFY without DRAIN (s; {PARTITIONS} partitions, {BROKERS} brokers)"
        )
        parts += [heading, _failovers(results.failovers)]
    if results.switches:
        heading = f"{TOPICS} topics × {PARTITIONS} partitions, {GROUPS:,} groups, {BROKERS} brokers"
        parts += [f"### A planned switchover there and back (s; {heading})", _switches(results.switches)]
    if results.returns:
        heading = (
            f"{homecoming.TOPICS} topics × {homecoming.PARTITIONS} partitions, {homecoming.TAIL} records"
            f" of a tail and {homecoming.DELTA} new ones on {homecoming.RECORDS} in each"
        )
        parts += [f"### A primary that died comes home ({heading})", _returns(results.returns)]
    if results.detections:
        parts += ["### From the loss of the primary to LOST (s)", _detections(results.detections)]
    if results.repoints:
        parts += ["### From REPOINT to the first good record of a client (s)", _clients(results.repoints)]
    if results.lost:
        parts += [
            "### A lost primary, from the kill to the first record on the standby (s)",
            _lost(results.lost),
        ]
    if results.takeovers:
        parts += ["### A killed replicator, until its standby's first record", _takeovers(results.takeovers)]
    if results.starts:
        parts += ["### What a command takes to start", _starts(results.starts)]
    return parts


def _lost(runs: Sequence[LostPrimaryRun]) -> str:
    def of(figure: Callable[[LostPrimaryRun], float]) -> str:
        return cell(spread(figure(r) for r in runs), seconds)

    rows = [
        ["from the kill to LOST", of(lambda r: r.lost), ""],
        ["the command: start, both clusters looked at", of(lambda r: r.begun), ""],
        *([step, cell(spread(r.steps[step] for r in runs), seconds), ""] for step in runs[0].steps),
        ["first entry to endpoint file", of(lambda r: r.repointed), ""],
        ["endpoint file to first record", of(lambda r: r.read), ""],
        ["whole command", of(lambda r: r.command), f"< {COMMAND_GOAL_SECONDS:.0f}"],
        ["kill to first record", of(lambda r: r.total), f"< {READ_GOAL:.0f}"],
    ]
    where = ", ".join(f"{r.commit} at load {r.load}" for r in runs)
    return table(["stage", "seconds", "goal"], rows) + f"\n\nMeasured at commit and load: {where}."


def _takeovers(runs: Sequence[TakeoverRun]) -> str:
    found = cell(spread(r.seconds for r in runs), seconds)
    rows = [[str(len(runs)), found, f"< {TAKEOVER_GOAL:.0f}", ", ".join(f"{r.load:.0f}" for r in runs)]]
    return table(["kills", "seconds", "goal", "load of the machine"], rows)


def _starts(runs: Sequence[StartUp]) -> str:
    rows = [
        [r.command, f"{r.cpu_seconds:.2f}", f"< {START_GOALS[r.command]}", f"{r.seconds:.2f}"] for r in runs
    ]
    return table(["command", "processor seconds", "goal", "seconds"], rows)


def _failovers(runs: Sequence[FailoverRun]) -> str:
    rows = []
    for primary, groups in dict.fromkeys((r.primary, r.groups) for r in runs):
        mine = [r for r in runs if (r.primary, r.groups) == (primary, groups)]
        rows.append([
            primary,
            count(groups),
            cell(spread(r.seconds for r in mine), seconds),
            f"< {GOALS[groups]}" if groups in GOALS else "",
            *(cell(spread(r.steps.get(s, 0.0) for r in mine), seconds) for s in _SHOWN),
            cell(spread(r.command_seconds for r in mine), seconds),
            str(sum(r.wrong for r in mine)),
        ])  # fmt: skip
    header = ["primary", "groups", "LOCK to VERIFY", "goal", *_SHOWN, "whole command", "wrong positions"]
    return table(header, rows)


def _switches(runs: Sequence[SwitchRun]) -> str:
    rows = [
        [
            run.way, seconds(run.unavailable_seconds), f"< {UNAVAILABLE_GOAL_SECONDS:.0f}",
            seconds(run.seconds), seconds(run.command_seconds), f"< {SWITCH_GOAL:.0f}",
            *(seconds(run.steps.get(s, 0.0)) for s in ("SNAPSHOT", "FENCE", "DRAIN", *_SHOWN[1:])),
            seconds(run.protected_seconds), str(run.wrong),
        ]
        for run in runs
    ]  # fmt: skip
    header = [
        "way", "no write acknowledged", "goal", "LOCK to VERIFY", "whole command", "goal", "SNAPSHOT",
        "FENCE", "DRAIN", *_SHOWN[1:], "until PROTECTED again", "wrong positions",
    ]  # fmt: skip
    return table(header, rows)


def _returns(runs: Sequence[homecoming.ReturnRun]) -> str:
    rows = [
        [
            run.method, count(run.records), count(run.tail), count(run.delta), seconds(run.command_seconds),
            seconds(run.protected_seconds), f"{run.sent / 1e6:.0f}", f"{run.whole / 1e6:.0f}",
            f"{run.sent / run.whole:.0%}", str(run.wrong),
        ]
        for run in runs
    ]  # fmt: skip
    header = [
        "method", "records", "tail", "delta", "command (s)", "until PROTECTED (s)", "MB on the link",
        "MB in all", "of all", "differences",
    ]  # fmt: skip
    return table(header, rows)


def _detections(runs: Sequence[DetectionRun]) -> str:
    rows = []
    for kind in dict.fromkeys(r.kind for r in runs):
        mine = [r for r in runs if r.kind == kind]
        first, last = spread(r.first for r in mine), spread(r.last for r in mine)
        rows.append([
            kind, str(len(mine)), cell(first, seconds), cell(last, seconds), f"< {GOAL_SECONDS:.0f}"
        ])  # fmt: skip
    return table(["primary", "rounds", "first observer", "last observer", "goal"], rows)


def _clients(found: Sequence[Moved]) -> str:
    states = list(dict.fromkeys(m.state for m in found))
    rows = []
    for kind in dict.fromkeys(m.kind for m in found):
        goal = f"< {CLIENT_GOAL}" if kind.startswith("FailoverConsumer") else ""
        rows.append(
            [kind, goal, *(_cell([m for m in found if (m.kind, m.state) == (kind, s)]) for s in states)]
        )
    return table(["client", "goal", *states], rows)


def _cell(mine: Sequence[Moved]) -> str:
    text = cell(spread(m.seconds for m in mine if m.seconds is not None), seconds)
    never, repeats = sum(m.seconds is None for m in mine), sum(m.repeats for m in mine)
    remarks = [f"{never} of {len(mine)} never"] * bool(never) + [f"{repeats} repeated"] * bool(repeats)
    remarks += ["gap"] * any(m.gap for m in mine)
    return ", ".join([text, *remarks])
