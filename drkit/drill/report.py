"""The report of a drill: its steps, its model with hashes, and its check. Nothing here reads a cluster.

The verdict of a report follows from the evidence in it, so anyone can check one: recompute the hash, and
judge again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from drkit.drill.evidence import BUBBLE, READINESS, TRANSLATION, BubbleEvidence, DrillEvidence, VerdictLimits
from drkit.drill.judge import ABORTED, JUDGES, REFUSED, SKIPPED, DrillVerdict, judge, judged_rows
from drkit.drill.position_rows import PositionAnswer, PositionForm
from drkit.errors import Failed
from drkit.exercise.verdict import FAIL, INCONCLUSIVE, PASS
from drkit.journal.machine import FAILOVER, StepName

_EXERCISED: Final[Mapping[str, Mapping[str, str]]] = {
    READINESS: dict.fromkeys(FAILOVER.order, "dry run"),
    TRANSLATION: {StepName.TRANSLATE: "production"},
}
_PRODUCTION: Final = "production"
_RIGHTS: Final = "rights of applications"
_PROVEN_BY: Final = dict.fromkeys(map(str, FAILOVER.order), "switchover") | {
    "detection": "drkit chaos",
    _RIGHTS: "bubble with [drills.client], switchover",
}


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PlanReport(_Part):
    """The plan of the drill."""

    name: str
    cut: str = "planned"
    """The cut of a bubble: planned, or lost."""
    objectives: VerdictLimits = VerdictLimits()
    limits: dict[str, float] = {}


class ScopeReport(_Part):
    """The flow, and how much of it the drill looked at."""

    flow: str
    source: str
    target: str
    topics: int
    partitions: int
    groups: int


class TimelineEntry(_Part):
    """An event; milliseconds since 1970."""

    at_ms: int
    what: str


class OutageReport(_Part):
    """The outage of a client: seconds between its last good operation and its first good one after it."""

    client: str
    operation: str
    began_seconds: float
    """Since the first operation of any client."""
    seconds: float

    @property
    def name(self) -> str:
        """The client, without the prefix that all names of the drill have."""
        return self.client.rpartition(".")[2]


class LossReport(_Part):
    """The loss of records, and how it is known, or None if it is unknown."""

    records: int | None
    seconds: float | None
    basis: str


class StepReport(_Part):
    """A step of the drill, and its duration in seconds."""

    name: str
    seconds: float
    outcome: str = ""


class GroupReport(_Part):
    """The positions of a consumer group, by answer."""

    group: str
    answers: dict[str, int]
    repeats: int
    """Offsets that would be repeated from the stored positions."""
    reason: str
    """The reason of its first position that is not proven, if any."""


class CheckReport(_Part):
    """A check, and how many pieces it examined, found wrong, and left undecided."""

    name: str
    examined: int
    failed: int
    undecided: int = 0


class UnprovenStep(_Part):
    """A step of a failover that the drill did not prove on production."""

    step: str
    exercised: str
    """``bubble``, ``dry run`` or ``not exercised``."""
    proven_by: str
    """The kinds of drills that exercise it."""


class CleanupReport(_Part):
    """Items that the drill left on the clusters; `left` must be empty. An unknown look is never clean."""

    left: tuple[str, ...] = ()
    changed_by_others: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


class DrillReport(_Part):
    """The report of one drill."""

    id: str
    kind: str
    verdict: str
    reasons: tuple[str, ...]
    plan: PlanReport
    scope: ScopeReport
    timeline: tuple[TimelineEntry, ...] = ()
    rto: tuple[OutageReport, ...] = ()
    rpo: LossReport | None = None
    steps: tuple[StepReport, ...] = ()
    groups: tuple[GroupReport, ...] = ()
    checks: tuple[CheckReport, ...] = ()
    controls: dict[str, bool | None] = {}
    """By the name of a defect, whether the judge finds it; null: the evidence has no place for it."""
    not_proven: tuple[UnprovenStep, ...] = ()
    drift: tuple[str, ...] = ()
    """Changes since the last drill that passed."""
    cleanup: CleanupReport | None = None
    evidence: DrillEvidence
    previous: str = ""
    """Hash of the report before."""
    self_hash: str = Field("", alias="self")
    """SHA-256 of the rest as `to_json` writes it, in UTF-8: that text without its last member."""

    @model_validator(mode="after")
    def _has_all_windows(self) -> Self:
        self.evidence.positions.unpacked  # noqa: B018  raises ValueError
        return self

    @property
    def longest_outage(self) -> float | None:
        """Seconds, or None if no outage was measured."""
        return max((outage.seconds for outage in self.rto), default=None)

    def to_json(self) -> str:
        """Return the report as JSON."""
        return self.model_dump_json(by_alias=True)

    def hash(self) -> str:
        """Return the hash of the report without its `self`."""
        text = self.model_dump_json(by_alias=True, exclude={"self_hash"})
        return sha256(text.encode()).hexdigest()


def build_report(
    kind: str, plan: PlanReport, evidence: DrillEvidence, verdict: DrillVerdict | None = None, **rest: Any
) -> DrillReport:
    """Return a report with its hash.

    :param verdict: of a drill that did not run to its end, such as ``aborted``, or None for the judge's
    :param rest: the other fields of :class:`DrillReport`
    """
    judged = judge(kind, evidence, plan.objectives)
    word, reasons, _ = verdict or judged
    report = DrillReport(
        kind=kind,
        verdict=word,
        reasons=reasons,
        plan=plan,
        evidence=evidence,
        **(rest | concluded(kind, evidence, plan.objectives, judged)),
    )
    return report.model_copy(update={"self_hash": report.hash()})


def read_report(text: str | bytes) -> DrillReport:
    """Return the report in a JSON text. Raises Failed if it is not a report."""
    try:
        return DrillReport.model_validate_json(text)
    except ValidationError as error:
        raise Failed("not_a_drill_report", evidence=str(error).splitlines()[1]) from error


def report_schema() -> dict[str, JsonValue]:
    """Return the JSON schema of a report."""
    return DrillReport.model_json_schema(by_alias=True, mode="serialization")


def concluded(
    kind: str, evidence: DrillEvidence, objectives: VerdictLimits, judged: DrillVerdict
) -> dict[str, Any]:
    """Return the fields that follow from the evidence alone."""
    bubble, ran = evidence.bubble or BubbleEvidence(), evidence.failover
    where = _PRODUCTION if evidence.switchover else BUBBLE
    exercised = _EXERCISED.get(kind) or dict.fromkeys(ran.steps or (), where)
    if ran.steps and (evidence.switchover or bubble.is_application):
        exercised = {**exercised, _RIGHTS: where}
    ways = ((step, exercised.get(step, "not exercised"), proven_by) for step, proven_by in _PROVEN_BY.items())
    unproven = (UnprovenStep(step=s, exercised=e, proven_by=p) for s, e, p in ways if e != _PRODUCTION)
    sides = (bubble.inventory or {}).items()
    left, others, unknown = (
        tuple(f"{side}: {item}" for side, compared in sides for item in getattr(compared, name))
        for name in ("ours_left", "changed_by_others", "unknown")
    )
    return {
        "rto": tuple(OutageReport(**o._asdict()) for o in ran.outages),
        "rpo": _loss(evidence),
        "cleanup": bubble.inventory and CleanupReport(left=left, changed_by_others=others, unknown=unknown),
        "groups": tuple(_groups(evidence, objectives)),
        "checks": tuple(_checks(kind, evidence, objectives)),
        "controls": dict(judged.controls),
        "not_proven": tuple(unproven),
    }


def _loss(evidence: DrillEvidence) -> LossReport | None:
    """Return what a failover would lose, or a drill lost of its own records or of production's."""
    if (facts := evidence.readiness) is not None:
        return LossReport(records=facts.loss_records, seconds=facts.loss_seconds, basis=facts.loss_basis)
    loss, basis = evidence.failover.loss, f"records of {'production' if evidence.switchover else 'the drill'}"
    return None if loss is None else LossReport(records=loss.records, seconds=loss.seconds, basis=basis)


