"""How a failover looks: lines on stderr while it runs, a short report at its end."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import click

from drkit.cli.session import to_type
from drkit.failover.context import Progress
from drkit.failover.desk import Proposal, Rehearsal
from drkit.failover.risk import held_text
from drkit.failover.words import first_of
from drkit.visible import visible

_SHOWN = 10


def show_progress(progress: Progress) -> None:
    """One line on stderr."""
    more = " ".join(f"{k}={v}" for k, v in progress.fields.items())
    now = datetime.now(UTC).strftime("%H:%M:%S.%f")[:-3]
    line = f"{now}  {progress.step.value:<14}  {progress.what}  {more}"
    click.echo(to_type(visible(line.rstrip())), err=True)


def show_proposal(proposal: Proposal) -> None:
    """What somebody is asked to agree to, on stderr."""
    chosen, seen = proposal.chosen, proposal.survey
    scope = chosen.scope
    lines = [
        f"flow      {proposal.flow}",
        f"topics    {first_of(scope.topics, _SHOWN)}",
        f"groups    {first_of(scope.groups, _SHOWN)}",
    ]
    lines += [f"          {note}" for note in (*chosen.notes(), *seen.outside.notes())]
    lines += [f"{'clients' if not n else '':<10}{way.in_words()}" for n, way in enumerate(seen.reach)]
    if not seen.reach:
        lines.append("clients   no way of [failover] repoint reaches them: move them by other means")
    risk = seen.risk
    records = "unknown" if risk.records is None else f"{risk.records:,}"
    seconds = "unknown" if risk.seconds is None else f"{risk.seconds:.1f} s"
    lines.append(f"at risk   {records} records, {seconds} ({risk.basis})")
    if held := held_text(risk.held_back, risk.acknowledged):
        lines.append(f"          of them {held}")
    if seen.source_error:
        lines.append(f"primary   does not answer: {seen.source_error}")
    click.echo(to_type("\n".join(map(visible, lines))), err=True)


def notes_of(proposal: Proposal) -> list[str]:
    """What a proposal says besides the topics and groups that move."""
    seen = proposal.survey
    return [*proposal.chosen.notes(), *seen.outside.notes(), *(way.in_words() for way in seen.reach)]


def rows_of(found: Rehearsal) -> list[dict[str, str]]:
    """A dry run as rows."""
    return [
        {"step": x.step.value, "what": x.effect.what, "where": x.effect.where, "why": x.effect.why}
        for x in found.lines
    ]


def shown(report: Mapping[str, Any]) -> dict[str, Any]:
    """The report for a person; ``--json`` has all of it."""
    loss, fence, groups = report["loss"] or {}, report["fence"] or {}, report["groups"]
    seconds = report["seconds"]
    out: dict[str, Any] = {
        "failover": f"{report['state']}: {report['flow']}, run {report['run']}, term {report['term']}",
        "topics": first_of((a if a == b else f"{a} → {b}" for a, b in report["topics"].items()), _SHOWN),
        "groups moved": first_of(groups["moved"], _SHOWN) or "none",
    }
    if report["moved_before"]:
        out["already moved"] = first_of(report["moved_before"], _SHOWN)
    if groups["kept"]:
        out["left where they are"] = first_of(groups["kept"], _SHOWN)
    if waiting := [f"{g}: {why}" for g, why in groups["at_work"].items() if why != "works"]:
        out["not at work yet"] = first_of(waiting, _SHOWN)
    if loss:
        out["loss"] = loss["statement"]
    if fence:
        out["fence"] = "proven" if fence.get("proven") else f"owed: {fence.get('debt')}"
    if seconds:
        out["seconds"] = ", ".join(f"{name} {value:.2f}" for name, value in seconds.items())
    if held := report.get("held"):
        out["held"] = " ".join(filter(None, [held.get("step"), held.get("error")]))
    for step in report["steps"]:
        for number, note in enumerate(step["notes"]):
            out[step["step"] if not number else f"{step['step']} {number + 1}"] = to_type(note)
    out["next"] = "; ".join(report["next"])
    return out
