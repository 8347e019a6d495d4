"""A bubble: a failover of reserved topics and groups between the clusters of production, beside it.

Production's journal, lease, endpoint and fence are never touched. A real failover that begins meanwhile ends
the bubble, whose cleanup is then pending.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from drkit.counted import counted, first_of
from drkit.drill.entry import SOURCE, TARGET
from drkit.drill.evidence import BubbleEvidence, DrillEvidence, measure_loss, measure_outages
from drkit.drill.history import clean_up, delete_made, topic_ids
from drkit.drill.inventory import (
    ClusterInventory,
    InventoryItem,
    InventoryPart,
    compare_inventories,
    read_inventory,
    scope_of,
)
from drkit.drill.judge import ABORTED, REFUSED, SKIPPED, DrillVerdict
from drkit.drill.plan import bubble_settings, drill_folder
from drkit.drill.stage import BubbleStage, are_refused, is_foreign_record_named, writers_of
from drkit.drill.steps import CollectedEvidence, DrillRun, SteppedDrill, refuse_unprotected
from drkit.drill.watches import ProductionLossSampler, ProductionWatch
from drkit.errors import DrkitError, Failed, Refused
from drkit.exercise.evidence import collect
from drkit.exercise.verdict import INCONCLUSIVE, judge, negative_controls
from drkit.failover.core.request import RunRequest
from drkit.failover.fencing.own_writers import Writers
from drkit.failover.service import FailoverService
from drkit.flow_state.names import CANARY_TOPIC, drills_topic, is_transactional_id_of
from drkit.journal.machine import FAILOVER
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import broker_config
from drkit.status.readiness_look import read_disks

_REASON: Final = "drill"
_REQUESTS: Final = {
    "planned": RunRequest(planned=True, clients_cut=_REASON),
    "lost": RunRequest(accept_data_loss=_REASON, without_quorum=_REASON, despite_signs_of_life=_REASON),
}
"""The request of the failover by the cut of the plan."""
_PAUSED: Final = "failover-paused"
_SKIPPED_BY: Final = "failovers_paused"
"""The error while no drill is to run either."""
_DELETABLE: Final = "delete.topic.enable"


class Bubble(SteppedDrill):
    """A drill of kind ``bubble``. Only a process that is killed leaves more than its entry."""

    _evidence = BubbleEvidence()

    def __init__(self, run: DrillRun) -> None:
        super().__init__(run)
        self._history, self._entry = run.history, run.entry
        source, target = run.settings.sides(run.flow)
        self._sides = {SOURCE: source, TARGET: target}
        bubble = bubble_settings(run.settings, run.flow, run.plan)
        self._stage = BubbleStage(drill_folder(run.settings, run.plan.id), settings=bubble, plan=run.plan)
        self._watch = ProductionWatch(run, self._stage.abort)
        self._sampler = ProductionLossSampler(run, self._stage.abort)
        self._before: dict[str, ClusterInventory] = {}
        self._verdict: DrillVerdict | None = None
        self._writers: Writers = {}

    def collect(self) -> CollectedEvidence:
        """Run the steps; CLEAN and COMPARE whatever happened, unless production fails over."""
        with self._watch, self._sampler:
            try:
                with self._stage:  # its end is the end of every process of the bubble
                    self._rehearse()
            finally:
                self._run_last(self.clean, self.compare)
        if self._watch.has_run and self._verdict is None:
            self._verdict = DrillVerdict(ABORTED, (self._stage.abort_reason,))
        topics = sum(self._plan.id in item.name for item in self._entry.on(SOURCE, "topic"))
        groups, evidence = len(self._entry.on(SOURCE, "group")), DrillEvidence(bubble=self._evidence)
        return CollectedEvidence(
            evidence, topics, groups=groups, steps=tuple(self._steps), ended=self._verdict
        )

    def _rehearse(self) -> None:
        prepare = (self.gate, self.inventory, self.create, self.steady)
        try:
            self._stage.check_aborted()
            for step in (*prepare, self.failover, self.clients, self.check, self.controls):
                self._run(step)
                self._watch.look()
                self._stage.check_aborted()
        except DrkitError as error:
            self._watch.look()  # a failover that began is the reason, whatever noticed it first
            # A process that was killed, for production or by others, shows as any error.
            if self._stage.is_aborted():
                self._verdict = DrillVerdict(ABORTED, (self._stage.abort_reason,))
            elif not self._entry.made:
                is_refused, is_skipped = isinstance(error, Refused), error.code == _SKIPPED_BY
                word = SKIPPED if is_skipped else REFUSED if is_refused else ABORTED
                self._verdict = DrillVerdict(word, (error.in_short,))
            else:
                self._note(error=error.in_short)

    def _run_last(self, *steps: Callable[[], str]) -> None:
        for step in steps:
            try:
                if self._entry.made and not self._watch.has_run:
                    self._run(step)
            except DrkitError as error:
                self._note(cleanup_problems=(*self._evidence.cleanup_problems, error.in_short))

    def gate(self) -> str:
        """Clean up after earlier drills; check that production could fail over and a drill be deleted."""
        self._stage.choose_groups()
        where = self._flow.name
        cleaned = clean_up(self._settings, self._flow, self._history)
        for problem in (problem for problems in cleaned.values() for problem in problems):
            raise Refused("drill_cleanup_owed", where=where, evidence=problem)
        with FailoverService(self._settings, self._flow) as service:
            rehearsal = service.rehearse([], _REQUESTS["planned"])
        for gate, refusal in rehearsal.refusals:
            if gate != _PAUSED:
                raise refusal
            hint = "resume them, then run the drill: drkit watch resume"
            raise Refused(_SKIPPED_BY, where=where, evidence=refusal.in_short, hint=hint)
        refuse_unprotected(self._settings, self._flow)
        for cluster in self._sides.values():
            deletable = broker_config(Cluster.connect(cluster)).get(_DELETABLE)
            if deletable is not None and deletable.value == "false":
                evidence = f"{_DELETABLE} = false"
                raise Refused("drill_topics_not_deleted", where=cluster.alias, evidence=evidence)
        state = f"cleaned up {first_of(sorted(cleaned))}" if cleaned else "production could fail over"
        return f"{state}, {self._refuse_no_room()}"

    def _refuse_no_room(self) -> str:
        """Check that each broker of the standby has room for all that the limits allow; return the least."""
        # At most one replica of a partition is on a broker, so none gets more than all records.
        most = round(self._plan.limits.bytes_per_second * self._plan.limits.seconds)
        disks = sorted(read_disks(self._sides[TARGET]) or (), key=lambda disk: disk.free)
        if not disks:
            return "room on the standby unknown"
        room = {disk.broker: disk.free for disk in disks}  # the largest disk of each broker is its last one
        broker, free = min(room.items(), key=lambda item: item[1])
        if free < most:
            where = f"broker {broker} of {self._flow.target}"
            evidence = f"{free:,} bytes are free, it may write {most:,}"
            raise Refused("drill_no_room", where=where, evidence=evidence)
        return f"{free / 1e9:,.1f} GB free on the standby"

    def inventory(self) -> str:
        """Read the inventories, then record all that the bubble will make."""
        self._before = self._inventories()
        made = self._stage.made()
        for side, kind, name, _ in made:
            existing = self._before[side].items.get(InventoryPart(kind))
            if existing is None:
                evidence = f"no answer about {kind}s"
                raise Refused("drill_list_refused", where=side, evidence=evidence, side=side)
            if name in existing:
                raise Refused("drill_leftover", where=side, evidence=name, kind=kind)
        self._keep(made=made, cleanup_owed=True)
        self._note(scope=scope_of(self._before, self._settings))
        return ", ".join(f"{sum(map(len, each.items.values()))} on {s}" for s, each in self._before.items())

    def create(self) -> str:
        """Create the topics, start the replicator and the clients."""
        self._stage.create_topics()
        self._note_ids()
        self._stage.start()
        self._note(is_application=bool(self._plan.client))
        return f"{counted(len(self._stage.topics), 'topic')}, {counted(len(self._stage.groups), 'group')}"

    def steady(self) -> str:
        """Wait until all is copied and the groups are synced."""
        self._stage.wait_steady()
        self._writers = writers_of(self._stage)
        self._note_ids()
        return f"{counted(self._stage.acked(), 'record')} acknowledged, all copied"

    def failover(self) -> str:
        """Run the failover, with the same service as production's."""
        if self._plan.cut == "lost":
            self._stage.lose_source()
        ended = self._stage.fail_over(_REQUESTS[self._plan.cut])
        self._note_ids()
        report = ended.answer
        if ended.code != 0 or report.get("state") != "done":
            evidence = str(ended.error or report.get("state") or f"exit code {ended.code}")
            raise Failed("drill_failover_not_done", where=self._flow.name, evidence=evidence)
        self._note(steps={step: report["seconds"].get(step, 0.0) for step in FAILOVER.order})
        return f"run {report['run']}"

    def clients(self) -> str:
        """Wait for the first good operation of each client on the target."""
        self._stage.wait_followed()
        return "every client works on the target"

    def check(self) -> str:
        """Read the logs and positions of both sides, and check the history."""
        collect(self._stage)
        history = self._stage.history()
        checked = judge(history, [])
        self._note(
            outages=measure_outages(history),
            production=self._sampler.found(),
            loss=measure_loss(history),
            checks=tuple(checked.checked),
            missing=tuple(checked.reasons) if checked.word == INCONCLUSIVE else (),
        )
        return f"{counted(len(history.events), 'event')}, {len(checked.checked)} checks"

    def controls(self) -> str:
        """Put defects into the history and on the target; each must be found by its check, or refused."""
        controls = negative_controls(self._stage.history()) | {
            "an append in an older epoch": are_refused(self._stage, self._writers),
            "a foreign record in the copy": is_foreign_record_named(self._stage),
        }
        self._note(controls=controls)
        return f"{sum(controls.values())} of {counted(len(controls), 'defect')} found"

    def clean(self) -> str:
        """Delete all that the drill made."""
        # Not written first: a full disk does not keep what the drill made from being deleted.
        self._learn_ids()
        problems = delete_made(self._settings, self._flow, self._entry)
        self._note(cleanup_problems=tuple(problems))
        self._keep(cleanup_owed=bool(problems))
        return "; ".join(problems) or f"{len(self._entry.made)} items deleted"

    def compare(self) -> str:
        """Compare the inventories with those before the drill."""
        reserved = self._plan.id, self._stage.flow.source
        compared = {}
        for side, after in self._inventories().items():
            made = [item for item in self._entry.made if item.side == side]
            compared[side] = compare_inventories(self._before[side], after, made, self._is_residue, reserved)
        self._note(inventory=compared)
        is_clean = all(each.is_clean for each in compared.values())
        return "nothing of the drill is left" if is_clean else "something of the drill is left or unknown"

    def _inventories(self) -> dict[str, ClusterInventory]:
        return {side: read_inventory(cluster) for side, cluster in self._sides.items()}

    def _note_ids(self) -> None:
        self._learn_ids()
        self._keep()

    def _learn_ids(self) -> None:
        for side, cluster in self._sides.items():
            unknown = [item.name for item in self._entry.on(side, "topic") if not item.topic_id]
            self._entry = self._entry.with_ids(side, topic_ids(cluster, unknown))

    def _keep(self, **changed: Any) -> None:
        self._entry = self._entry.model_copy(update=changed)
        self._history.put(self._entry, everywhere=True)

    def _is_residue(self, item: InventoryItem) -> bool:
        if item.part is InventoryPart.TRANSACTIONAL_ID:
            return is_transactional_id_of(self._stage.flow.source, item.name)
        topics = {CANARY_TOPIC, drills_topic(self._flow.source, self._flow.target)}
        return item.part is InventoryPart.TOPIC and item.name in topics
