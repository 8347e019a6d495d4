"""Judge a drill from its recorded evidence, and check the judge by defects put into the evidence. Pure.

What was not examined, or not read to its end, is `inconclusive`, never `pass`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from drkit.drill.evidence import (
    BUBBLE,
    READINESS,
    SWITCHOVER,
    TRANSLATION,
    BubbleEvidence,
    ClientOutage,
    DrillEvidence,
    MeasuredLoss,
    PlannedMove,
    ReadinessFacts,
    SeenRefusal,
    SwitchoverEvidence,
    VerdictLimits,
)
from drkit.drill.inventory import InventoryComparison
from drkit.drill.position_rows import (
    PackedPositions,
    PositionAnswer,
    PositionEvidence,
    RecordDigest,
    RecordWindow,
    judge_position,
)
from drkit.exercise.verdict import FAIL, INCONCLUSIVE, PASS
from drkit.status.pair.model import PairState

ABORTED, REFUSED, SKIPPED = "aborted", "refused", "skipped"
"""Verdicts of drills that were not run to their ends; a skipped one was not to run at that time."""
_WORDS: Final[Mapping[PositionAnswer, str]] = {
    PositionAnswer.SAME: PASS,
    PositionAnswer.AT_END: PASS,
    PositionAnswer.BEHIND: PASS,
    PositionAnswer.DIFFERS: FAIL,
    PositionAnswer.NO_POSITION: FAIL,
    PositionAnswer.NO_MARK: FAIL,
    PositionAnswer.NOT_COPIED: INCONCLUSIVE,
    PositionAnswer.NOT_DISTINGUISHABLE: INCONCLUSIVE,
    PositionAnswer.UNKNOWN: INCONCLUSIVE,
}
"""The verdict on a position by its answer."""
_CONTROLLED: Final = 100
"""Rows into which each defect is put; they are spread over all rows."""


class DrillVerdict(NamedTuple):
    """The verdict of a drill."""

    word: str
    """``pass``, ``fail`` or ``inconclusive``."""
    reasons: tuple[str, ...] = ()
    """The pieces that failed, or what is missing."""
    controls: Mapping[str, bool | None] = {}
    """Defect → whether the judge finds it, or None if the evidence cannot contain it."""


def judge(kind: str, evidence: DrillEvidence, objectives: VerdictLimits) -> DrillVerdict:
    """Return the verdict of a drill, with its negative controls.

    :param kind: a key of :data:`JUDGES`
    """
    verdict = _judge(kind, evidence, objectives)
    controls = _controls(kind, evidence, objectives)
    missed = tuple(
        f"a defect put into the evidence is not found: {n}" for n, f in controls.items() if f is False
    )
    if missed and verdict.word == PASS:
        verdict = DrillVerdict(INCONCLUSIVE, missed)
    return verdict._replace(controls=controls)


def _judge(kind: str, evidence: DrillEvidence, objectives: VerdictLimits) -> DrillVerdict:
    found = tuple(JUDGES[kind](evidence, objectives))
    if failures := tuple(text for is_failure, text in found if is_failure):
        return DrillVerdict(FAIL, failures)
    return DrillVerdict(INCONCLUSIVE if found else PASS, tuple(text for _, text in found))


Findings = Iterator[tuple[bool, str]]
"""True for a failure, False for something that is missing; and the piece with the reason."""


def _judge_translation(evidence: DrillEvidence, objectives: VerdictLimits) -> Findings:
    if not evidence.positions.rows:
        yield False, "no group has a position in a copied topic"
    for row, word, answer, reason in judged_rows(evidence, objectives):
        if word != PASS:
            yield word == FAIL, f"{row.name}: {answer}: {reason}"


def judged_rows(
    evidence: DrillEvidence, objectives: VerdictLimits
) -> Iterator[tuple[PositionEvidence, str, PositionAnswer, str]]:
    """Return each position with the verdict on it, its answer, and the reason."""
    limit = objectives.behind_seconds
    for row, (answer, reason) in zip(evidence.positions.unpacked, evidence.answers, strict=True):
        age = row.mark_age_seconds
        if answer is PositionAnswer.BEHIND and limit is not None and age is not None and age > limit:
            yield row, FAIL, answer, f"{reason}, stored {age:.0f} s ago"
        else:
            yield row, _WORDS[answer], answer, reason


def _judge_readiness(evidence: DrillEvidence, objectives: VerdictLimits) -> Findings:
    facts = evidence.readiness
    if facts is None:
        yield False, "the readiness of the pair was not read"
        return
    yield from ((False, text) for text in facts.unknown)
    for refusal in facts.refusals:
        page = f" (drkit explain {refusal.gate})" if refusal.runbook else ""
        yield True, f"a failover is refused: {refusal.text}{page}"
    yield from _judge_pair(facts)
    yield from ((True, f"group {group} is not ready: {reason}") for group, reason in facts.not_ready)
    limit = objectives.rpo_seconds
    if limit is not None and facts.loss_seconds is None:
        yield False, f"the loss of a failover is unknown: {facts.loss_basis}"
    elif limit is not None and (facts.loss_seconds or 0) > limit:
        yield True, f"a failover would lose {facts.loss_seconds:.1f} s, rpo_seconds = {limit:g}"


def _judge_bubble(evidence: DrillEvidence, objectives: VerdictLimits) -> Findings:
    bubble, limit = evidence.bubble or BubbleEvidence(), objectives.rpo_seconds
    if bubble.error:
        yield True, bubble.error
        return
    yield from ((False, each) for each in bubble.missing)
    if bubble.steps is None:
        yield False, "the failover of the drill is not done"
    if not any(each.examined for each in bubble.checks):
        yield False, "no check examined anything"
    yield from _judge_clients(bubble, objectives)
    for operation in sorted({"consume", "produce"} - {outage.operation for outage in bubble.outages}):
        yield False, f"no client resumed to {operation}"
    if bubble.loss is None:
        yield False, "the loss is unknown: a log of the target was not read"
    elif limit is not None and bubble.loss.seconds > limit:
        yield True, f"{bubble.loss.seconds:g} s of records are lost, rpo_seconds = {limit:g}"
    yield from ((True, f"not cleaned up: {problem}") for problem in bubble.cleanup_problems)
    if (bubble.inventory or {}).keys() != {"source", "target"}:
        yield False, "the inventories were not compared"
    for side, compared in (bubble.inventory or {}).items():
        yield from ((True, f"left on the {side}: {item}") for item in compared.ours_left)
        yield from ((False, f"unknown on the {side}: {part}") for part in compared.unknown)
    if not bubble.controls:
        yield False, "no control was run"


def _judge_clients(ran: BubbleEvidence | SwitchoverEvidence, objectives: VerdictLimits) -> Findings:
    """Judge the checks of a failover, and the outages of its clients."""
    limit = objectives.rto_seconds
    yield from ((True, f"{c.name}: {offence}") for c in ran.checks for offence in c.offences)
    for outage in ran.outages:
        if not outage.seconds >= 0:  # NaN, too
            yield False, f"the outage of {outage.client} is unknown: {outage.seconds} s"
        elif limit is not None and outage.seconds > limit:
            problem = f"{outage.client} could not {outage.operation} for {outage.seconds:g} s"
            yield True, f"{problem}, rto_seconds = {limit:g}"


def _judge_pair(seen: ReadinessFacts | SwitchoverEvidence) -> Findings:
    if seen.pair_state != PairState.PROTECTED:
        yield seen.pair_state != PairState.UNKNOWN, f"the pair is {seen.pair_state}: {seen.pair_reason}"


def _judge_switchover(evidence: DrillEvidence, objectives: VerdictLimits) -> Findings:
    moved = evidence.switchover or SwitchoverEvidence()
    if moved.error:
        command = f"; continue: {moved.next_command}" if moved.next_command else ""
        yield True, moved.error + command
    elif moved.there is None or (moved.home is None and not moved.stays):
        yield True, "production was not moved" + (" home" if moved.there is not None else "")
    for move in (each for each in moved.moves if each.lost_records != 0):
        lost = "unknown" if move.lost_records is None else f"{move.lost_records:,}"
        yield move.lost_records is not None, f"records lost by {move.flow}: {lost}"
    yield from _judge_clients(moved, objectives)
    if not moved.error:
        yield from _judge_pair(moved)
        if not moved.outages and not moved.silent:
            yield False, "no group committed before the switchover: no outage was measured"


JUDGES: Final[Mapping[str, Callable[[DrillEvidence, VerdictLimits], Findings]]] = {
    READINESS: _judge_readiness,
    TRANSLATION: _judge_translation,
    BUBBLE: _judge_bubble,
    SWITCHOVER: _judge_switchover,
}


def _controls(kind: str, evidence: DrillEvidence, objectives: VerdictLimits) -> dict[str, bool | None]:
    """Judge the evidence with one defect each; return by the defect's name whether it is found."""
    if kind == TRANSLATION:
        return _control_positions(evidence, objectives)
    found: dict[str, bool | None] = {**((evidence.bubble and evidence.bubble.controls) or {})}
    recorded = getattr(evidence, kind) or _EMPTY[kind]
    if kind != READINESS:
        recorded = replace(recorded, error="")  # the defect has to be found, not the error
    for kinds, name, change in _DEFECTS:
        limit = getattr(objectives, name.rpartition(" ")[2], 0.0)
        if kind in kinds and limit is not None:
            defective = DrillEvidence(**{kind: replace(recorded, **change(recorded, limit))})
            found[name] = _judge(kind, defective, objectives).word == FAIL
    return found


