"""What must hold when a failover is over: compared with what the application and the groups know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

from drkit.config import ClusterSettings
from drkit.failover.report import report_of
from drkit.flow_state.records import PendingFence, PendingLift, RoleRecord
from drkit.journal.lost import violations
from drkit.journal.machine import RunState
from drkit.model import TopicPartition
from tests.support.children import finish
from tests.support.failover.walk.stage import Scene, shown
from tests.support.flows.compare import Seen
from tests.support.flows.produce import answers, now_ms
from tests.support.stored import flow_state
from tests.support.waiting import eventually

_AFTER_THE_LAST_LOOK = frozenset({"VERIFY.result", "DONE.intent", "DONE.result"})
"""What groups commit there no report can name."""
_CLOCKS_SECONDS = 2.0
"""Between what the application calls now and what drkit does."""


def check(scene: Scene, state: RunState | None) -> None:
    """Everything, by how it ended; None: nothing was ever begun."""
    scene.heal(primary=False)
    run = scene.last_run()
    assert run is None or not violations(run), violations(run)
    if state is RunState.DONE:
        _standby_is_right(scene, report_of(run, "flow") if run else {})
        _never_both(scene)
    else:
        _primary_is_right(scene)


# -- DONE ---------------------------------------------------------------------------------------------------


def _standby_is_right(scene: Scene, report: Mapping[str, Any]) -> None:
    state = flow_state(scene.state())
    for topic in (scene.orders, scene.pay):
        role = state.get(RoleRecord, topic)
        assert (role is not None and role.is_promoted) == (topic in scene.moving), (topic, role)
    for topic in scene.moving:
        there = scene.records(scene.target, topic)
        for partition, records in there.items():
            _no_record_is_missing(scene, report, TopicPartition(topic, partition), records)
            for group in _groups(scene, topic):
                _no_record_is_skipped(scene, report, group, TopicPartition(topic, partition), records)
    for topic in scene.moving:
        assert answers(scene.target, topic, [b"the new primary takes writes"]) == [None]


def _values(scene: Scene, cluster: ClusterSettings, topic: str) -> Counter[bytes]:
    """How often each value is there."""
    found = scene.records(cluster, topic)
    return Counter(s.value or b"" for records in found.values() for s in records)


def _groups(scene: Scene, topic: str) -> list[str]:
    return [g for g, at in scene.read.items() if any(tp.topic == topic for tp in at)]


def _no_record_is_missing(
    scene: Scene, report: Mapping[str, Any], at: TopicPartition, records: list[Seen]
) -> None:
    there = [s.value for s in records]
    acked = scene.application.of(*at)
    order = {a.value: a.offset for a in acked}
    known = [order[v] for v in dict.fromkeys(there) if v in order]
    assert known == sorted(known), f"{at}: out of order"
    loss = report["loss"]
    [stated] = [p for p in loss["partitions"] if (p["topic"], p["partition"]) == at]
    missing = [a for a in acked if a.value not in set(there)]
    unsaid = [a for a in missing if stated["lost_from"] is None or a.offset < stated["lost_from"]]
    assert not unsaid, f"{at}: {len(unsaid)} records missing below {stated['lost_from']}: {unsaid[:3]}"
    fenced, now = report["fence"]["proven"], report["ended_ms"] or now_ms()
    if fenced and loss["drained"]:
        assert not missing, f"{at}: nothing was to be lost, {len(missing)} are: {missing[:3]}"
    if fenced and loss["exact"]:
        assert len(missing) <= stated["records"], f"{at}: {len(missing)} lost, {stated['records']} stated"
    translated = next(e["at_ms"] for e in reversed(report["timeline"]) if e["step"] == "TRANSLATE")
    before = [a.at_ms for a in missing if a.at_ms < min(translated, now)]
    if before and loss["seconds"] is not None:
        lost = (translated - min(before)) / 1000
        assert lost <= loss["seconds"] + _CLOCKS_SECONDS, f"{at}: {lost} s lost, {loss['seconds']} s stated"


def _no_record_is_skipped(
    scene: Scene, report: Mapping[str, Any], group: str, at: TopicPartition, records: list[Seen]
) -> None:
    read = scene.read[group][at]
    kept = scene.committed(scene.target, group).get(at)
    proven = report["fence"]["proven"] and scene.pair.entry not in _AFTER_THE_LAST_LOOK
    if kept is None:
        # Nothing was known of it on the standby: then it has to be named.
        named = str(report["outside"]) + str(report["groups"])
        assert group in named or not proven, f"{group} is left, unnamed"
        return
    order = {a.value: a.offset for a in scene.application.of(*at)}
    before = [s.value for s in records if s.offset < kept.offset]
    skipped = [v for v in before if v in order and order[v] >= read]
    assert not skipped, f"{group} skips {len(skipped)} of {at}: committed {read}, skips {skipped[:3]}"
    after = [s.value for s in records if s.offset >= kept.offset]
    twice = [v for v in after if v in order and order[v] < read]
    if twice and proven and scene.pair.event != "new-guest":
        assert group in report["groups"]["repeats"], f"{group} repeats {len(twice)} of {at}, unreported"


def _never_both(scene: Scene) -> None:
    """The old primary is back: what was printed fences it."""
    scene.heal(primary=True)
    state = flow_state(scene.state())
    if state.get(PendingFence) is not None:
        said = finish(scene.types("fence", "pay"))
        assert said.code == 0, shown(said)
    for topic in scene.moving:
        theirs, ours = (_values(scene, cluster, topic) for cluster in (scene.source, scene.target))
        twice = {v: n for v, n in ours.items() if n > 1 and n > theirs[v]}
        assert not twice, f"{topic}: copied twice: {twice}"
    for topic in scene.moving:
        refused = [e is not None for e in answers(scene.source, topic, [b"both sides are open"])]
        assert refused == [True], f"both clusters take writes of {topic}"
    for topic in {scene.orders, scene.pay} - {*scene.moving}:
        assert answers(scene.source, topic, [b"it has not moved"]) == [None], topic


# -- ABORTED, or never begun --------------------------------------------------------------------------------


def _primary_is_right(scene: Scene) -> None:
    """It takes writes, which are copied; the fence of one that was dead is lifted by what was printed."""
    scene.heal(primary=True)
    state = flow_state(scene.state())
    assert not [t for t in scene.moving if (r := state.get(RoleRecord, t)) is not None and r.is_promoted]
    if state.get(PendingLift) is not None:
        said = finish(scene.types("fence", "pay"))
        assert said.code == 0, shown(said)
    for topic in (scene.orders, scene.pay):
        value = b"still here %d" % now_ms()
        assert answers(scene.source, topic, [value]) == [None], f"{topic} takes no writes"
    scene.stop_replicating()
    scene.replicate()
    scene.application.stop()
    for topic in scene.moving:
        eventually(partial(_same, scene, topic), 60, f"the copy of {topic} continues: {scene.said()}")


def _same(scene: Scene, topic: str) -> bool:
    """Every acknowledged record is copied."""
    there = {s.value for records in scene.records(scene.target, topic).values() for s in records}
    return {a.value for a in scene.application.acked if a.topic == topic} <= there