def _groups(evidence: DrillEvidence, objectives: VerdictLimits) -> Iterator[GroupReport]:
    """Return the positions of each group by answer."""
    answers: defaultdict[str, Counter[str]] = defaultdict(Counter)
    repeats: Counter[str] = Counter()
    reasons: dict[str, str] = {}
    for row, word, answer, reason in judged_rows(evidence, objectives):
        answers[row.group][answer.value] += 1
        if answer is PositionAnswer.BEHIND:
            repeats[row.group] += (row.committed or 0) - (row.upstream or 0)
        if word != PASS:
            reasons.setdefault(row.group, f"{row.topic}-{row.partition}, {row.form}: {answer}: {reason}")
    for g, counts in sorted(answers.items()):
        yield GroupReport(group=g, answers=dict(counts), repeats=repeats[g], reason=reasons.get(g, ""))


def _checks(kind: str, evidence: DrillEvidence, objectives: VerdictLimits) -> Iterator[CheckReport]:
    for each in evidence.failover.checks:
        yield CheckReport(name=each.name, examined=each.examined, failed=len(each.offences))
    facts = evidence.readiness
    if kind == READINESS and facts is not None:
        yield CheckReport(name="dry run of a failover", examined=1, failed=len(facts.refusals))
        yield CheckReport(name="positions of groups", examined=facts.groups, failed=len(facts.not_ready))
    words = Counter((row.form, word) for row, word, *_ in judged_rows(evidence, objectives))
    for form in PositionForm if kind == TRANSLATION else ():
        failed, undecided = words[form, FAIL], words[form, INCONCLUSIVE]
        examined = words[form, PASS] + failed + undecided
        yield CheckReport(name=f"{form} positions", examined=examined, failed=failed, undecided=undecided)


def check_report(report: DrillReport, previous: DrillReport | None = None) -> list[str]:
    """Return what is wrong with a report: nothing if its hash and its conclusions are right.

    :param previous: the report before it
    """
    problems = []
    if report.self_hash != report.hash():
        problems.append("the hash does not match: the report was altered")
    if previous is not None and report.previous != previous.hash():
        problems.append("the hash of the previous report does not match")
    if report.kind not in JUDGES:
        return [*problems, f"the kind is unknown: {report.kind}"]
    judged = judge(report.kind, report.evidence, report.plan.objectives)
    if report.verdict in {PASS, FAIL, INCONCLUSIVE}:
        if report.verdict != judged.word:
            problems.append(f"the verdict is {report.verdict}, judged again it is {judged.word}")
        if report.reasons != judged.reasons:
            problems.append("the reasons do not follow from the evidence")
    elif report.verdict not in {ABORTED, REFUSED, SKIPPED}:
        problems.append(f"the verdict is unknown: {report.verdict}")
    for name, value in concluded(report.kind, report.evidence, report.plan.objectives, judged).items():
        if getattr(report, name) != value:
            problems.append(f"{name} does not follow from the evidence")
    return problems