def _control_positions(evidence: DrillEvidence, objectives: VerdictLimits) -> dict[str, bool | None]:
    # An odd step: rows are sorted by group, partition and form, so an even one would take one form only.
    rows = evidence.positions.unpacked[:: len(evidence.positions.rows) // _CONTROLLED | 1]
    read = [(row, row.source, row.target) for row in rows if _WORDS[judge_position(row)[0]] == PASS]
    clean = [(row, here, there) for row, here, there in read if here is not None and there is not None]
    found: dict[str, bool | None] = {}
    for name, defect in POSITION_DEFECTS.items():
        altered = [PackedPositions.of((row,)) for each in clean if (row := defect(*each)) is not None]
        words = {_judge(TRANSLATION, DrillEvidence(packed), objectives).word for packed in altered}
        found[name] = words == {FAIL} if words else None
    return found


def _moved(e: SwitchoverEvidence, **change: Any) -> dict[str, Any]:
    return {"there": (e.there or PlannedMove("control", 0.0, {}, 0, 1))._replace(**change)}


def _slow(e: BubbleEvidence | SwitchoverEvidence, limit: float) -> dict[str, Any]:
    return {"outages": (*e.outages, ClientOutage("control", "work", 0.0, limit + 1))}


_EMPTY: Final[Mapping[str, Any]] = {
    READINESS: ReadinessFacts(PairState.PROTECTED),
    BUBBLE: BubbleEvidence(),
    SWITCHOVER: SwitchoverEvidence(),
}
"""The evidence into which defects are put where the drill recorded none."""
_REFUSAL: Final = SeenRefusal("control", "", "a refusal put in")
_LEFT: Final = InventoryComparison(ours_left=("topic put-in",))
_GROUP: Final = ("control", "put in")
_DEFECTS: Final[Sequence[tuple[Sequence[str], str, Callable[[Any, float], dict[str, Any]]]]] = (
    ([READINESS], "a refusal", lambda *_: {"refusals": (_REFUSAL,)}),
    ([BUBBLE], "a topic left behind", lambda *_: {"inventory": {"source": _LEFT}}),
    ([SWITCHOVER], "a lost record", lambda e, _: _moved(e, lost_records=1)),
    ([SWITCHOVER], "a group without a position", lambda e, _: _moved(e, not_moved={"control": "put in"})),
    ([SWITCHOVER], "a group that did not follow", lambda e, _: {"silent": (*e.silent, _GROUP)}),
    ([SWITCHOVER], "production left on the target", lambda *_: {"home": None, "stays": False}),
    ([READINESS, SWITCHOVER], "an unprotected pair", lambda *_: {"pair_state": PairState.UNPROTECTED}),
    ([READINESS], "a group without a position", lambda *_: {"not_ready": (_GROUP,)}),
    ([BUBBLE, SWITCHOVER], "an outage above rto_seconds", _slow),
    ([BUBBLE], "a loss above rpo_seconds", lambda _, limit: {"loss": MeasuredLoss(1, limit + 1)}),
    ([READINESS], "a loss above rpo_seconds", lambda _, limit: {"loss_seconds": limit + 1}),
)
"""Kinds of drills, a defect, and the fields that it changes. One that ends with a limit needs the limit."""
_Records = tuple[RecordDigest, ...]
_Defect = Callable[[PositionEvidence, RecordWindow, RecordWindow], PositionEvidence | None]
"""Puts the defect into a position with its windows on source and target; returns None if it does not fit."""


def _one_later(row: PositionEvidence, _: RecordWindow, target: RecordWindow) -> PositionEvidence | None:
    if row.target_log is None or row.downstream is None:
        return None
    if not target.records:
        return row._replace(downstream=row.target_log[1] + 1)
    later = target._replace(records=target.records[1:])
    return row._replace(target=later, downstream=row.downstream + 1)


def _one_earlier(row: PositionEvidence, source: RecordWindow, _: RecordWindow) -> PositionEvidence | None:
    """Give the target one record more before those of the source."""
    if not source.records:
        foreign = RecordDigest(row.downstream or 0, "")
        return row._replace(target=RecordWindow((foreign,), at_end=True))
    return row._replace(source=source._replace(records=source.records[1:]))


def _changed(change: Callable[[_Records, int], _Records]) -> _Defect:
    """Return a defect at the first two neighbours with different contents among the records of both sides."""

    def defect(row: PositionEvidence, source: RecordWindow, target: RecordWindow) -> PositionEvidence | None:
        records = target.records
        shared = range(min(len(records), len(source.records)) - 1)
        i = next((i for i in shared if records[i].digest != records[i + 1].digest), None)
        return None if i is None else row._replace(target=target._replace(records=change(records, i)))

    return defect


POSITION_DEFECTS: Final[Mapping[str, _Defect]] = {
    "a position one later": _one_later,
    "a position one earlier": _one_earlier,
    "a record dropped": _changed(lambda records, i: records[:i] + records[i + 1 :]),
    "a record repeated": _changed(lambda records, i: records[: i + 1] + records[i:]),
    "two records swapped": _changed(lambda r, i: (*r[:i], r[i + 1], r[i], *r[i + 2 :])),
}
