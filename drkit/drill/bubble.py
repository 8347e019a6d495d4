"""A bubble: a failover of reserved topics and groups between the clusters of production, beside it.

Production's journal, lease, endpoint and fence are never touched. A real failover that begins meanwhile ends
the bubble, which then owes its cleanup.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from drkit.chaos.evidence import collect
from drkit.chaos.verdict import FAIL, INCONCLUSIVE, ScenarioVerdict, judge, negative_controls
from drkit.clock import monotonic
from drkit.config import FlowSettings, Settings
from drkit.drill.bubble_result import (
    BubbleResult,
    judge_bubble,
    measure_loss,
    measure_outages,
)
from drkit.drill.bubble_stage import BubbleStage
from drkit.drill.cleanup import clean_up_drill, topic_ids
from drkit.drill.gate import pass_gate
from drkit.drill.inventory import (
    ClusterInventory,
    InventoryItem,
    InventoryPart,
    compare_inventories,
    read_inventory,
)
from drkit.drill.judge import ABORTED, REFUSED
from drkit.drill.plan import DrillPlan
from drkit.drill.production_watch import ProductionWatch
from drkit.drill.record import SOURCE, TARGET, CleanupState, DrillRecord, DrillRecords, step_entry
from drkit.drill.settings import bubble_settings, drill_folder
from drkit.errors import DrkitError, Failed, Refused
from drkit.failover.core.request import RunRequest
from drkit.flow_state.names import CANARY_TOPIC, drills_topic, is_transactional_id_of
from drkit.flow_state.processes import this_process

Step = Callable[[], Mapping[str, Any]]
"""Returns what it found."""
Tell = Callable[[str, str], None]
"""Receives progress: a step, and ``begun`` or ``done``."""
_REASON: Final = "drill"
_REQUESTS: Final = {
    "planned": RunRequest(planned=True, clients_cut=_REASON),
    "lost": RunRequest(accept_data_loss=_REASON, without_quorum=_REASON, despite_signs_of_life=_REASON),
}
"""The request of the failover by the cut of the plan."""


def run_bubble(
    settings: Settings, flow: FlowSettings, plan: DrillPlan, tell: Tell = lambda _step, _text: None
) -> BubbleResult:
    """Run a bubble and return its result. Only a process that is killed leaves more than its record.

    :param settings: of production
    :param flow: of production
    :raises DrkitError: the drill's record cannot be read or written
    """
    return _BubbleRun(settings, flow, plan, tell).run()


@dataclass
class _BubbleRun:
    """One bubble."""

    settings: Settings
    flow: FlowSettings
    plan: DrillPlan
    tell: Tell
    before: dict[str, ClusterInventory] = field(default_factory=dict)
    checked: ScenarioVerdict | None = None

    def __post_init__(self) -> None:
        self.result = BubbleResult(plan=self.plan)
        self.record = DrillRecord(plan=self.plan, holder=this_process())
        self.records = DrillRecords(self.settings.cluster(self.flow.target), self.flow.source)
        self.bubble = bubble_settings(self.settings, self.flow, self.plan)
        self.stage = BubbleStage(
            drill_folder(self.settings, self.plan.id), settings=self.bubble, plan=self.plan
        )
        limit = self.plan.limits.seconds
        self.watch = ProductionWatch(self.settings, self.flow, limit, self.stage.abort)

    def run(self) -> BubbleResult:
        """Run the steps; CLEAN and COMPARE whatever happened, unless production fails over."""
        self.records.ensure()
        with self.watch:
            try:
                with self.stage:  # its end is the end of every process of the bubble
                    self._run_steps()
            finally:
                self._run_last(self.clean, self.compare)
            self._run_last(self.judge, always=True)
        return self.result

    def _run_steps(self) -> None:
        steps = (
            self.gate, self.inventory, self.create, self.steady,
            self.fail_over, self.clients, self.check, self.controls,
        )  # fmt: skip
        try:
            for step in steps:
                self.stage.check_aborted()
                self._run_step(step)
        except Refused as error:
            self._end(FAIL if self.record.made else REFUSED, error)
        except DrkitError as error:
            self._end(FAIL, error)

    def _end(self, verdict: str, error: DrkitError) -> None:
        """Set the verdict after an error. A process that was killed for production shows as any error."""
        aborted = self.stage.abort_reason
        verdict, reason = (ABORTED, aborted) if aborted else (verdict, error.in_short)
        self.result = replace(self.result, verdict=verdict, reasons=(reason,))

    def _run_last(self, *steps: Step, always: bool = False) -> None:
        for step in steps:
            try:
                if always or (self.record.made and not self.watch.has_run):
                    self._run_step(step)
            except DrkitError as error:
                problems = (*self.result.cleanup_problems, error.in_short)
                self.result = replace(self.result, cleanup_problems=problems)

    def _run_step(self, step: Step) -> None:
        name = _NAMES.get(step.__name__, step.__name__.upper())
        self.tell(name, "begun")
        began = monotonic()
        try:
            found = step()
        except DrkitError as error:
            self._note(step_entry(name, {"error": error.in_short}, began))
            raise
        self._note(step_entry(name, found, began))
        self.tell(name, "done")

    def _note(self, entry: Mapping[str, Any]) -> None:
        self.record = replace(self.record, steps=(*self.record.steps, entry))
        self.result = replace(self.result, steps=self.record.steps)
        self.records.put(self.record)

    # -- the steps ----------------------------------------------------------------------------------

    def gate(self) -> dict[str, Any]:
        """Check that production could fail over now and owes nothing to an earlier drill.

        :raises Refused: it could not, or a cleanup failed
        """
        return {"paid": pass_gate(self.settings, self.flow)}

    def inventory(self) -> dict[str, Any]:
        """Read the inventories, then record all that the bubble will make."""
        self.before = self._inventories()
        made = self.stage.made()
        for item in made:
            existing = self.before[item.side].items.get(InventoryPart(item.kind))
            if existing is None:
                raise Refused(
                    f"drkit cannot list what is on {item.side}",
                    where=item.side,
                    evidence=f"no answer about {item.kind}s",
                    hint="give drkit the right to describe them: drkit config check --connect",
                )
            if item.name in existing:
                raise Refused(
                    f"a {item.kind} of the drill exists",
                    where=item.side,
                    evidence=item.name,
                    hint="delete it if no other drill of this flow runs",
                )
        self.record = replace(self.record, made=made)
        self.records.put(self.record)
        return {side: {p: len(i) for p, i in each.items.items()} for side, each in self.before.items()}

    def create(self) -> dict[str, Any]:
        """Create the topics, start the replicator and the clients."""
        self.stage.create_topics()
        self._note_ids()
        self.stage.start()
        return {"topics": list(self.stage.topics), "groups": list(self.stage.groups)}

    def steady(self) -> dict[str, Any]:
        """Wait until all is copied and the groups are synced."""
        self.stage.wait_steady()
        self._note_ids()
        return {"acknowledged": self.stage.acked()}

    def fail_over(self) -> dict[str, Any]:
        """Run the failover, with the same service as production's.

        :raises Failed: it did not end as done
        """
        if self.plan.cut == "lost":
            self.stage.lose_source()
        ended = self.stage.fail_over(_REQUESTS[self.plan.cut])
        self._note_ids()
        report = ended.answer
        self.result = replace(self.result, failover=report or None)
        if ended.code != 0 or report.get("state") != "done":
            evidence = str(ended.error or report.get("state") or f"exit code {ended.code}")
            raise Failed("the failover of the bubble is not done", where=self.flow.name, evidence=evidence)
        return {"run": report["run"], "seconds_of_steps": report["seconds"]}

    def clients(self) -> dict[str, Any]:
        """Wait for the first good operation of each client on the target."""
        self.stage.wait_followed()
        return {}

    def check(self) -> dict[str, Any]:
        """Read the logs and positions of both sides, and check the history."""
        collect(self.stage)
        history = self.stage.history()
        self.checked = judge(history, [])
        self.result = replace(
            self.result,
            outages=measure_outages(history),
            loss=measure_loss(history),
            checks=tuple(self.checked.checked),
        )
        return {"events": len(history.events)}

    def controls(self) -> dict[str, Any]:
        """Put defects into the history; each must be found by its check."""
        self.result = replace(self.result, controls=negative_controls(self.stage.history(), []))
        return {"controls": dict(self.result.controls or {})}

    def clean(self) -> dict[str, Any]:
        """Delete all that the drill made."""
        self._note_ids()
        problems = clean_up_drill(self.settings, self.flow, self.records, self.record)
        if not problems:
            self.record = replace(self.record, cleanup=CleanupState.DONE)
        self.result = replace(self.result, cleanup_problems=tuple(problems))
        return {"problems": problems}

    def compare(self) -> dict[str, Any]:
        """Compare the inventories with those before the drill."""
        after = self._inventories()
        made = {side: [item for item in self.record.made if item.side == side] for side in after}
        reserved = self.plan.id, self.stage.flow.source
        compared = {
            side: compare_inventories(self.before[side], after[side], made[side], self._is_residue, reserved)
            for side in after
        }
        self.result = replace(self.result, inventory=compared)
        return {side: {"clean": each.is_clean} for side, each in compared.items()}

    def judge(self) -> dict[str, Any]:
        """Judge all that was found."""
        if self.watch.has_run and not self.result.verdict:
            self.result = replace(self.result, verdict=ABORTED, reasons=(self.stage.abort_reason,))
        if not self.result.verdict:
            checked = self.checked
            word = INCONCLUSIVE if checked is None else checked.word
            self.result = judge_bubble(self.result, word, () if checked is None else checked.reasons)
        cleanup = self.record.cleanup if self.record.made else CleanupState.DONE
        verdict, reasons = self.result.verdict, self.result.reasons
        self.record = replace(self.record, cleanup=cleanup, verdict=verdict, reasons=reasons)
        self.result = replace(self.result, cleanup_owed=cleanup is CleanupState.OWED)
        return {"verdict": verdict}

    # -- shared -------------------------------------------------------------------------------------

    def _inventories(self) -> dict[str, ClusterInventory]:
        sides = ((SOURCE, self.flow.source), (TARGET, self.flow.target))
        return {side: read_inventory(self.settings.cluster(alias)) for side, alias in sides}

    def _note_ids(self) -> None:
        for side, alias in ((SOURCE, self.flow.source), (TARGET, self.flow.target)):
            unknown = [item.name for item in self.record.on(side, "topic") if not item.topic_id]
            self.record = self.record.with_ids(side, topic_ids(self.settings.cluster(alias), unknown))
        self.records.put(self.record)

    def _is_residue(self, item: InventoryItem) -> bool:
        alias = self.stage.flow.source
        if item.part is InventoryPart.TRANSACTIONAL_ID:
            return is_transactional_id_of(alias, item.name)
        return item in {
            (InventoryPart.TOPIC, CANARY_TOPIC),
            (InventoryPart.TOPIC, drills_topic(self.flow.source, self.flow.target)),
        }


_NAMES: Final[Mapping[str, str]] = {"create": "STAGE", "fail_over": "FAILOVER"}
"""Of the methods that are not called like their steps."""
