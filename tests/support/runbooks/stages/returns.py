"""Stages of refused returns: an old primary with records of its own, and a decision that is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from drkit.local.cluster import LocalCluster
from drkit.local.spec import ClusterSpec
from tests.support.errors import longest_part, sentence
from tests.support.failback.pair import Side
from tests.support.failover.world import World
from tests.support.flows.produce import fill
from tests.support.runbooks.scene import Scene
from tests.support.runbooks.stage import Stages
from tests.support.runbooks.stages.pairs import fail_over, switch_over
from tests.support.waiting import eventually

STAGES: Final = Stages()
_CUT: Final = '--clients-cut "HOW"'
_DRY: Final = f"drkit reprotect --dry-run {_CUT}"
_NO_AUTHORIZER: Final = "the old primary has no authorizer"
_DELTA: Final = 'drkit reprotect --resume --method TOPIC=delta --disposition TOPIC=discard --reason "WHY"'
_EXPORT: Final = "drkit divergence export --to /exports"
_REBUILD: Final = (
    f'{_DRY} --export-to PLACE --disposition TOPIC=discard --method TOPIC=rebuild --reason "WHY"'
)
_TO_THIRD: Final = "drkit reprotect --flow 'primary->standby' --to CLUSTER"
_UNTIL: Final = f"drkit reprotect --export-to PLACE --until-export {_CUT}"


def _with_a_tail(scene: Scene) -> Side:
    side = fail_over(scene).now
    scene.values["PLACE"] = scene.values["/exports"] = str(scene.folder / "saved")
    scene.values["FILE"] = str(scene.folder / "records.jsonl")
    return side


def _file_of(manifest: Path) -> Path:
    return next(file for file in sorted(manifest.parent.rglob("*")) if file.is_file() and file != manifest)


@STAGES.of("reprotect-undecided", _DRY, longest_part("export_place_missing"), branches=(_NO_AUTHORIZER,))
def decide_nothing(scene: Scene) -> None:
    _with_a_tail(scene)
    scene.codes[_UNTIL] = 3


@STAGES.of("divergence-classes", "drkit divergence", "diverged", branches=("it is diverged",))
def diverge(scene: Scene) -> None:
    _with_a_tail(scene)
    scene.codes[_UNTIL] = 3


@STAGES.of("reprotect-members", f"drkit reprotect --dry-run {_CUT}")
def read_on_the_old_primary(scene: Scene) -> None:
    pair = switch_over(scene, _CUT)
    side = pair.now
    side.failover_fields["repoint"] = [{"kind": "file", "path": str(scene.folder / "endpoint.json")}]
    consumer = side.consumer(side.source, side.name("left"))
    consumer.subscribe([scene.values["TOPIC"]])
    eventually(lambda: consumer.poll(0.1) or consumer.assignment(), what="a member")
    scene.before["drkit reprotect"] = consumer.close


@STAGES.of("reprotect-old-primary-open", _DRY, branches=("it has records of its own",))
def take_the_fence_away(scene: Scene) -> None:
    side, topic = switch_over(scene).now, scene.values["TOPIC"]
    scene.values["PLACE"] = str(scene.folder / "saved")
    scene.values["FILE"] = str(scene.folder / "records.jsonl")
    side.configure(side.source, topic, "max.message.bytes", "1048588")
    fill(side.source, topic, 3, first=700)


@STAGES.of(
    "reprotect-not-ready",
    f"{_DRY} --export-to PLACE",
    sentence("fewer_partitions"),
    branches=("the old primary has more partitions",),
)
def add_a_partition(scene: Scene) -> None:
    pair = fail_over(scene)
    side, topic = pair.now, scene.values["TOPIC"]
    scene.values["PLACE"] = str(scene.folder / "saved")
    side.grow(side.source, topic, 2)
    scene.after = lambda: side.grow(side.target, topic, 2)


@STAGES.of(
    "reprotect-forget",
    "drkit reprotect --forget TOPIC --dry-run",
    sentence("can_still_fail_back", topics="…"),
)
def delete_on_the_new_primary(scene: Scene) -> None:
    pair = fail_over(scene)
    side, topic = pair.now, scene.values["TOPIC"]
    scene.values["PLACE"] = str(scene.folder / "saved")
    side.delete(side.target, topic)
    scene.before["drkit reprotect --forget TOPIC --dry-run"] = lambda: side.delete(side.source, topic)


@STAGES.of("reprotect-new-primary", _DRY)
def delete_what_was_promoted(scene: Scene) -> None:
    delete_on_the_new_primary(scene)


@STAGES.of("reprotect-method-not-sound", _DELTA, sentence("delta_out_of_order"))
def choose_delta(scene: Scene) -> None:
    _with_a_tail(scene)
    scene.prepare(_UNTIL, 3)


@STAGES.of("reprotect-wrong-pair", _DRY, sentence("reverse_flow_excludes"))
def leave_a_topic_out(scene: Scene) -> None:
    pair = switch_over(scene)
    pair.other.flow_fields["topics_exclude"] = [scene.values["TOPIC"]]
    scene.before["drkit status"] = lambda: pair.other.flow_fields.pop("topics_exclude")


@STAGES.of("export-not-whole", _EXPORT)
def silence_the_old_primary(scene: Scene) -> None:
    pair = fail_over(scene)
    scene.values["/exports"] = str(scene.folder / "saved")
    scene.silence(pair.now.source)
    scene.before[_EXPORT] = scene.servers.clear


@STAGES.of("export-place", _EXPORT, sentence("export_not_written"))
def name_a_file_as_the_place(scene: Scene) -> None:
    _with_a_tail(scene)
    other, file = str(scene.folder / "other"), scene.folder / "file"
    file.write_text("no folder", encoding="utf-8")
    scene.values |= {"/exports": str(file), "s3://bucket/exports": other}
    scene.after = lambda: scene.values.update({"/exports": other})


@STAGES.of("export-altered", "drkit divergence verify /exports/RUN/manifest.json")
def alter_an_export(scene: Scene) -> None:
    _with_a_tail(scene)
    scene.prepare(_EXPORT)
    manifest = next((scene.folder / "saved").rglob("manifest.json"))
    file = _file_of(manifest)
    scene.values |= {
        "/exports/RUN/manifest.json": str(manifest),
        "HASH": json.loads(manifest.read_text(encoding="utf-8"))["sha256"],
    }
    scene.codes["drkit divergence verify /exports/RUN/manifest.json --sha256 HASH"] = 3
    original = file.read_bytes()
    file.write_bytes(original[:-1] + b" ")
    scene.after = lambda: file.write_bytes(original)


@STAGES.of("reprotect-other-flow", _REBUILD, sentence("other_flow_reads"))
def read_it_by_another_flow(scene: Scene) -> None:
    side = _with_a_tail(scene)
    scene.tables["clusters"] = {"reports": {"bootstrap_servers": "127.0.0.1:1"}}
    reports = {**side.flow_fields, "target": "reports"}
    flows = side.plain()["flows"]
    scene.plain = lambda: {**side.plain(), "flows": [*flows, reports]}
    scene.before["drkit reprotect --plan"] = lambda: setattr(scene, "plain", side.plain)


@STAGES.of("reprotect-third-cluster", _TO_THIRD)
def configure_no_flow_to_it(scene: Scene) -> None:
    side = fail_over(scene).now
    cluster = LocalCluster(ClusterSpec("third")).start()
    scene.cleanups.callback(cluster.stop)
    if side.topic(side.target, "heartbeats").error:  # this replicator copies what it finds at its start
        side.create(side.target, "heartbeats", 1, {})
    third = World(scene.target, cluster, scene.folder / "journal", tag=side.tag, sides="bc", groups=["none"])
    scene.cleanups.callback(third.close)
    scene.tables["clusters"] = {third.target.alias: {"bootstrap_servers": cluster.bootstrap()}}
    there, back = third.source.alias, third.target.alias
    scene.values |= {"CLUSTER": back, "standby->CLUSTER": f"{there}->{back}"}

    def configure() -> None:
        scene.plain = lambda: {**side.plain(), "flows": [*side.plain()["flows"], third.flow_fields]}
        scene.worlds.append(third)

    scene.before[_TO_THIRD] = configure
