"""A bubble: a failover of reserved topics and groups between the clusters of production, beside it.

Production's journal, lease, endpoint and fence are never touched. A real failover that begins meanwhile ends
the bubble, which then owes its cleanup.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
import threading
from typing import Any, Final, NamedTuple

from drkit.chaos.evidence import collect
from drkit.chaos.verdict import INCONCLUSIVE, judge, negative_controls
from drkit.config import FlowSettings, Settings
from drkit.counted import counted, first_of
from drkit.drill.entry import SOURCE, TARGET, DrillEntry, MadeItem
from drkit.drill.evidence import BubbleEvidence, measure_loss, measure_outages
from drkit.drill.history import DrillHistory, clean_up, delete_made, topic_ids
from drkit.drill.inventory import (
    ClusterInventory,
    InventoryItem,
    InventoryPart,
    compare_inventories,
    read_inventory,
    scope_of,
)
from drkit.drill.judge import ABORTED, REFUSED, SKIPPED, DrillVerdict
from drkit.drill.plan import DrillPlan, bubble_settings, drill_folder
from drkit.drill.readiness import refuse_unprotected
from drkit.drill.report import SILENT, DrillProgress, DrillSteps, Step, StepReport
from drkit.drill.stage import BubbleStage, live_controls
from drkit.drill.watches import ProductionLossSampler, ProductionWatch
from drkit.errors import DrkitError, Failed, Refused
from drkit.failover.core.machine import FAILOVER
from drkit.failover.core.request import RunRequest
from drkit.failover.service import FailoverService
from drkit.flow_state.names import CANARY_TOPIC, drills_topic, is_transactional_id_of
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import broker_config
from drkit.status.readiness_look import read_disks

_REASON: Final = "drill"
_PAUSED: Final = "failover-paused"
_DELETABLE: Final = "delete.topic.enable"


class DrillSkipped(Refused):
    """Failovers are paused, so that no drill is to run either."""


def pass_gate(settings: Settings, flow: FlowSettings, history: DrillHistory) -> list[str]:
    """Clean up after earlier drills, check that production could fail over; return the drills cleaned up.

    :param settings: of production
    :param flow: of production
    :raises DrillSkipped: failovers are paused
    :raises Refused: a cleanup failed, or production could not fail over
    :raises DrkitError: a cluster does not answer
    """
    cleaned = clean_up(settings, flow, history)
    for problem in (problem for problems in cleaned.values() for problem in problems):
        raise Refused("drill_cleanup_owed", where=flow.name, evidence=problem)
    with FailoverService(settings, flow) as service:
        rehearsal = service.rehearse([], RunRequest(planned=True, clients_cut=_REASON))
    for gate, refusal in rehearsal.refusals:
        if gate == _PAUSED:
            hint = "resume them, then run the drill: drkit watch resume"
            raise DrillSkipped("failovers_paused", where=flow.name, evidence=refusal.in_short, hint=hint)
        raise refusal
    refuse_unprotected(settings, flow)
    for alias in (flow.source, flow.target):
        deletable = broker_config(Cluster.connect(settings.cluster(alias))).get(_DELETABLE)
        if deletable is not None and deletable.value == "false":
            raise Refused("drill_topics_not_deleted", where=alias, evidence=f"{_DELETABLE} = false")
    return sorted(cleaned)


def refuse_no_room(settings: Settings, flow: FlowSettings, plan: DrillPlan) -> str:
    """Check that each broker of the standby has room for all that a bubble may write; return the least.

    A broker has at most one replica of a partition, so no broker gets more than the limits of the plan allow.

    :raises Refused: a broker has less
    :raises DrkitError: the standby does not answer
    """
    most = round(plan.limits.bytes_per_second * plan.limits.seconds)
    room: dict[int, int] = {}
    for disk in read_disks(settings.cluster(flow.target)) or ():
        room[disk.broker] = max(room.get(disk.broker, 0), disk.free)
    for broker, free in room.items():
        if free < most:
            where, evidence = (
                f"broker {broker} of {flow.target}",
                f"{free:,} bytes are free, it may write {most:,}",
            )
            raise Refused("drill_no_room", where=where, evidence=evidence)
    return (
        f"{min(room.values()) / 1e9:,.1f} GB free on the standby" if room else "room on the standby unknown"
    )


def refuse_existing(inventory: ClusterInventory, made: Iterable[MadeItem]) -> None:
    """Refuse if a cluster has what a drill is about to make, or does not say.

    :param made: on this cluster
    :raises Refused: it has, or does not
    """
    for item in made:
        existing = inventory.items.get(InventoryPart(item.kind))
        if existing is None:
            raise Refused(
                "drill_list_refused",
                where=item.side,
                evidence=f"no answer about {item.kind}s",
                side=item.side,
            )
        if item.name in existing:
            raise Refused("drill_leftover", where=item.side, evidence=item.name, kind=item.kind)


_REQUESTS: Final = {
    "planned": RunRequest(planned=True, clients_cut=_REASON),
    "lost": RunRequest(accept_data_loss=_REASON, without_quorum=_REASON, despite_signs_of_life=_REASON),
}
"""The request of the failover by the cut of the plan."""
_NEVER: Final = threading.Event()


class BubbleResult(NamedTuple):
    """The result of a bubble."""

    evidence: BubbleEvidence
    steps: tuple[StepReport, ...]
    ended: DrillVerdict | None
    """Its verdict if it was aborted or refused; None: the evidence is judged."""
    entry: DrillEntry
    """As it is in the history, but for the verdict."""


def run_bubble(
    settings: Settings,
    flow: FlowSettings,
    plan: DrillPlan,
    history: DrillHistory,
    entry: DrillEntry,
    *,
    progress: DrillProgress = SILENT,
    ended: threading.Event = _NEVER,
) -> BubbleResult:
    """Run a bubble and return its result. Only a process that is killed leaves more than its entry.

    :param settings: of production, as is `flow`
    :param entry: of this drill, which the history has
    :param ended: ends the bubble when it is set
    :raises DrkitError: the entry cannot be written
    """
    return _BubbleRun(settings, flow, plan, history, entry, steps=DrillSteps(progress), ended=ended).run()


@dataclass
class _BubbleRun:
    """One bubble."""

    settings: Settings
    flow: FlowSettings
    plan: DrillPlan
    history: DrillHistory
    entry: DrillEntry
    steps: DrillSteps
    ended: threading.Event
    before: dict[str, ClusterInventory] = field(default_factory=dict)
    evidence: BubbleEvidence = field(default_factory=BubbleEvidence)
    verdict: DrillVerdict | None = None

    def __post_init__(self) -> None:
        source, target = self.settings.sides(self.flow)
        self.sides = {SOURCE: source, TARGET: target}
        bubble = bubble_settings(self.settings, self.flow, self.plan)
        self.stage = BubbleStage(drill_folder(self.settings, self.plan.id), settings=bubble, plan=self.plan)
        limit = self.plan.limits.seconds
        self.watch = ProductionWatch(self.settings, self.flow, limit, self.stage.abort, self.ended)
        most = self.plan.limits.production_lag
        self.sampler = ProductionLossSampler(self.settings, self.flow, most, self.stage.abort)

    def run(self) -> BubbleResult:
        """Run the steps; CLEAN and COMPARE whatever happened, unless production fails over."""
        with self.watch, self.sampler:
            try:
                with self.stage:  # its end is the end of every process of the bubble
                    self._run_steps()
            finally:
                self._run_last(self.clean, self.compare)
        if self.watch.has_run and self.verdict is None:
            self.verdict = DrillVerdict(ABORTED, (self.stage.abort_reason,))
        return BubbleResult(self.evidence, tuple(self.steps.ended), self.verdict, self.entry)

    def _run_steps(self) -> None:
        prepare = (self.gate, self.inventory, self.create, self.steady)
        rehearse = (self.failover, self.clients, self.check, self.controls)
        try:
            self.stage.check_aborted()
            for step in prepare + rehearse:
                self.steps.run(step)
                self.watch.refresh()
                self.stage.check_aborted()
        except DrkitError as error:
            self.watch.refresh()  # a failover that began is the reason, whatever noticed it first
            # A process that was killed, for production or by others, shows as any error.
            if self.stage.is_aborted():
                self.verdict = DrillVerdict(ABORTED, (self.stage.abort_reason,))
            elif not self.entry.made:
                self.verdict = DrillVerdict(_word(error), (error.in_short,))
            else:
                self._found(error=error.in_short)

    def _run_last(self, *steps: Step) -> None:
        for step in steps:
            try:
                if self.entry.made and not self.watch.has_run:
                    self.steps.run(step)
            except DrkitError as error:
                self._found(cleanup_problems=(*self.evidence.cleanup_problems, error.in_short))

    def _found(self, **evidence: Any) -> None:
        self.evidence = replace(self.evidence, **evidence)

    # -- the steps ----------------------------------------------------------------------------------

    def gate(self) -> str:
        """Check that production could fail over now and owes nothing to an earlier drill.

        :raises Refused: it could not, a cleanup failed, or the standby has no room
        """
        self.stage.choose_groups()
        cleaned = pass_gate(self.settings, self.flow, self.history)
        room = refuse_no_room(self.settings, self.flow, self.plan)
        return f"{f'cleaned up {first_of(cleaned)}' if cleaned else 'production could fail over'}, {room}"

    def inventory(self) -> str:
        """Read the inventories, then record all that the bubble will make."""
        self.before = self._inventories()
        made = self.stage.made()
        for side, inventory in self.before.items():
            refuse_existing(inventory, [item for item in made if item.side == side])
        self._keep(made=made, cleanup_owed=True)
        self._found(scope=scope_of(self.before, self.settings))
        return ", ".join(f"{sum(map(len, each.items.values()))} on {s}" for s, each in self.before.items())

    def create(self) -> str:
        """Create the topics, start the replicator and the clients."""
        self.stage.create_topics()
        self._note_ids()
        self.stage.start()
        self._found(is_application=bool(self.plan.client))
        return f"{counted(len(self.stage.topics), 'topic')}, {counted(len(self.stage.groups), 'group')}"

    def steady(self) -> str:
        """Wait until all is copied and the groups are synced."""
        self.stage.wait_steady()
        self._note_ids()
        return f"{counted(self.stage.acked(), 'record')} acknowledged, all copied"

    def failover(self) -> str:
        """Run the failover, with the same service as production's.

        :raises Failed: it did not end as done
        """
        if self.plan.cut == "lost":
            self.stage.lose_source()
        ended = self.stage.fail_over(_REQUESTS[self.plan.cut])
        self._note_ids()
        report = ended.answer
        if ended.code != 0 or report.get("state") != "done":
            evidence = str(ended.error or report.get("state") or f"exit code {ended.code}")
            raise Failed("drill_failover_not_done", where=self.flow.name, evidence=evidence)
        self._found(steps={step: report["seconds"].get(step, 0.0) for step in FAILOVER.order})
        return f"run {report['run']}"

    def clients(self) -> str:
        """Wait for the first good operation of each client on the target."""
        self.stage.wait_followed()
        return "every client works on the target"

    def check(self) -> str:
        """Read the logs and positions of both sides, and check the history."""
        collect(self.stage)
        history = self.stage.history()
        checked = judge(history, [])
        self._found(
            outages=measure_outages(history),
            production=self.sampler.found(),
            loss=measure_loss(history),
            checks=tuple(checked.checked),
            missing=tuple(checked.reasons) if checked.word == INCONCLUSIVE else (),
        )
        return f"{counted(len(history.events), 'event')}, {len(checked.checked)} checks"

    def controls(self) -> str:
        """Put defects into the history and on the target; each must be found by its check, or refused."""
        controls = {**negative_controls(self.stage.history()), **live_controls(self.stage)}
        self._found(controls=controls)
        return f"{sum(controls.values())} of {counted(len(controls), 'defect')} found"

    def clean(self) -> str:
        """Delete all that the drill made."""
        # Not written first: a full disk does not keep what the drill made from being deleted.
        self._learn_ids()
        problems = delete_made(self.settings, self.flow, self.entry.made)
        self._found(cleanup_problems=tuple(problems))
        self._keep(cleanup_owed=bool(problems))
        return "; ".join(problems) or f"{len(self.entry.made)} items deleted"

    def compare(self) -> str:
        """Compare the inventories with those before the drill."""
        after = self._inventories()
        made = {side: [item for item in self.entry.made if item.side == side] for side in after}
        reserved = self.plan.id, self.stage.flow.source
        compared = {
            side: compare_inventories(self.before[side], after[side], made[side], self._is_residue, reserved)
            for side in after
        }
        self._found(inventory=compared)
        is_clean = all(each.is_clean for each in compared.values())
        return "nothing of the drill is left" if is_clean else "something of the drill is left or unknown"

    # -- shared -------------------------------------------------------------------------------------

    def _inventories(self) -> dict[str, ClusterInventory]:
        return {side: read_inventory(cluster) for side, cluster in self.sides.items()}

    def _note_ids(self) -> None:
        self._learn_ids()
        self._keep()

    def _learn_ids(self) -> None:
        for side, cluster in self.sides.items():
            unknown = [item.name for item in self.entry.on(side, "topic") if not item.topic_id]
            self.entry = self.entry.with_ids(side, topic_ids(cluster, unknown))

    def _keep(self, **changed: Any) -> None:
        self.entry = self.entry.model_copy(update=changed)
        self.history.put(self.entry, everywhere=True)

    def _is_residue(self, item: InventoryItem) -> bool:
        if item.part is InventoryPart.TRANSACTIONAL_ID:
            return is_transactional_id_of(self.stage.flow.source, item.name)
        topics = {CANARY_TOPIC, drills_topic(self.flow.source, self.flow.target)}
        return item.part is InventoryPart.TOPIC and item.name in topics


def _word(error: DrkitError) -> str:
    """Return the verdict of a bubble that made nothing before an error."""
    return SKIPPED if isinstance(error, DrillSkipped) else REFUSED if isinstance(error, Refused) else ABORTED
